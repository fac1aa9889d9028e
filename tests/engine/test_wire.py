"""Frames, and errors across them."""

import io
import pickle
import struct

import pytest

from localspec.engine import wire
from localspec.engine.errors import Busy, EngineError, LoadError
from localspec.engine.events import Notice
from localspec.engine.requests import EngineConfig, Request, Segment


def test_messages_come_out_as_they_went_in() -> None:
    messages: list[wire.ToChild | wire.FromChild] = [
        wire.Load(1, EngineConfig("a.gguf", draft="b.gguf")),
        wire.Generate(2, Request((Segment("x" * 100_000, trusted=True),))),
        wire.Emitted(2, Notice("\ud800 odd text \x00")),
        wire.Shutdown(),
    ]
    stream = io.BytesIO(b"".join(wire.pack(message) for message in messages))
    assert [wire.read_message(stream) for _ in messages] == messages
    assert wire.read_message(stream) is None


@pytest.mark.parametrize("cut", [1, 7, 8, 9, -1])
def test_a_pipe_that_ends_inside_a_frame_is_not_a_clean_end(cut: int) -> None:
    with pytest.raises(wire.WireError, match="ended inside"):
        wire.read_message(io.BytesIO(wire.pack(wire.Cancel(3))[:cut]))


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", pickle.dumps("a string"), pickle.dumps(EngineConfig("no message by itself"))]
)
def test_a_frame_without_a_message_is_refused(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.read_message(io.BytesIO(struct.pack("<Q", len(body)) + body))


def test_a_length_nobody_would_write_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(wire.WireError, match="claims"):
        wire.read_message(io.BytesIO(struct.pack("<Q", 1 << 60) + b"x"))


class OurOwn(LoadError):
    pass


def test_errors_keep_kind_and_text_in_one_line() -> None:
    for error, kind, text in (
        (LoadError("no\n such  file"), LoadError, "no such file"),
        (OurOwn("inherited"), LoadError, "inherited"),
        (Busy(), Busy, "Busy"),
        (KeyError("k"), EngineError, "KeyError: 'k'"),
        (MemoryError(), EngineError, "MemoryError"),
    ):
        back = wire.unpack_error(wire.pack_error(1, error))
        assert type(back) is kind
        assert str(back) == text
