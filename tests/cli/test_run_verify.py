"""`--verify` and `--seed`: what reaches the engine, and one text for one seed through the whole program."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.streams import CommandLine, failed, run
from tests.tiny import vocabulary, write_llama


@pytest.mark.parametrize(
    ("options", "verify", "seed"),
    [
        ((), None, None),
        (("--seed", "7"), None, 7),
        (("--verify", "block", "--seed", "7"), "block", 7),
        (("--verify", "rejection"), "rejection", None),
        (("--verify", "coupled"), "coupled", None),
    ],
)
def test_the_rule_reaches_the_engine(
    cli: CommandLine, model: Path, options: tuple[str, ...], verify: str | None, seed: int | None
) -> None:
    """Unless said otherwise the engine chooses, for it knows what drafts."""
    assert run(cli, model, *options, "hi").code == 0
    request = cli.engines[-1].requests[-1]
    assert (request.verify, request.seed) == (verify, seed)


def test_another_word_is_wrong_usage(cli: CommandLine, model: Path) -> None:
    failed(run(cli, model, "--verify", "typical", "hi"), "--verify", code=2)
    assert not cli.engines


def _answer(files: list[Path], home: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The start line and the end line of a process of its own."""
    models = ["--target", str(files[0]), *(["--draft", str(files[1])] if len(files) > 1 else [])]
    done = subprocess.run(
        [
            sys.executable, "-m", "localspec", "run", *models, "--raw", "--no-history", "--json", "--threads", "1",
            "--max-tokens", "24", "--ctx", "256", *options, "one two one two",
        ],
        env=os.environ | {"LOCALSPEC_HOME": str(home)}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[0], lines[-1]


def test_one_text_for_one_seed_through_the_whole_program(tmp_path: Path) -> None:
    tokens = vocabulary(26, with_bytes=True)
    target = write_llama(tmp_path / "target.gguf", tokens=tokens, seed=3, scale=1.5)
    draft = write_llama(tmp_path / "draft.gguf", tokens=tokens, layers=1, seed=3, scale=0.8)
    ways = [
        ([target], ("--speculate", "off")),
        ([target], ("--speculate", "lookup")),
        ([target, draft], ("--speculate", "draft")),
        ([target, draft], ("--speculate", "draft", "--draft-length", "3")),
    ]
    answers = [_answer(files, tmp_path, "--seed", "5", *way) for files, way in ways]
    assert {start["verify"] for start, _ in answers} == {"coupled"}
    assert len({end["text"] for _, end in answers}) == 1
    assert answers[0][0]["reproducible"] is True
    start, end = _answer([target, draft], tmp_path, "--seed", "6", "--speculate", "off")
    assert (start["seed"], end["text"] == answers[0][1]["text"]) == (6, False)
    start, _ = _answer([target, draft], tmp_path, "--speculate", "draft")
    assert (start["verify"], start["reproducible"]) == ("block", False)
