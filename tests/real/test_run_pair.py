"""`localspec run` on the starter pair, as a person types it."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.real.conftest import STARTER, Pair
from tests.real.texts import SOURCE

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
QUESTION = "Write a Python function that merges two sorted lists."


def run(*arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    """`localspec run --pair STARTER --temp 0 ARGUMENTS`, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "run", "--pair", STARTER, "--temp", "0", *arguments],
        cwd=ROOT, capture_output=True, encoding="utf-8", timeout=500, check=False,
        **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def lines_of(*arguments: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """The start line, the lines between, the end line; all counts agree."""
    start, *middle, end = map(json.loads, run("--json", *arguments).stdout.splitlines())
    assert (start["type"], end["type"]) == ("start", "end")
    assert {line["type"] for line in middle} <= {"token", "cycle"}
    tokens = [line for line in middle if line["type"] == "token"]
    cycles = [line for line in middle if line["type"] == "cycle"]
    stats = end["stats"]
    kinds = Counter(token["kind"] for token in tokens)
    assert "".join(token["text"] for token in tokens) == end["text"]
    assert stats["tokens"] == len(tokens) == 1 + sum(cycle["emitted"] for cycle in cycles)
    assert {kind: stats[kind] for kind in ("accepted", "resampled", "bonus", "plain")} == {
        kind: kinds[kind] for kind in ("accepted", "resampled", "bonus", "plain")
    }
    assert (tokens[0]["kind"], tokens[0]["cycle"]) == ("plain", 0)
    assert stats["cycles"] == len(cycles)
    for key in ("proposed", "judged", "accepted"):
        assert stats[key] == sum(cycle[key] for cycle in cycles)
    assert stats["overhead_s"] == pytest.approx(stats["decode_s"] - stats["draft_s"] - stats["verify_s"], abs=1e-6)
    return start, middle, end


@pytest.mark.usefixtures("starter_on_menu")
def test_a_question_answered_with_the_draft_model() -> None:
    """The starter's main job: real tokens of every kind, counted right."""
    start, middle, end = lines_of("--speculate", "draft", QUESTION)
    assert start["draft"] is not None
    kinds = {line["kind"] for line in middle if line["type"] == "token"}
    assert {"accepted", "resampled", "bonus"} <= kinds
    assert "def " in end["text"]


@pytest.mark.usefixtures("starter_on_menu")
@pytest.mark.parametrize("speculate", ["off", "lookup", "auto"])
def test_every_other_way_to_speculate(speculate: str) -> None:
    start, middle, end = lines_of("--speculate", speculate, "--max-tokens", "64", QUESTION)
    assert start["speculate"] == speculate
    drafters = {line["drafter"] for line in middle if line["type"] == "token"}
    assert drafters <= {"off": {"none"}, "lookup": {"none", "lookup"}, "auto": {"none", "lookup", "draft"}}[speculate]
    assert end["stats"]["plain_tokens_per_s"] > 0
    assert "def " in end["text"]


def test_a_piped_file_is_edited_in_colour(starter_on_menu: Pair) -> None:
    """As in `cat file.py | localspec run "Add type hints to this file."`."""
    done = run("--color", "always", "--max-tokens", "96", "Add type hints to this file.", stdin=SOURCE)
    assert "\x1b[" in done.stdout
    plain = run("--max-tokens", "96", "Add type hints to this file.", stdin=SOURCE).stdout
    assert "\x1b" not in plain
    assert "class Ledger" in plain
