"""Passes of several sequences: each sequence gets the logits it gets alone, and every pass sees the same context."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec.engine.context import Context, ContextOptions
from localspec.engine.errors import DecodeError, EngineError
from localspec.engine.llama import Model
from localspec.engine.parallel import Job, Sequences, measure
from localspec.engine.requests import EngineConfig
from tests.tiny import ids

PROMPT = ids("abcab")
OTHERS = np.array([ids("cabd"), ids("efgh"), ids("aaaa")], np.int32)


@pytest.fixture
def model(tiny_files: dict[str, Path]) -> Iterator[Model]:
    loaded = Model(str(tiny_files["target"]))
    yield loaded
    loaded.close()


@pytest.fixture
def sequences(model: Model) -> Iterator[Sequences]:
    made = Sequences(model, ContextOptions(context=256, batch=64, outputs=16, sequences=4))
    yield made
    made.close()


def alone(model: Model, tokens: list[int]) -> np.ndarray:
    context = Context(model, ContextOptions(context=64, batch=64, outputs=4))
    try:
        context.decode(PROMPT, 0)
        return context.decode(tokens, len(tokens)).copy()
    finally:
        context.close()


def test_each_sequence_sees_its_own_tokens_only(model: Model, sequences: Sequences) -> None:
    sequences.fill(PROMPT)
    together = sequences.try_out(OTHERS).copy()
    assert together.shape == (3, 4, model.vocab_size)
    for found, tokens in zip(together, OTHERS, strict=True):
        np.testing.assert_allclose(found, alone(model, tokens.tolist()), atol=1e-3)
    assert np.abs(together[0] - together[1]).max() > 0.1


def test_a_pass_leaves_nothing_behind_the_same_pass_gives_the_same_logits(sequences: Sequences) -> None:
    sequences.fill(PROMPT)
    first = sequences.try_out(OTHERS).copy()
    sequences.try_out(OTHERS[::-1].copy())
    np.testing.assert_array_equal(sequences.try_out(OTHERS), first)


def test_one_sequence_can_be_decoded_as_usual_afterwards(model: Model, sequences: Sequences) -> None:
    sequences.fill(PROMPT)
    sequences.try_out(OTHERS)
    np.testing.assert_allclose(sequences.decode(ids("cabd"), 4), alone(model, ids("cabd")), atol=1e-3)


def test_a_pass_that_does_not_fit_is_refused(sequences: Sequences) -> None:
    sequences.fill(PROMPT)
    with pytest.raises(DecodeError, match="do not fit"):
        sequences.try_out(np.zeros((5, 1), np.int32))
    with pytest.raises(DecodeError, match="do not fit"):
        sequences.try_out(np.zeros((4, 5), np.int32))


def job(model: Path, **changes: Any) -> Job:
    config = EngineConfig(str(model), threads=1)
    return Job(**({"config": config, "sequences": (1, 2), "lengths": (0, 3), "rounds": 2, "context": 8} | changes))


def test_every_other_round_goes_back(tiny_files: dict[str, Path]) -> None:
    order = list(job(tiny_files["target"]).order())
    assert order == [
        (0, 1, 0), (0, 1, 3), (0, 2, 0), (0, 2, 3),
        (1, 2, 3), (1, 2, 0), (1, 1, 3), (1, 1, 0),
    ]  # fmt: skip


def test_a_job_survives_the_way_to_its_process(tiny_files: dict[str, Path]) -> None:
    sent = job(tiny_files["target"])
    assert "\n" not in sent.write()
    assert Job.read(sent.write()) == sent


def test_every_pass_of_the_job_is_timed_in_order(tiny_files: dict[str, Path]) -> None:
    told: list[dict[str, Any]] = []
    wanted = job(tiny_files["target"])
    measure(wanted, told.append)
    assert (told[0]["type"], told[0]["target"], told[0]["threads"]) == ("loaded", "target.gguf", 1)
    passes = told[1:]
    assert [(line["round"], line["sequences"], line["length"]) for line in passes] == list(wanted.order())
    assert len(passes) == wanted.passes == 8
    assert all(line["ms"] > 0 for line in passes)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("hybrid", {}, "cannot be cut back"),
        ("target", {"sequences": (64,), "lengths": (16,)}, "1088 tokens a pass"),
    ],
)
def test_what_cannot_be_measured_says_why(
    tiny_files: dict[str, Path], name: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(EngineError, match=reason):
        measure(job(tiny_files[name], **changes), lambda line: None)


COMMAND = [sys.executable, "-u", "-P", "-m", "localspec.engine.parallel"]


def test_as_a_process_it_writes_json_lines_and_nothing_else(tiny_files: dict[str, Path]) -> None:
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(job(tiny_files["target"]).write() + "\n")
        child.stdin.flush()
        lines = [json.loads(line) for line in child.stdout]
    assert [line["type"] for line in lines] == ["loaded", *["pass"] * 8, "end"]


def test_a_missing_file_is_an_error_line(tmp_path: Path) -> None:
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(job(tmp_path / "no.gguf").write() + "\n")
        child.stdin.flush()
        (line,) = [json.loads(line) for line in child.stdout]
    assert (line["type"], line["kind"]) == ("error", "LoadError")
    assert "does not exist" in line["message"]


def test_it_ends_when_its_parent_is_gone(tiny_files: dict[str, Path]) -> None:
    """Closing the pipe ends it, with hours of work left."""
    child = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(job(tiny_files["target"], rounds=10**7).write().encode() + b"\n")
        child.stdin.flush()
        assert b"loaded" in child.stdout.readline()
        child.stdin.close()
        assert child.wait(timeout=20) == 0
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
