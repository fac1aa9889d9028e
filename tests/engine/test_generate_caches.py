"""What the loop leaves in the caches: reuse, rollback, cancel, and the answer after it."""

import numpy as np
import pytest

from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.errors import DecodeError
from localspec.engine.events import Finished, Prefill, Token
from localspec.engine.prompt import common_prefix
from localspec.engine.requests import Request, SamplerSettings
from tests import tiny
from tests.engine.answers import GREEDY_ENDLESS, PLAIN_SAMPLING, REPETITIVE, ask, check_sums, prompt
from tests.engine.conftest import MakeEngine


@pytest.mark.parametrize("mode", ["off", "lookup", "draft", "auto"])
@pytest.mark.parametrize("model", ["target", "hybrid", "sliding"])
def test_what_two_prompts_share_is_decoded_once(make_engine: MakeEngine, model: str, mode: str) -> None:
    """K2: one shared token; an edited message; the identical prompt again; always the answer of a fresh engine."""
    draft = "draft" if mode in ("draft", "auto") else None
    engine = make_engine(model, draft)
    length = None if mode == "off" else 4
    first = "abcdefgh" * 4
    for text, shared in (
        (first, 0),
        (first, len(first) - 1),
        ("abcd" + "hgfe" * 7, 4),
        ("a" + "k" * 20, 1),
        (first, 1),
    ):
        answer = ask(engine, text, speculate=mode, draft_length=length)
        fresh = ask(make_engine(model, draft), text, speculate=mode, draft_length=length)
        assert answer.ids == fresh.ids
        reused = answer.end.stats.prompt_reused
        if model == "target":
            assert reused == shared
        assert answer.prefills[0] == Prefill(reused, len(text), reused)
        check_sums(answer)


def test_a_second_turn_reuses_prompt_and_answer(make_engine: MakeEngine) -> None:
    engine = make_engine("target", "draft")
    letters = SamplerSettings(temperature=0.0, logit_bias=dict.fromkeys(range(4), float("-inf")))
    first = ask(engine, "abcdabcd", speculate="draft", draft_length=4, sampling=letters)
    turn = "abcdabcd" + first.end.text + "kkk"
    second = ask(engine, turn, speculate="draft", draft_length=4)
    assert second.end.stats.prompt_tokens - second.end.stats.prompt_reused <= 4
    assert second.ids == ask(make_engine("target"), turn).ids


def test_an_abandoned_answer_leaves_the_next_one_right(make_engine: MakeEngine) -> None:
    """K2: target and draft stay in step after a cancel at any point."""
    engine = make_engine("target", "twin")
    whole = ask(engine, REPETITIVE)
    for taken in range(1, 24):
        events = engine.generate(
            Request(
                prompt(REPETITIVE[: 4 + taken % 3]), GREEDY_ENDLESS, speculate="draft", draft_length=5, max_tokens=40
            )
        )
        for _ in range(taken):
            next(events)
        events.close()
        again = ask(engine, REPETITIVE, speculate="draft", draft_length=5)
        assert again.ids == whole.ids
        assert again.end.stats.acceptance_rate == 1.0


@pytest.mark.parametrize("mode", ["draft", "auto"])
def test_the_draft_follows_another_conversation(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """K2: the target as its own draft accepts everything, whatever the draft's cache held before."""
    monkeypatch.setattr(Lookup, "draft", lambda *_: Draft(()))
    engine = make_engine("target", "twin")
    for text in ("abcdefgh" * 4, "hgfedcba" * 4, "abcdkkkk" * 4, "abcdkkkk" * 3):
        answer = ask(engine, text, speculate=mode, draft_length=4)
        assert answer.end.stats.judged > 0
        assert answer.end.stats.acceptance_rate == 1.0


def test_a_decode_that_fails_after_reuse_is_tried_once_more(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2: from an empty cache."""
    engine = make_engine("target")
    expected = ask(engine, "abcdefgh").ids
    target = engine._loaded.target
    real, calls = target.decode, []

    def failing(tokens: list[int], rows: int = 1) -> np.ndarray:
        calls.append(len(target.tokens))
        if len(calls) == 1:
            raise DecodeError("status -1")
        return real(tokens, rows)

    monkeypatch.setattr(target, "decode", failing)
    answer = ask(engine, "abcdefgh")
    assert answer.ids == expected
    assert calls[:2] == [7, 0]
    assert answer.end.stats.prompt_reused == 0


def test_without_rollback_nothing_is_drafted_and_that_is_said(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1: a hybrid model whose library keeps no snapshots."""
    monkeypatch.setattr("localspec.engine.load.RECURRENT_ROLLBACK", 0)
    engine = make_engine("hybrid", "draft", cache_dir=None)
    assert engine.info.rollback == "none"
    assert any("without drafting" in notice for notice in engine.info.notices)
    answer = ask(engine, REPETITIVE, speculate="auto")
    assert answer.started.speculate == "off"
    assert answer.end.stats.proposed == 0


@pytest.mark.parametrize("mode", ["lookup", "draft"])
def test_a_hybrid_drafts_within_its_depth(make_engine: MakeEngine, mode: str) -> None:
    """K1: rejected tokens leave a recurrent state too, as far as its snapshots reach."""
    engine = make_engine("hybrid", "draft")
    assert "last pass, 8" in engine.info.rollback
    plain = ask(engine, REPETITIVE, max_tokens=100)
    drafted = ask(engine, REPETITIVE, max_tokens=100, speculate=mode, draft_length=16)
    assert drafted.ids == plain.ids
    assert max(c.proposed for c in drafted.cycles) == 8
    assert drafted.end.stats.resampled > 0
    check_sums(drafted)


@pytest.mark.parametrize("full", [True, False])
def test_a_sliding_window_shorter_than_the_answer(make_engine: MakeEngine, full: bool) -> None:
    """K1: an answer far longer than the window, the same with and without the whole cache."""
    engine = make_engine("sliding", "draft", swa_full=full)
    plain = ask(make_engine("sliding"), REPETITIVE, max_tokens=300)
    for mode in ("lookup", "draft"):
        drafted = ask(engine, REPETITIVE, max_tokens=300, speculate=mode, draft_length=6)
        assert drafted.ids == plain.ids
        check_sums(drafted)


def test_a_cut_that_clears_is_decoded_again_in_batches_and_may_be_cancelled(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K1, P2: a window that has moved on; what was emitted before the cancel is counted, and the text goes on right."""
    engine = make_engine("target", "draft", batch=16, max_draft_length=4)
    plain = ask(make_engine("target"), REPETITIVE)
    target = engine._loaded.target
    real, clears = target.truncate, 0

    def clearing(keep: int) -> int:
        nonlocal clears
        if keep == len(target.tokens):
            return keep
        clears += 1
        if cancel_at == clears:
            engine.cancel()
        return real(0)

    monkeypatch.setattr(target, "truncate", clearing)
    cancel_at = 0
    answer = ask(engine, REPETITIVE, speculate="draft", draft_length=4)
    assert answer.ids == plain.ids
    assert clears > 1
    check_sums(answer)
    clears, cancel_at = 0, 3
    cancelled = ask(engine, REPETITIVE, speculate="draft", draft_length=4)
    assert cancelled.end.reason == "cancelled"
    assert 1 < len(cancelled.ids) < len(plain.ids)
    assert cancelled.ids == plain.ids[: len(cancelled.ids)]
    check_sums(cancelled)


def test_padding_rows_are_neither_drafted_nor_indexed(make_engine: MakeEngine) -> None:
    """V1: vocabularies that differ by padding, on either side."""
    for target, draft in (("target", "padded"), ("padded", "target")):
        engine = make_engine(target, draft)
        for sampling in (GREEDY_ENDLESS, PLAIN_SAMPLING):
            answer = ask(engine, sampling=sampling, speculate="draft", draft_length=4, seed=1, max_tokens=60)
            assert len(answer.ids) == 60
            check_sums(answer)


def test_cancel_in_prefill_and_a_question_after(make_engine: MakeEngine) -> None:
    """S3: stopped within a chunk, and the next answer is right."""
    engine = make_engine("target", "draft", context=2048)
    text = "abcdefgh" * 200
    events = []
    for event in engine.generate(Request(prompt(text), GREEDY_ENDLESS, max_tokens=5)):
        events.append(event)
        if isinstance(event, Prefill) and event.done:
            engine.cancel()
    assert isinstance(events[-1], Finished)
    assert (events[-1].reason, events[-1].text) == ("cancelled", "")
    assert not any(isinstance(e, Token) for e in events)
    assert events[-1].stats.ttft_s is None
    answer = ask(engine, text[:100], speculate="draft", draft_length=4)
    assert answer.ids == ask(make_engine("target"), text[:100]).ids
    assert answer.end.stats.prompt_reused > 0


def test_cancel_in_the_middle_of_an_answer_keeps_the_text(make_engine: MakeEngine) -> None:
    """S4, P2: the cancelled cycle is not counted."""
    engine = make_engine("target", "twin")
    whole = ask(engine)
    answer = []
    for event in engine.generate(Request(prompt("abcabcab"), GREEDY_ENDLESS, speculate="draft", draft_length=3)):
        answer.append(event)
        if isinstance(event, Token) and event.cycle == 5:
            engine.cancel()
    end = answer[-1]
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"
    assert whole.end.text.startswith(end.text)
    tokens = [e for e in answer if isinstance(e, Token)]
    assert end.stats.tokens == len(tokens) == 1 + sum(e.emitted for e in answer if hasattr(e, "emitted"))


def test_common_prefix() -> None:
    for a, b, shared in (("", "", 0), ("abc", "abd", 2), ("abc", "abc", 3), ("ab", "abc", 2), ("xbc", "abc", 0)):
        assert common_prefix(tiny.ids(a) if a and a[0] != "x" else [99] * len(a), tiny.ids(b)) == shared
