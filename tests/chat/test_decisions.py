"""The controller's decisions in words that follow its estimate."""

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.chat.decisions import reason
from localspec.chat.looks import place
from localspec.chat.session import Live
from localspec.engine.events import Cycle, Source

DRAFTED = Cycle(3, "lookup", 15, "x", 9, 8, 9, 0.1, 30.0, expected=9.1, gain=2.3)
PLAIN = Cycle(4, "none", 0, "", 0, 0, 1, 0.0, 20.0)


def test_a_draft_tells_what_it_promised_for_which_price() -> None:
    """9.1 tokens at 2.3 times plain speed take the time of four passes."""
    assert reason(DRAFTED) == "Lookup, 15 tokens: expects 9.1 tokens for 4.0 passes, 2.30x plain."
    one = replace(DRAFTED, drafter="draft", proposed=1, expected=1.8, gain=1.2)
    assert reason(one) == "Draft model, 1 token: expects 1.8 tokens for 1.5 passes, 1.20x plain."


def test_a_draft_tells_where_it_was_copied_from() -> None:
    cycle = replace(DRAFTED, source=Source("/somewhere/shelf.py", 1200))
    assert reason(cycle).startswith("Lookup, 15 tokens from /somewhere/shelf.py line 1,200: expects")


def test_a_draft_of_fixed_length_has_no_estimate() -> None:
    assert reason(replace(DRAFTED, expected=None, gain=None)) == "Lookup, 15 tokens."


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (0.8, "Not drafting: the best guess promised 0.80x plain."),
        (1.4, "A plain pass this time; the best guess promised 1.40x plain."),
        (None, "Not drafting: there was nothing to choose from."),
    ],
)
def test_a_plain_pass_says_why(gain: float | None, words: str) -> None:
    assert reason(replace(PLAIN, gain=gain, expected=gain)) == words


def test_nothing_decided_yet_is_no_sentence() -> None:
    live = Live()
    assert reason(live.decided) == "\u2013"
    live.take(DRAFTED)
    live.take(PLAIN)
    assert live.decided == PLAIN


def test_a_place_is_named_from_where_the_person_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place(Source(str(tmp_path / "sub" / "a\x1b.py"), 12)) == "sub/a\u241b.py line 12"
    assert place(Source("answer", 2)) == "this answer's line 2"


def test_a_draft_model_that_drew_nothing_is_told_apart_from_one_that_was_not_asked() -> None:
    looked = replace(PLAIN, expected=2.0, gain=1.2, read=2, passes=1)
    assert reason(looked) == "A draft was begun, but no token of it was sure enough; it had promised 1.20x plain."
    assert reason(replace(looked, passes=0)).startswith("A plain pass this time")
