"""The header reader on wrong files: an error that names cause and next step; no crash, no hang, nothing by claim."""

import io
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localspec.models.errors import DamagedGGUF, ModelError, NotGGUF
from localspec.models.gguf import Header, check_file, check_model, parse_header, read_header
from localspec.models.gguf_split import read_model
from tests.models import ggufs
from tests.models.ggufs import Row, Typed, facts, listed, model, pack, text

HUGE = 1 << 60


def parse(data: bytes, size: int | None = None, *, tokens: bool = True) -> Header:
    return parse_header(io.BytesIO(data), len(data) if size is None else size, Path("some.gguf"), tokens=tokens)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty: fetch or copy it again"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "a web page, so the download was an error"),
        (b"\n  <html lang='en'>" + bytes(100), "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "a Git LFS pointer; fetch the file"),
        (b'{"error":"Repository not found"}', "JSON, perhaps a server's error message"),
        (struct.pack("<Q", 40) + b'{"__metadata__":{}}', "safetensors; fetch a GGUF conversion"),
        (b"PK\x03\x04" + bytes(60), "a compressed archive; unpack it"),
        (b"tjgg" + bytes(60), "from before GGUF; fetch a newer conversion"),
        (b"\x7fELF" + bytes(60), "starts with .*ELF"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1, which llama.cpp no longer loads"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version 4; versions 2 and 3 can be loaded"),
        (pack(facts(), [Row("a", (32,), 77)], data=b""), "tensors of the type 77, .* look for an update"),
    ],
)
def test_what_is_no_gguf_is_named_for_what_it_is(tmp_path: Path, data: bytes, said: str) -> None:
    """D4: an HTML page or pointer file named .gguf, and other things people have."""
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(NotGGUF, match=said):
        read_header(path)


@pytest.mark.parametrize("cut", [3, 4, 23, 24, 100, 0.1, 0.25, 0.5, 0.9, -1])
def test_a_cut_file_is_damaged(tmp_path: Path, cut: float) -> None:
    """D4: cut at 3 and 100 bytes, at 50 %, and in other places (0 bytes: see above)."""
    path = model(tmp_path / "m.gguf")
    whole = path.read_bytes()
    assert len(read_model(path).tensors) == 6
    path.write_bytes(whole[: cut if isinstance(cut, int) else int(len(whole) * cut)])
    with pytest.raises(DamagedGGUF, match=r"damaged|incomplete") as caught:
        read_model(path)
    assert "again" in str(caught.value)


def test_an_incomplete_file_says_how_much_is_there(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", width=256)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    header = read_header(path)
    assert header.expected_bytes == len(whole)
    with pytest.raises(DamagedGGUF, match=rf"{len(whole) // 2:,} of {len(whole):,} bytes \(50%\)"):
        check_file(header)


CLAIMS: dict[str, bytes] = {
    "keys": pack(facts(), keys=HUGE),
    "keys, some more than there are": pack(facts(), keys=40),
    "keys, negative": pack(facts(), keys=(1 << 64) - 1),
    "tensors": pack(facts(), ggufs.weights(), rows=HUGE),
    "tensors, some more than there are": pack(facts(), ggufs.weights(), rows=200, data=b""),
    "a key's length": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE) + bytes(99),
    "a text's length": pack({"general.architecture": Typed(8, struct.pack("<Q", HUGE) + b"llama")}),
    "a text's length, all bits": pack({"general.architecture": Typed(8, b"\xff" * 8)}),
    "a list's count": pack({"tokenizer.ggml.tokens": listed(8, HUGE, text("a"))}),
    "a list's count, by a little": pack({"tokenizer.ggml.tokens": listed(8, 3, text("a") + text("b"))}),
    "a text's length in a list": pack({"tokenizer.ggml.tokens": listed(8, 2, text("a") + struct.pack("<Q", HUGE))}),
    "numbers": pack({"tokenizer.ggml.scores": listed(6, HUGE, bytes(99))}),
    "numbers that are read": pack({"tokenizer.ggml.token_type": listed(5, HUGE, bytes(99))}),
    "tokens that are numbers": pack(facts(tokenizer__ggml__tokens=[1, 2, 3])),
    "layers": pack(facts(block_count=0xFFFF_FFFF)),
    "a list of lists": pack({"general.x": listed(9, 1, struct.pack("<IQ", 9, 1))}),
    "an unknown type": pack({"general.x": Typed(77, bytes(8))}),
    "an unknown element type": pack({"general.x": listed(13, 1, bytes(8))}),
    "the same key twice": pack(facts(), keys=len(facts()) + 1)
    + text("general.name")
    + struct.pack("<I", 8)
    + text("B"),
    "an empty key": pack({"": 1}),
    "no alignment": pack(facts(general__alignment=0), ggufs.weights()),
    "an odd alignment": pack(facts(general__alignment=24), ggufs.weights()),
    "an alignment of another type": pack(facts(general__alignment="32"), ggufs.weights()),
    "a text where a number belongs": pack(facts(block_count="two")),
    "a negative number": pack(facts(context_length=ggufs.number(5, -1))),
    "a number where a text belongs": pack(facts(name=3)),
    "a list where a number belongs": pack(facts(context_length=[1, 2])),
    "too few per-layer values": pack(facts(head_count_kv=[1])),
    "a flag that is a number": pack(facts(add_bos_token=1)),
    "dimensions": pack(facts(), [Row("a", (1,) * 5)]),
    "no dimensions": pack(facts(), [Row("a", ())]),
    "a shape": pack(facts(), [Row("a", (HUGE, HUGE), offset=0)], data=b""),
    "a broken row": pack(facts(), [Row("a", (33,), "Q4_0", offset=0)], data=b""),
    "a tensor twice": pack(facts(), [Row("a"), Row("a")]),
    "a tensor without a name": pack(facts(), [Row("")]),
    "a tensor's name": pack(facts(), [Row("a" * 64)]),
}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("tokens", [False, True])
def test_what_lies_is_damaged_and_costs_nothing(name: str, tokens: bool) -> None:
    """Counts that lie, texts of 2^60 bytes, shapes past the end: refused in a line, nothing allocated by claim."""
    data = CLAIMS[name]
    tracemalloc.start()
    try:
        with pytest.raises(DamagedGGUF) as caught:
            parse(data, tokens=tokens)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    said = str(caught.value)
    assert said.startswith("some.gguf is damaged: ")
    assert said.endswith("; fetch or copy it again")
    assert said.isprintable()


class Endless(io.RawIOBase):
    """A file that claims to be enormous and holds zeros behind its beginning."""

    def __init__(self, start: bytes) -> None:
        self.start, self.at, self.most = start, 0, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset
        return offset

    def read(self, count: int = -1) -> bytes:
        self.most = max(self.most, count)
        chunk = self.start[self.at : self.at + count]
        return chunk + bytes(count - len(chunk))


@pytest.mark.parametrize(
    "value",
    [
        Typed(8, struct.pack("<Q", 1 << 38)),
        listed(8, 1 << 36, b""),
        listed(5, 1 << 36, b""),
        listed(8, 2, text("a") + struct.pack("<Q", 1 << 38)),
    ],
)
def test_a_claim_that_the_file_could_hold_is_bounded_too(value: Typed) -> None:
    """A sparse file of a terabyte makes every claim possible: none is believed further than real models go."""
    file: Any = Endless(pack({"tokenizer.ggml.token_type": value}))
    with pytest.raises(DamagedGGUF):
        parse_header(file, 1 << 40, Path("some.gguf"), tokens=True)
    assert file.most <= 16 << 20


def test_a_file_that_shrinks_while_it_is_read() -> None:
    data = pack(facts(), ggufs.weights())
    with pytest.raises(DamagedGGUF, match="became shorter"):
        parse(data[:600], size=len(data))


@pytest.mark.parametrize("offset", [32, 1, 1 << 40, (1 << 64) - 32])
def test_tensors_must_follow_each_other(tmp_path: Path, offset: int) -> None:
    """D4: offsets past the end, overlapping or unaligned, which llama.cpp refuses."""
    path = tmp_path / "m.gguf"
    path.write_bytes(pack(facts(), [Row("a"), Row("b", offset=offset)], data=bytes(4096)))
    with pytest.raises(DamagedGGUF, match="tensor b is said to start at"):
        check_file(read_header(path))


VALID = pack(facts(general__tags=["x", "y"], split__no=0), ggufs.weights())


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A valid file with bytes flipped, numbers replaced, pieces cut out or repeated, mostly in its first part."""
    data = bytearray(VALID[: draw(st.sampled_from([len(VALID), 6000, 1500]))])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, min(max(len(data) - 1, 0), draw(st.sampled_from([64, 700, 20_000])))))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == 1:
            width = draw(st.sampled_from([4, 8]))
            edge = draw(st.sampled_from([0, 1, 2, 8, 9, 255, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 60, (1 << 64) - 1]))
            data[at : at + width] = (edge % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 2:
            del data[at : at + draw(st.integers(1, 64))]
        elif kind == 3:
            data[at:at] = draw(st.binary(max_size=32))
        else:
            del data[at + 1 :]
    return bytes(data)


@given(st.one_of(broken(), broken(), st.binary(max_size=200).map(lambda b: VALID[:24] + b)), st.booleans())
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_fuzzed_headers_give_a_header_or_one_line(data: bytes, tokens: bool) -> None:
    """D4: 10,000 broken files: each is read or refused in words, and what was read can be asked anything."""
    refused = ""
    try:
        header = parse(data, tokens=tokens)
        check_model(header)
        check_file(header)
    except ModelError as error:
        refused = str(error) or "nothing\n"
    assert refused.isprintable()
    assert len(refused) < 1500
    if not refused:
        assert header.expected_bytes <= header.file_bytes
        assert header.tokens is None or len(header.tokens) == header.vocab_size
