"""The loop over real llama.cpp and tiny models: greedy equality, cuts, clamps, reuse, cancel, counts."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.errors import DecodeError, EngineError, LoadError, PromptTooLong
from localspec.engine.events import Finished, Prefill, Token
from localspec.engine.generate import Engine, common_prefix
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Segment
from tests import tiny
from tests.engine.answers import ENDLESS, GREEDY, GREEDY_ENDLESS, PLAIN_SAMPLING, ask, check_sums, prompt

MakeEngine = Callable[..., Engine]
REPETITIVE = "abcdabcdabcdabcd"


# -- greedy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 5, 16])
@pytest.mark.parametrize("mode", ["lookup", "draft", "auto"])
def test_greedy_text_is_the_targets(make_engine: MakeEngine, mode: str, length: int) -> None:
    """On F32 models of one pass width's rounding the texts are equal."""
    engine = make_engine("target", "draft")
    plain = ask(engine, REPETITIVE, max_tokens=80)
    drafted = ask(engine, REPETITIVE, max_tokens=80, speculate=mode, draft_length=length)
    assert drafted.ids == plain.ids
    assert drafted.end.stats.proposed > 0
    check_sums(plain)
    check_sums(drafted)


@pytest.mark.parametrize("length", [None, 1, 2, 5, 16])
def test_the_target_as_its_own_draft_is_always_right(make_engine: MakeEngine, length: int | None) -> None:
    """C6: any step out of place between the two caches shows here."""
    engine = make_engine("target", "twin")
    plain = ask(engine, max_tokens=200)
    drafted = ask(engine, max_tokens=200, speculate="draft", draft_length=length)
    assert drafted.ids == plain.ids
    if length is not None:
        stats = drafted.end.stats
        assert stats.acceptance_rate == 1.0
        assert stats.resampled == 0
        full = [c for c in drafted.cycles if c.proposed == length]
        assert all((c.accepted, c.emitted) == (length, length + 1) for c in full)
        assert len(full) >= 195 // (length + 1) - 3
    check_sums(drafted)


def test_temperature_zero_accepts_by_argmax(make_engine: MakeEngine) -> None:
    """C3: exactly 0 and the smallest temperatures agree, and neither overflows."""
    engine = make_engine("target", "twin")
    cold = ask(engine, speculate="draft", draft_length=4)
    nearly = ask(
        engine,
        speculate="draft",
        draft_length=4,
        sampling=SamplerSettings(temperature=1e-6, top_k=0, top_p=1.0, min_p=0.0, logit_bias=ENDLESS),
    )
    assert cold.ids == nearly.ids
    assert cold.end.stats.acceptance_rate == nearly.end.stats.acceptance_rate == 1.0


@pytest.mark.parametrize("length", [2, 8, 48])
@pytest.mark.parametrize("mode", ["lookup", "draft"])
def test_penalties_count_emitted_tokens_only(make_engine: MakeEngine, mode: str, length: int) -> None:
    """C5: a rejected token leaves no trace in the history the penalties see."""
    penalised = SamplerSettings(
        temperature=0.0, frequency_penalty=0.9, presence_penalty=0.3, repeat_penalty=1.2, logit_bias=ENDLESS
    )
    engine = make_engine("target", "draft", max_draft_length=48)
    plain = ask(engine, REPETITIVE, sampling=penalised, max_tokens=100)
    drafted = ask(engine, REPETITIVE, sampling=penalised, max_tokens=100, speculate=mode, draft_length=length)
    assert drafted.ids == plain.ids
    assert plain.ids != ask(engine, REPETITIVE, max_tokens=100).ids
    assert drafted.end.stats.resampled > 0


# -- ends and cuts ----------------------------------------------------------------------------------------------------


def forced(*tokens: str | int) -> Callable[[dict[str, np.ndarray]], None]:
    """Weights that make each token of a cycle of `tokens` predict the next one, whatever came before."""
    order = [tiny.ids(t)[0] if isinstance(t, str) else t for t in tokens]

    def tune(ends: dict[str, np.ndarray]) -> None:
        width = ends["token_embd"].shape[1]
        ends["token_embd"][:] = 0
        ends["output"][:] = 0
        for place, (token, following) in enumerate(itertools.pairwise([*order, order[0]])):
            ends["token_embd"][token, place % width] = 100.0
            ends["output"][following, place % width] = 5.0

    return tune


@pytest.fixture
def forced_engine(tmp_path: Path) -> Callable[..., Engine]:
    def make(*tokens: str | int, draft: bool = False) -> Engine:
        files = [tmp_path / "forced.gguf", tmp_path / "forced-draft.gguf"]
        for file in files:
            tiny.write_llama(file, scale=0.0, tune=forced(*tokens))
        return Engine(
            EngineConfig(str(files[0]), str(files[1]) if draft else None, context=256, threads=1, flash_attn="on")
        )

    return make


def test_the_pass_that_only_finds_the_end_is_outside_the_figures(forced_engine: Callable[..., Engine]) -> None:
    """P1: a plain answer yields exactly one token a cycle, whatever ended it."""
    engine = forced_engine("a", "b", "c", tiny.EOS)
    answer = ask(engine, "a", sampling=GREEDY)
    assert answer.end.text == "bc"
    assert answer.end.stats.tokens_per_cycle == 1.0
    assert answer.end.stats.cycles == len(answer.cycles) == 1
    engine.close()


@pytest.mark.parametrize("past_the_end", [False, True])
@pytest.mark.parametrize("length", [None, 3, 8])
@pytest.mark.parametrize("mode", ["off", "draft"])
def test_an_end_token_inside_a_draft_cuts_the_run(
    forced_engine: Callable[..., Engine], mode: str, length: int | None, past_the_end: bool
) -> None:
    """C1: what follows the end token in an accepted draft is not counted, coloured or cached; nor is the end itself."""
    engine = forced_engine("a", "b", "c", "d", "e", tiny.EOS, draft=True)
    if past_the_end:
        assert engine._model_drafter is not None
        engine._model_drafter._ends = frozenset()
    answer = ask(engine, "a", sampling=GREEDY, speculate=mode, draft_length=length)
    assert answer.end.text == "bcde"
    assert answer.end.reason == "end_of_text"
    assert answer.ids == tiny.ids("bcde")
    check_sums(answer)
    assert engine._loaded.target.tokens == tiny.ids("abcde")
    engine.close()


def test_a_rejection_behind_a_stop_is_not_counted(
    forced_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2, C1: the run was cut before it; one that the target answers with its end token was reached."""
    monkeypatch.setattr(Lookup, "draft", lambda *_: Draft(tiny.ids("cdk")))
    for order, stop, reason in (("abcde", ("d",), "stop"), ("abcd", (), "end_of_text")):
        engine = forced_engine(*order, tiny.EOS)
        ask(engine, "a", sampling=GREEDY)  # Measures the plain passes that would otherwise come first.
        answer = ask(engine, "a", sampling=GREEDY, speculate="lookup", draft_length=3, stop=stop)
        assert answer.end.reason == reason
        cycle = answer.cycles[-1]
        assert (cycle.proposed, cycle.accepted, cycle.judged) == (3, 2, 2 if stop else 3)
        check_sums(answer)
        engine.close()


@pytest.mark.parametrize("mode", ["off", "draft", "lookup"])
@pytest.mark.parametrize(("stop", "text"), [("d", "bc"), ("cde", "b"), ("de", "bc"), ("ab", "bcdef"), ("zz", None)])
def test_a_stop_string_cuts_the_run(
    forced_engine: Callable[..., Engine], mode: str, stop: str, text: str | None
) -> None:
    """C1, S2: nothing of the stop is shown, wherever in a draft it was completed."""
    engine = forced_engine("a", "b", "c", "d", "e", "f", draft=True)
    length = None if mode == "off" else 5
    answer = ask(engine, "abcdefa", stop=(stop,), speculate=mode, draft_length=length, max_tokens=20)
    assert answer.end.text == (text if text is not None else ("bcdefa" * 4)[:20])
    assert answer.end.reason == ("stop" if text is not None else "max_tokens")
    check_sums(answer)
    held = engine._loaded.target.tokens
    assert held == ([*tiny.ids("abcdefa"), *answer.ids])[: len(held)]
    engine.close()


@pytest.mark.parametrize("wanted", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
def test_the_wanted_number_is_exact(make_engine: MakeEngine, mode: str, wanted: int) -> None:
    """P2: a limit inside a run."""
    engine = make_engine("target", "twin")
    answer = ask(engine, REPETITIVE, speculate=mode, draft_length=None if mode == "off" else 16, max_tokens=wanted)
    assert len(answer.ids) == wanted
    assert answer.end.reason == "max_tokens"
    check_sums(answer)


def test_an_answer_may_be_empty(forced_engine: Callable[..., Engine]) -> None:
    engine = forced_engine("a", tiny.EOS)
    answer = ask(engine, "a", sampling=GREEDY)
    assert (answer.end.text, answer.ids, answer.end.reason) == ("", [], "end_of_text")
    stats = answer.end.stats
    assert (stats.acceptance_rate, stats.tokens_per_s, stats.speedup, stats.tokens_per_cycle) == (None,) * 4
    assert stats.baseline == "none"
    engine.close()


# -- clamps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["off", "lookup", "draft", "auto"])
def test_a_full_context_ends_the_answer_in_words(make_engine: MakeEngine, mode: str) -> None:
    """K3: context 256, a repetitive prompt, draft length 16, to the end."""
    engine = make_engine("target", "twin", context=256)
    length = None if mode == "off" else 16
    answer = ask(engine, REPETITIVE, speculate=mode, draft_length=length, max_tokens=None)
    assert answer.end.reason == "context_full"
    assert len(REPETITIVE) + len(answer.ids) == 257
    check_sums(answer)


@pytest.mark.parametrize("extra", [0, 1, 2, 5, 6])
def test_a_context_hardly_larger_than_the_prompt(make_engine: MakeEngine, extra: int) -> None:
    """K3: context 1, 2, K, K + 1 larger than the prompt."""
    engine = make_engine("target", "twin", context=len(REPETITIVE) + extra)
    for mode in ("lookup", "draft"):
        answer = ask(engine, REPETITIVE, speculate=mode, draft_length=5, max_tokens=None)
        assert answer.end.reason == "context_full"
        assert len(answer.ids) == extra + 1
        check_sums(answer)


def test_a_batch_smaller_than_the_draft(make_engine: MakeEngine) -> None:
    """K3: the draft is clamped to the batch."""
    plain = ask(make_engine("target", context=128), REPETITIVE)
    engine = make_engine("target", "twin", context=128, batch=8, max_draft_length=32)
    answer = ask(engine, REPETITIVE, speculate="draft", draft_length=16)
    assert answer.ids == plain.ids
    assert max(c.proposed for c in answer.cycles) == 7
    check_sums(answer)


@pytest.mark.parametrize("model", ["target", "hybrid", "sliding"])
@pytest.mark.parametrize("batch", [1, 2, 4, 8, 9])
def test_a_batch_of_few_tokens(make_engine: MakeEngine, model: str, batch: int) -> None:
    """K3: a recurrent state keeps fewer snapshots than the batch has tokens; more are a failed native assertion."""
    engine = make_engine(model, batch=batch, context=128)
    answer = ask(engine, REPETITIVE, speculate="lookup", draft_length=8)
    assert answer.ids == ask(make_engine(model, context=128), REPETITIVE).ids
    assert max(c.proposed for c in answer.cycles) < batch
    check_sums(answer)


def test_a_prompt_too_long_says_by_how_much(make_engine: MakeEngine) -> None:
    engine = make_engine("target", context=16)
    with pytest.raises(PromptTooLong, match=r"20 tokens, 4 more than the context of 16"):
        ask(engine, "abcd" * 5)
    assert ask(engine, "abcd", max_tokens=3).end.stats.tokens == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"draft_length": 0}, "draft length"),
        ({"draft_length": 33}, "between 1 and 32"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"speculate": "draft"}, "no draft model"),
        ({"stop": ("",)}, "stop string"),
        ({"sampling": SamplerSettings(temperature=-1.0)}, "temperature"),
        ({"sampling": SamplerSettings(logit_bias={999: 1.0})}, "logit_bias"),
        ({"seed": -1}, "non-negative"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(
    make_engine: MakeEngine, fields: dict[str, object], message: str
) -> None:
    engine = make_engine("target")
    with pytest.raises(EngineError, match=message):
        ask(engine, **fields)
    assert ask(engine).end.stats.tokens == 40


def test_an_empty_prompt_is_refused(make_engine: MakeEngine) -> None:
    with pytest.raises(EngineError, match="empty"):
        ask(make_engine("target"), "")


# -- caches -----------------------------------------------------------------------------------------------------------


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


# -- cancel, text, refusals -------------------------------------------------------------------------------------------


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


def test_characters_of_several_tokens_are_whole(tmp_path: Path) -> None:
    """S1: bytes are joined across tokens, cycles and kinds; an unfinished one ends as a replacement mark."""
    vocabulary = tiny.vocabulary(26, with_bytes=True)
    at = {text: i for i, (text, _) in enumerate(vocabulary)}
    order = [at[f"<0x{byte:02X}>"] for byte in "😀한a".encode()]
    file = tmp_path / "bytes.gguf"
    tiny.write_llama(file, tokens=vocabulary, scale=0.0, tune=forced(tiny.FIRST_LETTER, *order))
    engine = Engine(EngineConfig(str(file), str(file), context=256, threads=1, flash_attn="on"))
    for mode, length in (("off", None), ("draft", 3), ("lookup", 5)):
        answer = ask(engine, "a", sampling=GREEDY, speculate=mode, draft_length=length, max_tokens=8)
        assert answer.end.text == "😀한a"
        assert [t.text for t in answer.tokens] == ["", "", "", "😀", "", "", "한", "a"]
        check_sums(answer)
        cut = ask(engine, "a", sampling=GREEDY, speculate=mode, draft_length=length, max_tokens=2)
        assert cut.end.text == "\N{REPLACEMENT CHARACTER}"
        assert len(cut.tokens) == 2
    engine.close()


def test_kept_control_tokens_are_spelled_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "role.gguf"
    tiny.write_llama(file, scale=0.0, tune=forced("a", 3, "b"))
    engine = Engine(EngineConfig(str(file), context=64, threads=1, flash_attn="on"))
    assert ask(engine, "a", sampling=GREEDY, max_tokens=3).end.text == "ba"
    kept = ask(engine, "a", sampling=GREEDY, max_tokens=3, keep_control=("<|role|>",))
    assert kept.end.text == "<|role|>ba"
    assert [t.control for t in kept.tokens] == [True, False, False]
    engine.close()


def test_user_text_is_never_a_special_token(make_engine: MakeEngine) -> None:
    """V2: only trusted text spells special tokens, and the begin token stands once."""
    engine = make_engine("begin")
    encode = engine._encoder.encode
    assert encode((Segment("<s>", trusted=True), Segment("ab"))) == [tiny.BOS, *tiny.ids("ab")]
    assert encode((Segment("ab"),)) == [tiny.BOS, *tiny.ids("ab")]
    assert encode((Segment("<|role|>a", trusted=True), Segment("b"))) == [tiny.BOS, 3, *tiny.ids("ab")]
    typed = encode((Segment("a<|role|></s>b"),))
    assert typed.count(tiny.BOS) == 1
    assert not {2, 3} & set(typed)
    assert engine.count((Segment("ab"),)) == 3


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path, tiny_files: dict[str, Path]) -> None:
    """P3: the reason, in one line."""
    (tmp_path / "page.gguf").write_text("<html>not here</html>")
    (tmp_path / "empty.gguf").touch()
    for target, message in (
        (tmp_path / "none.gguf", "does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "page.gguf", "not a GGUF"),
        (tmp_path / "empty.gguf", "not a GGUF"),
    ):
        with pytest.raises(LoadError, match=message) as caught:
            Engine(EngineConfig(str(target), threads=1))
        assert "\n" not in str(caught.value)
    with pytest.raises(LoadError, match="share a vocabulary"):
        Engine(EngineConfig(str(tiny_files["target"]), str(tiny_files["bytes"]), threads=1, context=64))


def test_loading_reports_progress(tiny_files: dict[str, Path]) -> None:
    seen: list[float] = []
    config = EngineConfig(str(tiny_files["target"]), str(tiny_files["draft"]), threads=1, context=64)
    Engine(config, seen.append).close()
    assert seen == sorted(seen)
    assert 0.0 <= seen[0] <= seen[-1] == pytest.approx(1.0)


def test_nothing_is_as_large_as_context_times_vocabulary(make_engine: MakeEngine) -> None:
    """P7: one decode returns only the rows of its own pass."""
    engine = make_engine("bytes", context=2048)
    seen: list[int] = []
    target = engine._loaded.target
    real = target.decode

    def watch(tokens: list[int], rows: int = 1) -> np.ndarray:
        out = real(tokens, rows)
        seen.append(out.size)
        return out

    target.decode = watch  # type: ignore[method-assign]
    ask(engine, "abcdefgh" * 100, speculate="lookup", draft_length=8)
    assert max(seen) <= 9 * target.model.vocab_size


def test_the_same_seed_gives_the_same_text_without_drafting(make_engine: MakeEngine) -> None:
    engine = make_engine("target")
    first = ask(engine, sampling=PLAIN_SAMPLING, seed=7)
    assert first.started.reproducible
    assert first.started.seed == 7
    assert ask(engine, sampling=PLAIN_SAMPLING, seed=7).ids == first.ids
    assert ask(engine, sampling=PLAIN_SAMPLING, seed=8).ids != first.ids
    unseeded = ask(engine, sampling=PLAIN_SAMPLING)
    assert not unseeded.started.reproducible
    assert ask(engine, sampling=PLAIN_SAMPLING, seed=unseeded.started.seed).ids == unseeded.ids


def test_common_prefix() -> None:
    for a, b, shared in (("", "", 0), ("abc", "abd", 2), ("abc", "abc", 3), ("ab", "abc", 2), ("xbc", "abc", 0)):
        assert common_prefix(tiny.ids(a) if a and a[0] != "x" else [99] * len(a), tiny.ids(b)) == shared
