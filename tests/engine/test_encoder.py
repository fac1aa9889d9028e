"""Encoder-decoder models (T5) through the whole engine: the text is encoded once, the decoder's text is exact."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as native
import numpy as np
import pytest

from localspec.engine import encoder_context
from localspec.engine.agreement import Agreement, measured
from localspec.engine.context import Aborted, ContextOptions, RollbackDepth
from localspec.engine.encoder_context import EncoderContext, open_context
from localspec.engine.engine import Engine
from localspec.engine.errors import DecodeError, EngineError, LoadError, PromptTooLong
from localspec.engine.events import Prefill
from localspec.engine.llama import AbortFlag, Model
from localspec.engine.parallel import Job, measure
from localspec.engine.probe import probe_rollback
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Segment, Verify
from tests import tiny, tiny_t5
from tests.engine.answers import Answer, ask, check_sums, prompt
from tests.engine.conftest import MakeEngine
from tests.engine.engine_law import ACCEPTED_P, SETTINGS, draw, exact_law, p_value

TEXT = "abcdabcdabcdefgh"
ENDLESS = SamplerSettings(temperature=0.0, logit_bias={tiny_t5.EOS: float("-inf")})
SAMPLED = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias=ENDLESS.logit_bias)
ALIKE = {"flash_attn": "off", "kv_type": "f32"}
"""Passes of every width round alike: the reference decodes token by token."""

MakeContext = Callable[..., EncoderContext]


@pytest.fixture
def make_context(tiny_files: dict[str, Path]) -> Iterator[MakeContext]:
    made: list[EncoderContext] = []

    def make(name: str = "t5", abort: AbortFlag | None = None, **options: Any) -> EncoderContext:
        settings = {"context": 128, "outputs": 17, "batch": 128, "kv_type": "f32", "flash_attn": "off"} | options
        context = open_context(Model(str(tiny_files[name])), ContextOptions(**settings), abort)
        assert isinstance(context, EncoderContext)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()
        context.model.close()


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each text that an encoder reads, target's and draft's alike."""
    lengths: list[int] = []
    real = native.llama_encode

    def counting(context: Any, batch: Any) -> int:
        lengths.append(batch.n_tokens)
        return int(real(context, batch))

    monkeypatch.setattr(encoder_context.native, "llama_encode", counting)
    return lengths


def bare_loop(file: Path, text: list[int], length: int) -> list[int]:
    """Greedy text of the model by the library's calls alone: encode, then one token a decode; `</s>` never comes."""
    model = native.llama_model_load_from_file(str(file).encode(), native.llama_model_default_params())
    params = native.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_threads, params.n_threads_batch = 512, 512, 512, 1, 1
    params.type_k = params.type_v = 0
    params.flash_attn_type = 0
    context = native.llama_init_from_model(model, params)
    vocabulary = native.llama_vocab_n_tokens(native.llama_model_get_vocab(model))
    ids = (native.llama_token * len(text))(*text)
    assert native.llama_encode(context, native.llama_batch_get_one(ids, len(text))) == 0
    token, written = native.llama_model_decoder_start_token(model), []
    for _ in range(length):
        one = (native.llama_token * 1)(token)
        assert native.llama_decode(context, native.llama_batch_get_one(one, 1)) == 0
        row = np.ctypeslib.as_array(native.llama_get_logits_ith(context, -1), shape=(vocabulary,)).copy()
        row[tiny_t5.EOS] = -np.inf
        token = int(row.argmax())
        written.append(token)
    native.llama_free(context)
    native.llama_model_free(model)
    return written


def say(engine: Engine, text: str = TEXT, **fields: Any) -> Answer:
    return ask(engine, text, **({"sampling": ENDLESS} | fields))


# -- exactness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "draft"), [("off", None), ("lookup", None), ("draft", "t5-draft"), ("auto", "t5-draft")]
)
def test_the_engine_says_what_a_bare_loop_says(
    make_engine: MakeEngine, tiny_files: dict[str, Path], mode: str, draft: str | None
) -> None:
    engine = make_engine("t5", draft, **ALIKE)
    rng = random.Random(mode)
    rejected = 0
    for _ in range(8):
        text = "".join(rng.choice("abcdefghijkl"[: rng.choice([2, 4, 12])]) for _ in range(rng.choice([1, 7, 40])))
        answer = say(engine, text, speculate=mode, draft_length=None if mode in ("off", "auto") else 5)
        assert answer.ids == bare_loop(tiny_files["t5"], [*tiny.ids(text), tiny_t5.EOS], 40)
        assert answer.end.stats.prompt_tokens == len(text) + 1
        check_sums(answer)
        rejected += answer.end.stats.resampled
    assert (rejected > 0) is (mode in ("lookup", "draft")) or mode == "auto"


@pytest.mark.parametrize(
    ("name", "verify", "mode"),
    [
        ("free", "rejection", "lookup"),
        ("filtered", "block", "draft"),
        ("penalised", "rejection", "draft"),
        ("penalised", "block", "draft"),
        ("penalised", "coupled", "draft"),
        ("penalised", "coupled", "off"),
    ],
)
def test_sampling_keeps_the_targets_law(tmp_path: Path, name: str, verify: Verify, mode: str) -> None:
    """The law is that of the text and the tokens after it, penalties included."""
    files = {
        "target": tiny_t5.write_t5(tmp_path / "target.gguf", seed=11, scale=1.2),
        "draft": tiny_t5.write_t5(tmp_path / "draft.gguf", seed=11, scale=0.6),
    }
    counts, acceptance = draw(files, SETTINGS[name], mode, verify=verify, samples=2500)
    if mode != "off":
        assert 0.05 < acceptance < 0.95, "the rule must be seen both ways"
    assert p_value(counts, exact_law(files["target"], SETTINGS[name])) > ACCEPTED_P


def test_a_seed_gives_its_text_again_whatever_drafts(make_engine: MakeEngine) -> None:
    engine = make_engine("t5", "t5-draft", **ALIKE)
    # Of a library whose passes agree to the bit for the decoder, whatever those that read a prompt do.
    engine._agreements.known = Agreement(16, prompt=False)
    texts = set()
    for mode, length in (("off", None), ("lookup", 3), ("draft", 4), ("draft", 1)):
        for other in ("", "kkll"):
            if other:
                say(engine, other)
            answer = say(engine, sampling=SAMPLED, speculate=mode, draft_length=length, seed=7, verify="coupled")
            assert answer.started.reproducible
            texts.add(answer.end.text)
    assert len(texts) == 1


def test_the_texts_own_tokens_are_copied(make_engine: MakeEngine) -> None:
    """A summary quotes: the encoder's text is a source of lookup, and is what a copied token names."""
    engine = make_engine("t5", **ALIKE)
    rng = random.Random(5)
    named: Counter[str] = Counter()
    for _ in range(12):
        text = "".join(rng.choice("abcdefghijkl") for _ in range(60))
        answer = say(engine, text, speculate="lookup", draft_length=2)
        for cycle in answer.cycles:
            if cycle.source is not None:
                named[cycle.source.name] += 1
                assert cycle.source.name != "prompt" or cycle.proposed_text[:1] in text
    assert named["prompt"] > 0
    assert named["answer"] > 0


# -- encoded once ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["lookup", "draft", "auto"])
def test_a_text_is_encoded_once_by_each_model(make_engine: MakeEngine, encoded: list[int], mode: str) -> None:
    draft = None if mode == "lookup" else "t5-draft"
    engine = make_engine("t5", draft, **ALIKE)
    each = 2 if mode == "draft" else 1
    encoded.clear()
    seen: dict[str, list[int]] = {}
    for text, reads in (("abcdab", 1), ("abcdab", 0), ("abcdac", 1), ("abcda", 1), ("abcdab", 1), ("abcdab", 0)):
        encoded.clear()
        answer = say(engine, text, speculate=mode, draft_length=4 if mode != "auto" else None)
        if mode != "auto":  # where the draft model may never be asked
            assert encoded == [len(text) + 1] * reads * each
        reused = 0 if reads else len(text)
        assert answer.end.stats.prompt_reused == reused
        assert answer.prefills[0] == Prefill(reused, len(text) + 1, reused)
        assert seen.setdefault(text, answer.ids) == answer.ids
        check_sums(answer)
    assert len({tuple(ids) for ids in seen.values()}) == 3, "what the decoder says must depend on the text"


def test_a_text_that_begins_like_the_last_text_and_its_answer_is_another(make_engine: MakeEngine) -> None:
    """Token by token the caches agree; what an encoder read does not."""
    letters = SamplerSettings(temperature=0.0, logit_bias=dict.fromkeys(range(4), float("-inf")))
    fields: dict[str, Any] = {"speculate": "draft", "draft_length": 4, "max_tokens": 20}
    engine = make_engine("t5", "t5-twin", **ALIKE)
    first = Answer(list(engine.generate(Request(prompt("abc"), letters, **fields))))
    longer = (Segment(f"abc</s>{first.end.text}", trusted=True),)
    second, fresh = (
        Answer(list(one.generate(Request(longer, letters, **fields))))
        for one in (engine, make_engine("t5", "t5-twin", **ALIKE))
    )
    assert second.end.stats.prompt_tokens == len("abc") + 1 + len(first.ids) + 1
    assert second.ids == fresh.ids
    assert second.end.stats.acceptance_rate == 1.0


def test_rejected_tokens_leave_the_decoder_and_the_text_stays(make_context: MakeContext) -> None:
    """Against a context that never held the rejected ones."""
    text = [*tiny.ids("abcdefgh"), tiny_t5.EOS]
    context, fresh = make_context(), make_context()
    for one in (context, fresh):
        one.decode(text)
    context.decode(tiny.ids("abcdef"), 6)
    assert context.truncate(len(text) + 2) == len(text) + 2
    fresh.decode(tiny.ids("ab"), 2)
    assert context.tokens == fresh.tokens
    assert np.array_equal(context.decode(tiny.ids("kl"), 2), fresh.decode(tiny.ids("kl"), 2))
    assert context.truncate(len(text)) == len(text)
    first = make_context()
    first.decode(text)
    assert np.array_equal(context.decode(tiny.ids("c")), first.decode(tiny.ids("c")))


def test_the_first_logits_again_without_reading_again(make_context: MakeContext, encoded: list[int]) -> None:
    text = [*tiny.ids("abcdefgh"), tiny_t5.EOS]
    context = make_context()
    first = context.decode(text).copy()
    context.decode(tiny.ids("abc"), 0)
    assert context.truncate(len(text) - 1) == len(text) - 1
    assert np.array_equal(context.decode(text[-1:]), first)
    assert encoded == [len(text)]
    # Another last token is another text.
    assert context.truncate(len(text) - 1) == len(text) - 1
    other = context.decode(tiny.ids("a")).copy()
    assert encoded == [len(text)] * 2
    assert np.array_equal(other, make_context().decode([*text[:-1], *tiny.ids("a")]))
    assert not np.allclose(other, first)
    assert context.truncate(len(text) - 2) == 0, "an encoder has no prefixes"
    assert (context.tokens, context.text) == ([], [])


def test_the_probe_reads_before_it_decodes(make_context: MakeContext) -> None:
    context = make_context()
    assert probe_rollback(context) == RollbackDepth("unlimited")
    assert context.tokens == []
    assert probe_rollback(make_context(context=12)) == RollbackDepth("unlimited")


# -- limits ------------------------------------------------------------------------------------------------------------


def test_what_would_end_the_process_is_refused(make_context: MakeContext) -> None:
    context = make_context(context=64, batch=24)
    for tokens, rows in ((25, 1), (4, 2), (0, 0)):
        with pytest.raises(DecodeError, match="the encoder reads"):
            context.decode([5] * tokens, rows)
        assert context.tokens == []
    context.decode([5] * 24)
    assert context.room == 40


def test_a_text_that_is_too_long_is_said_with_the_numbers(make_engine: MakeEngine) -> None:
    engine = make_engine("t5", "t5-draft", context=40)
    with pytest.raises(PromptTooLong, match=r"41 tokens, 1 more than the context of 40"):
        say(engine, "a" * 40)
    answer = say(engine, "ab" * 19, speculate="draft", draft_length=4)
    assert (answer.end.reason, len(answer.ids)) == ("context_full", 2)


def test_a_text_may_be_longer_than_the_usual_batch(make_engine: MakeEngine) -> None:
    engine = make_engine("t5", context=None)
    assert engine.info.context == 1024, "room for a text and an answer, as long as the model was trained for"
    text = "abcdefgh" * 110
    assert say(engine, text, max_tokens=3).end.stats.prompt_tokens == 881


def test_an_empty_text_is_refused(make_engine: MakeEngine) -> None:
    with pytest.raises(EngineError, match="the prompt is empty"):
        say(make_engine("t5"), "")


# -- cancel ------------------------------------------------------------------------------------------------------------


def test_an_aborted_text_leaves_an_empty_context(make_context: MakeContext) -> None:
    abort = AbortFlag()
    context = make_context(abort=abort)
    text = [*tiny.ids("abcdefgh"), tiny_t5.EOS]
    expected = make_context().decode(text)
    abort.is_set = True
    with pytest.raises(Aborted):
        context.decode(text)
    assert (context.tokens, context.text) == ([], [])
    abort.is_set = False
    assert np.array_equal(context.decode(text), expected)


@pytest.mark.parametrize("which", ["target", "draft"])
def test_a_cancel_while_a_text_is_read(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    engine = make_engine("t5", "t5-draft", **ALIKE)
    expected = say(engine, speculate="draft", draft_length=4).ids
    real, calls = native.llama_encode, 0

    def cancelling(context: Any, batch: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == (1 if which == "target" else 2):
            engine.cancel()
        return int(real(context, batch))

    monkeypatch.setattr(encoder_context.native, "llama_encode", cancelling)
    answer = say(engine, "kkllkk", speculate="draft", draft_length=4)
    assert (answer.end.reason, answer.end.text) == ("cancelled", "")
    assert calls == (1 if which == "target" else 2)
    for _ in range(2):
        assert say(engine, speculate="draft", draft_length=4).ids == expected


def test_a_cancel_in_the_answer_keeps_the_text(make_engine: MakeEngine, encoded: list[int]) -> None:
    engine = make_engine("t5", "t5-twin", **ALIKE)
    whole = say(engine, speculate="draft", draft_length=3)
    encoded.clear()
    events = engine.generate(Request(prompt(TEXT), ENDLESS, speculate="draft", draft_length=3, max_tokens=40))
    for event in events:
        if getattr(event, "cycle", 0) == 3:
            engine.cancel()
    again = say(engine, speculate="draft", draft_length=3)
    assert again.ids == whole.ids
    assert again.end.stats.acceptance_rate == 1.0, "the twin, whose context is in step"
    assert encoded == []


# -- measuring and keeping ---------------------------------------------------------------------------------------------


def test_measuring_leaves_no_trace(make_engine: MakeEngine, encoded: list[int]) -> None:
    engine = make_engine("t5", "t5-draft", **ALIKE)
    engine.idle(lambda: False)
    assert engine._loaded.target.tokens == []
    expected = say(engine, speculate="draft", draft_length=4).ids
    encoded.clear()
    engine.idle(lambda: False)
    assert say(engine, speculate="draft", draft_length=4).ids == expected
    assert encoded == []


def test_calibration_measures_beside_a_text(make_engine: MakeEngine, tmp_path: Path, encoded: list[int]) -> None:
    engine = make_engine("t5", "t5-draft", cache_dir=str(tmp_path))
    encoded.clear()
    report = engine.calibrate(8.0, lambda _: None)
    assert report.plain_ms[0] is not None
    assert not any("failed" in note for note in report.notes), report.notes
    assert max(encoded) >= 256, "most of a long context is text"


def test_what_cannot_be_kept_is_read_again(make_engine: MakeEngine, tmp_path: Path) -> None:
    engine = make_engine("t5")
    expected = say(engine).ids
    assert engine.save(str(tmp_path / "kept")) == 0
    assert list(tmp_path.iterdir()) == []
    assert engine.restore(str(tmp_path / "kept")) == 0
    assert say(engine).ids == expected


def test_several_sequences_are_not_measured(tiny_files: dict[str, Path]) -> None:
    job = Job(EngineConfig(str(tiny_files["t5"]), threads=1), (1, 2), (0, 2), 1, 32)
    with pytest.raises(EngineError, match="an encoder, which reads one text"):
        measure(job, lambda _: None)


def test_agreeing_passes_are_looked_for_beside_a_text(
    make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes of up to 5 tokens give equal logits here, wider ones do not."""
    context = make_context()
    real = context._logits

    def logits(rows: int) -> np.ndarray:
        found = real(rows)
        found[:] = float(len(context.text)) + (rows > 5)
        return found

    monkeypatch.setattr(context, "_logits", logits)
    assert measured(context, 256) == Agreement(5, prompt=True)
    assert (context.tokens, context.text) == ([], [])


# -- the words ---------------------------------------------------------------------------------------------------------


def test_the_blank_that_the_tokenizer_puts_in_front_is_not_answered(tmp_path: Path) -> None:
    words = tiny_t5.vocabulary(12, extra=("▁", "▁ab", "▁cd"))
    file = tiny_t5.write_t5(tmp_path / "blank.gguf", tokens=words, blank=True)
    engine = Engine(EngineConfig(str(file), context=128, threads=1))
    assert engine.encode(prompt("ab cd")) == [len(words) - 2, len(words) - 1, tiny_t5.EOS]
    leading = SamplerSettings(temperature=0.0, logit_bias={len(words) - 2: 100.0})
    answer = say(engine, "cd", sampling=leading, max_tokens=3)
    assert answer.end.text == "ab ab ab"
    check_sums(answer)
    engine.close()


def test_the_end_token_is_added_once_and_only_where_it_is_wanted(tmp_path: Path, make_engine: MakeEngine) -> None:
    assert make_engine("t5").encode(prompt("ab")) == [*tiny.ids("ab"), tiny_t5.EOS]
    engine = Engine(EngineConfig(str(tiny_t5.write_t5(tmp_path / "bare.gguf", add_eos=False)), context=64, threads=1))
    assert engine.encode(prompt("ab")) == tiny.ids("ab")
    engine.close()


def test_a_model_says_what_it_is(make_engine: MakeEngine) -> None:
    info = make_engine("t5", "t5-draft").info
    assert info.has_encoder
    assert any("has an encoder" in notice for notice in info.notices)
    assert not make_engine("target").info.has_encoder


@pytest.mark.parametrize(("target", "draft", "who"), [("t5", "draft", "target"), ("target", "t5-draft", "draft")])
def test_a_pair_has_two_encoders_or_none(make_engine: MakeEngine, target: str, draft: str, who: str) -> None:
    with pytest.raises(LoadError, match=f"the {who} reads its text with an encoder"):
        make_engine(target, draft)


def test_files_that_would_end_the_process_are_refused(tmp_path: Path) -> None:
    startless = tiny_t5.write_t5(tmp_path / "startless.gguf", start=None)
    with pytest.raises(LoadError, match="names no token that its decoder starts with"):
        Engine(EngineConfig(str(startless), context=64, threads=1))
    embeds = tiny_t5.write_t5(tmp_path / "embeds.gguf", arch="t5encoder")
    with pytest.raises(LoadError, match=r"\(t5encoder\) has an encoder and no decoder"):
        Engine(EngineConfig(str(embeds), context=64, threads=1))
    whole = tiny_t5.write_t5(tmp_path / "whole.gguf")
    with pytest.raises(LoadError, match="has an encoder: its cache can be f16, bf16, f32, not q8_0"):
        Engine(EngineConfig(str(whole), context=64, threads=1, kv_type="q8_0"))
