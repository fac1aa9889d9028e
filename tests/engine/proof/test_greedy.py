"""Answers against the target alone: what is tolerated, and where texts must be equal."""

from dataclasses import replace

import pytest
from scipy import stats

from localspec.engine.agreement import Agreement
from localspec.engine.proof import greedy
from localspec.engine.proof.ground import Said
from localspec.engine.proof.oracle import FLIPPED, Score
from localspec.engine.proof.report import Finding
from tests.engine.answers import ask
from tests.engine.proof.conftest import MakeEngine, found

GAPS = (0.0,) * 20


@pytest.fixture
def said(make: MakeEngine) -> Said:
    """An answer with drafts."""
    answer = ask(make(), "abcabcab", speculate="lookup", draft_length=3, max_tokens=20)
    assert sum(cycle.judged for cycle in answer.cycles) > 0
    return Said([], answer.ids, answer.cycles, replace(answer.started, reproducible=False), 1.0)


def verdict(said: Said, *gaps: float, plain: Said | None = None, promised: bool = False) -> Finding:
    both = [replace(each, started=replace(each.started, reproducible=promised)) for each in (said, plain or said)]
    return greedy._verdict("greedy", "lookup", both[:1], both[1:], [Score((*gaps, *GAPS[len(gaps) :]))], "the argmax")


def test_near_ties_may_fall_either_way(said: Said) -> None:
    other = replace(said, ids=[*said.ids[:5], 99, *said.ids[6:]])
    flipped = verdict(said, 0.3, plain=other)
    assert flipped.state == "ok"
    assert "near ties" in flipped.meaning
    assert (flipped.numbers["flipped"], flipped.numbers["same_tokens"], flipped.numbers["equal"]) == (1, 5, False)
    assert "the text is the one without drafts" in verdict(said).meaning


def test_what_is_no_near_tie_is_wrong(said: Said) -> None:
    assert verdict(said, 0.6).state == "wrong"
    assert "0.60 logits below" in verdict(said, 0.6).meaning
    unlisted = verdict(said, float("inf"))
    assert unlisted.state == "wrong"
    assert unlisted.numbers["worst_gap"] is None
    assert verdict(said, *[0.1] * 9).state == "wrong"


def test_where_passes_agree_to_the_bit_texts_must(said: Said) -> None:
    other = replace(said, ids=[*said.ids[:5], 99, *said.ids[6:]])
    assert verdict(said, 0.1, plain=other, promised=True).state == "wrong"
    assert verdict(said, promised=True).state == "ok"


def test_nothing_drafted_shows_nothing(said: Said) -> None:
    assert verdict(replace(said, cycles=[])).state == "note"
    assert verdict(replace(said, cycles=[]), 0.6).state == "wrong"


def test_equality_is_asked_for_where_the_engine_promises_it(make: MakeEngine) -> None:
    """Tiny models give equal texts, whether their passes agree to the last bit or not."""
    engine = make(kv_type="f32", flash_attn="off")
    for known in (Agreement(), Agreement(16, prompt=True)):
        engine._agreements.known = known
        findings = found(engine, greedy.greedy)
        # The automatic choice may make wider passes than those that agree.
        promised = {subject: each.numbers["equality_promised"] for (_, subject), each in findings.items()}
        assert promised == {"lookup": known.widths > 1, "draft": known.widths > 1, "auto": False}
        assert all(each.state == "ok" and each.numbers["equal"] for each in findings.values())


@pytest.mark.parametrize("positions", [12, 24, 100, 256])
def test_so_many_flips_are_rare_enough(positions: int) -> None:
    most = greedy.allowed(positions)
    assert stats.binom.sf(most, positions, FLIPPED) <= greedy.BY_CHANCE < stats.binom.sf(most - 1, positions, FLIPPED)
