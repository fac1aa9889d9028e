"""The loop over real llama.cpp and tiny models: greedy equality, cuts, clamps, text, counts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.engine import Engine
from localspec.engine.errors import EngineError, PromptTooLong
from localspec.engine.requests import EngineConfig, SamplerSettings
from tests import tiny
from tests.engine.answers import (
    ENDLESS,
    GREEDY,
    PLAIN_SAMPLING,
    REPETITIVE,
    ask,
    check_sums,
)
from tests.engine.conftest import MakeEngine

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


@pytest.mark.parametrize("mode", ["lookup", "auto"])
def test_the_whole_text_is_looked_up(make_engine: MakeEngine, mode: str) -> None:
    """Also the token that the prompt's own pass gave."""
    engine = make_engine("target", "draft")
    answer = ask(engine, REPETITIVE, max_tokens=20, speculate=mode)
    known = engine._lookup._index.tokens
    assert known[-20:] == answer.ids
    assert len(known) == answer.end.stats.prompt_tokens + 20


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


@pytest.fixture
def forced_engine(tmp_path: Path) -> Callable[..., Engine]:
    def make(*tokens: str | int, draft: bool = False) -> Engine:
        files = [tmp_path / "forced.gguf", tmp_path / "forced-draft.gguf"]
        for file in files:
            tiny.write_llama(file, scale=0.0, tune=tiny.forced(*tokens))
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


# -- text, figures -----------------------------------------------------------------------------------------------------


def test_characters_of_several_tokens_are_whole(tmp_path: Path) -> None:
    """S1: bytes are joined across tokens, cycles and kinds; an unfinished one ends as a replacement mark."""
    vocabulary = tiny.vocabulary(26, with_bytes=True)
    at = {text: i for i, (text, _) in enumerate(vocabulary)}
    order = [at[f"<0x{byte:02X}>"] for byte in "😀한a".encode()]
    file = tmp_path / "bytes.gguf"
    tiny.write_llama(file, tokens=vocabulary, scale=0.0, tune=tiny.forced(tiny.FIRST_LETTER, *order))
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
    tiny.write_llama(file, scale=0.0, tune=tiny.forced("a", 3, "b"))
    engine = Engine(EngineConfig(str(file), context=64, threads=1, flash_attn="on"))
    assert ask(engine, "a", sampling=GREEDY, max_tokens=3).end.text == "ba"
    kept = ask(engine, "a", sampling=GREEDY, max_tokens=3, keep_control=("<|role|>",))
    assert kept.end.text == "<|role|>ba"
    assert [t.control for t in kept.tokens] == [True, False, False]
    engine.close()


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
