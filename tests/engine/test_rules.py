"""The rules through the whole engine: the target's law, one text for one seed, and which rule is in force when."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from localspec.engine import agreement, generate
from localspec.engine.agreement import Agreement
from localspec.engine.context import Aborted, Context
from localspec.engine.costs import Costs
from localspec.engine.engine import Engine
from localspec.engine.noise import Noise
from localspec.engine.requests import SamplerSettings, Verify
from localspec.engine.sampling import Sampler
from localspec.engine.verify import Verdict
from tests import tiny
from tests.engine.answers import ENDLESS, GREEDY_ENDLESS, PLAIN_SAMPLING, Answer, ask, check_sums
from tests.engine.conftest import MakeEngine
from tests.engine.engine_law import ACCEPTED_P, FREE, NEVER, SETTINGS, draw, exact_law, p_value
from tests.engine.test_law import files

__all__ = ["files"]
TYPICAL = SamplerSettings(temperature=0.9, top_k=8, top_p=0.95, min_p=0.02, logit_bias=ENDLESS)
PENALISED = replace(PLAIN_SAMPLING, repeat_penalty=1.3, presence_penalty=0.4)
GRAMMAR = "root ::= ([a-d] [e-h] | [i-l] [a-d] [a-d])*"


@pytest.mark.parametrize(
    ("verify", "mode"),
    [("block", "draft"), ("block", "lookup"), ("coupled", "off"), ("coupled", "lookup"), ("coupled", "draft")],
)
@pytest.mark.parametrize("name", list(SETTINGS))
def test_the_engine_keeps_the_targets_law(files: dict[str, Path], name: str, verify: Verify, mode: str) -> None:
    counts, acceptance = draw(files, SETTINGS[name], mode, verify=verify)
    if mode != "off":
        assert 0.03 < acceptance < 0.97, "the rule must be seen both ways"
    assert p_value(counts, exact_law(files["target"], SETTINGS[name])) > ACCEPTED_P


def test_a_block_whose_first_failure_ends_it_is_caught(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def first_failure(draft: list[int], probs: list, law: object, rng: np.random.Generator) -> Verdict:
        rows = [law(i) for i in range(len(draft) + 1)]  # type: ignore[operator]
        weight, kept, scale = 1.0, 0, 1.0
        for i, token in enumerate(draft):
            weight = min(1.0, weight * rows[i].prob(token) / probs[i].prob(token))
            chance = weight
            if i + 1 < len(draft):
                surplus = rows[i + 1].surplus(probs[i + 1], weight)
                chance = surplus / (surplus + 1 - weight) if surplus + 1 - weight > 0 else 1.0
            if rng.random() >= chance:
                break
            kept, scale = i + 1, weight
        if kept == len(draft):
            return Verdict(kept, rows[kept].sample(rng))
        return Verdict(kept, (rows[kept].excess(probs[kept], scale) or rows[kept]).sample(rng))

    monkeypatch.setattr(generate, "block", first_failure)
    counts, _ = draw(files, FREE, "draft", verify="block")
    assert p_value(counts, exact_law(files["target"], FREE)) < ACCEPTED_P / 1000


def test_noise_without_the_position_is_caught(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real = Noise._key
    monkeypatch.setattr(Noise, "_key", lambda self, position: real(self, 0))
    counts, _ = draw(files, FREE, "draft", verify="coupled")
    law = exact_law(files["target"], FREE)
    assert not set(counts) <= set(law) or p_value(counts, law) < ACCEPTED_P / 1000


# -- one text --


WAYS: list[dict[str, object]] = [
    {"speculate": "off"},
    {"speculate": "lookup"},
    {"speculate": "lookup", "draft_length": 7},
    {"speculate": "draft"},
    {"speculate": "draft", "draft_length": 1},
    {"speculate": "draft", "draft_length": 5},
    {"speculate": "draft", "draft_length": 3, "draft_temperature": 0.3},
    {"speculate": "auto"},
]


@pytest.mark.parametrize("settings", [PLAIN_SAMPLING, TYPICAL, PENALISED, GREEDY_ENDLESS])
@pytest.mark.parametrize("bound", [{}, {"grammar": GRAMMAR}], ids=["free", "grammar"])
def test_a_seed_gives_one_text_whatever_is_drafted(
    make_engine: MakeEngine, settings: SamplerSettings, bound: dict[str, str]
) -> None:
    """With the draft, without it and with another, at any length."""
    fields = {"sampling": settings, "verify": "coupled", "max_tokens": 60, **bound}
    answers: list[Answer] = []
    for draft in (None, "draft", "twin", "padded"):
        engine = make_engine("target", draft)
        for way in WAYS:
            if draft is None and way["speculate"] == "draft":
                continue
            answer = ask(engine, "abcabdabc", **fields, seed=11, **way)
            check_sums(answer)
            assert answer.started.verify == "coupled"
            answers.append(answer)
    assert {tuple(answer.ids) for answer in answers} == {tuple(answers[0].ids)}
    assert len({answer.end.stats.cycles for answer in answers}) > 2, "the drafts must differ"
    other = ask(make_engine("target"), "abcabdabc", **fields, seed=12)
    assert (other.ids == answers[0].ids) == (settings.temperature == 0)


def test_a_draft_hears_the_targets_noise(make_engine: MakeEngine) -> None:
    """The target as its own draft is always right; with noise of its own it would often not be."""
    engine = make_engine("target", "twin")
    fields = {"sampling": PLAIN_SAMPLING, "seed": 3, "verify": "coupled", "speculate": "draft", "draft_length": 4}
    assert ask(engine, **fields).end.stats.acceptance_rate == 1.0
    assert engine._model_drafter is not None
    ask(engine, **fields | {"verify": "rejection"})
    assert engine._model_drafter.noise is None


def test_what_the_cache_holds_changes_nothing(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same prompt and seed, read anew or reused to its end."""
    library(monkeypatch, EVEN)
    engine = make_engine("target", "draft")
    fields = {"sampling": PLAIN_SAMPLING, "seed": 5, "verify": "coupled", "speculate": "auto"}
    first = ask(engine, "abcdefgh", **fields)
    again = ask(engine, "abcdefgh", **fields)
    assert again.end.stats.prompt_reused > first.end.stats.prompt_reused == 0
    assert again.ids == first.ids
    assert again.started.reproducible


def test_a_seed_used_again_in_the_next_turn_meets_other_noise(make_engine: MakeEngine) -> None:
    """Positions count from the beginning of the conversation."""
    engine = make_engine("target")
    places: list[int] = []
    real = Noise.draw

    def watching(self: Noise, law: object, position: int) -> int:
        places.append(position)
        return real(self, law, position)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "draw", watching)
        fields = {"sampling": FREE, "seed": 5, "verify": "coupled", "max_tokens": 6}
        first = ask(engine, "abcd", **fields)
        ask(engine, "abcd" + first.end.text + "ab", **fields)
    assert places == [*range(4, 10), *range(12, 18)]


@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
@pytest.mark.parametrize("settings", [FREE, TYPICAL, PENALISED])
@pytest.mark.parametrize("grammar", [None, GRAMMAR], ids=["free", "grammar"])
def test_each_token_is_the_draw_of_the_targets_own_law(
    make_engine: MakeEngine, settings: SamplerSettings, mode: str, grammar: str | None
) -> None:
    """The target alone, text and penalties so far, the grammar's mask made by hand before the filters, the seed's noise
    at the place in the text: nothing else decides a token."""
    engine = make_engine("target", "draft")
    answer = ask(
        engine, "abcab", sampling=settings, seed=21, verify="coupled", speculate=mode, draft_length=3, grammar=grammar
    )
    target, noise = engine._loaded.target, Noise(21)
    sampler, size = Sampler(settings, target.model.vocab_size), target.model.vocab_size
    target.clear()
    text = tiny.ids("abcab")
    row = target.decode(text)[-1]
    written = ""
    for token in answer.ids:
        may = None
        if grammar is not None:
            allowed = np.array([i in tiny.ids(_may_follow(written)) for i in range(size)])
            may = allowed.__getitem__
        assert noise.draw(sampler.distribution(row, text, may), len(text)) == token
        text.append(token)
        written += next(tiny.letters_of([token]))
        row = target.decode([token])[-1]
    assert len(answer.ids) == 40


def _may_follow(written: str) -> str:
    """Letters that GRAMMAR lets come after `written`."""
    open_: list[str] = []
    for letter in written:
        if open_:
            assert letter in open_.pop()
        else:
            open_ = ["efgh"] if letter in "abcd" else ["abcd", "abcd"]
    return open_[-1] if open_ else "abcdijkl"


# -- which rule --


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({}, "block"),
        ({"speculate": "draft"}, "block"),
        ({"speculate": "lookup"}, "rejection"),
        ({"speculate": "off"}, "rejection"),
        ({"sampling": GREEDY_ENDLESS}, "rejection"),
        ({"seed": 0}, "coupled"),
        ({"seed": 0, "speculate": "off"}, "coupled"),
        ({"seed": 0, "verify": "block"}, "block"),
        ({"seed": 0, "verify": "rejection"}, "rejection"),
        ({"verify": "coupled"}, "coupled"),
    ],
)
def test_the_rule_in_force(make_engine: MakeEngine, fields: dict[str, object], rule: str) -> None:
    settings: dict[str, object] = {
        "verify": None, "speculate": "auto", "sampling": PLAIN_SAMPLING, "max_tokens": 4,
    }  # fmt: skip
    assert ask(make_engine("target", "draft"), **settings | fields).started.verify == rule


def test_the_rule_in_force_is_the_one_that_judges(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, asked = make_engine("target", "draft"), Counter[str]()
    for name in ("rejection", "block", "coupled"):
        real = getattr(generate, name)
        monkeypatch.setattr(generate, name, lambda *given, real=real, name=name: asked.update([name]) or real(*given))
    for verify in ("rejection", "block", "coupled"):
        asked.clear()
        ask(engine, sampling=PLAIN_SAMPLING, speculate="draft", draft_length=3, verify=verify, seed=1)
        # A cycle that had no room to draft in goes by the plain draw.
        assert asked.most_common(1)[0][0] == verify
        assert set(asked) <= {verify, "rejection"}


def test_block_sums_up(make_engine: MakeEngine) -> None:
    """Judged are the tokens that stand and the one after them."""
    answer = ask(
        make_engine("target", "draft"),
        sampling=PLAIN_SAMPLING,
        speculate="draft",
        draft_length=4,
        verify="block",
        seed=2,
    )
    check_sums(answer)
    assert 0 < answer.end.stats.accepted < answer.end.stats.judged < answer.end.stats.proposed


# -- to the bit --


EVEN = 10**6


def library(monkeypatch: pytest.MonkeyPatch, widths: int) -> None:
    """A library whose passes agree to the bit up to `widths` tokens: each token is a pass of its own, and wider passes
    are made to differ. llama.cpp's F32 kernels, which tiny models use, differ from the second token on."""
    real = Context.decode

    def decode(self: Context, tokens: list[int], rows: int = 1) -> np.ndarray:
        if len(tokens) > self.room:
            return real(self, tokens, rows)
        found = np.concatenate([real(self, [token], 1).copy() for token in tokens])[len(tokens) - rows :]
        return np.nextafter(found, np.float32(np.inf)) if widths < len(tokens) and rows else found

    monkeypatch.setattr(Context, "decode", decode)


def seeded(engine: Engine, **fields: object) -> Answer:
    settings: dict[str, object] = {
        "text": "abcdabcdabcd", "sampling": PLAIN_SAMPLING, "seed": 1, "verify": None, "speculate": "lookup",
    }  # fmt: skip
    return ask(engine, **settings | fields)


@pytest.mark.parametrize("widths", [1, 2, 5, 15, 16, 255, EVEN])
@pytest.mark.parametrize("context", [512, 1024])
def test_widths_that_agree_are_found(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, widths: int, context: int
) -> None:
    """Passes that read a prompt are as wide as a chunk: where those agree, what was read before may be reused."""
    engine = make_engine("target", context=context)
    library(monkeypatch, widths)
    assert agreement.measured(engine._loaded.target, 256) == Agreement(min(widths, 16), prompt=widths == EVEN)
    assert engine._loaded.target.tokens == []


def test_widths_that_agree_at_a_short_context_alone_are_not_taken(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flash attention has another way for single tokens behind a long text."""
    engine = make_engine("target", context=1024)
    library(monkeypatch, EVEN)
    even = Context.decode

    def decode(self: Context, tokens: list[int], rows: int = 1) -> np.ndarray:
        found = even(self, tokens, rows)
        return found + np.float32(1e-3) if len(self.tokens) > 512 and 3 < len(tokens) <= 16 else found

    monkeypatch.setattr(Context, "decode", decode)
    assert agreement.measured(engine._loaded.target, 256) == Agreement(3)


def test_no_width_is_taken_on_trust_when_time_is_up(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, EVEN)
    assert agreement.measured(make_engine("target")._loaded.target, 256, seconds=0.0) == Agreement()


@pytest.mark.parametrize("target", ["hybrid", "sliding"])
def test_targets_that_cannot_be_cut_anywhere_promise_nothing(make_engine: MakeEngine, target: str) -> None:
    engine = make_engine(target, swa_full=False)
    assert engine._loaded.target.depth.kind != "unlimited"
    assert agreement.measured(engine._loaded.target, 256) == Agreement()
    answer = seeded(engine)
    assert not answer.started.reproducible


@pytest.mark.parametrize(("widths", "longest", "holds"), [(8, 7, True), (4, 3, True), (1, 32, False)])
def test_drafts_keep_to_widths_that_agree(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, widths: int, longest: int, *, holds: bool
) -> None:
    """Where some do. Where none does drafting goes on, and the promise is not made. With a curve on which the longest
    drafts pay: what passes of a tiny model are measured to take on a busy machine is another matter."""
    monkeypatch.setattr(Costs, "relative", lambda self, width, context: 1.0 + 0.05 * (width - 1))
    engine = make_engine("target")
    library(monkeypatch, widths)
    greedy = SamplerSettings(temperature=0.0, logit_bias=NEVER)
    answer = seeded(engine, sampling=greedy, max_tokens=200)
    assert answer.started.reproducible == holds
    assert max(cycle.proposed for cycle in answer.cycles) <= longest
    assert max(cycle.proposed for cycle in answer.cycles) > 1
    free = seeded(engine, sampling=greedy, max_tokens=200, seed=None)
    assert max(cycle.proposed for cycle in free.cycles) > (longest if holds else 1)


@pytest.mark.parametrize(
    ("fields", "holds"),
    [
        ({}, True),
        ({"speculate": "off"}, True),
        ({"draft_length": 15}, True),
        ({"draft_length": 16}, False),
        ({"verify": "rejection"}, False),
        ({"verify": "rejection", "speculate": "off"}, True),
        ({"seed": None, "verify": "coupled"}, False),
        ({"seed": None, "sampling": GREEDY_ENDLESS}, False),
        ({"seed": None, "sampling": GREEDY_ENDLESS, "speculate": "off"}, True),
    ],
)
def test_what_is_promised(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], *, holds: bool
) -> None:
    library(monkeypatch, EVEN)
    assert seeded(make_engine("target"), **fields).started.reproducible == holds


def test_nothing_is_promised_of_a_reused_prompt_whose_passes_differ(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one is read anew then, a long one is not."""
    engine = make_engine("target")
    library(monkeypatch, 20)
    for text, renewed in (("abcdabcdabcd", True), ("hgfedcb" * 40, False)):
        first, again = (seeded(engine, text=text, max_tokens=8) for _ in range(2))
        assert first.started.reproducible
        assert again.started.reproducible == renewed
        assert (again.end.stats.prompt_reused == 0) == renewed
        unseeded = seeded(engine, text=text, max_tokens=8, seed=None)
        assert unseeded.end.stats.prompt_reused > 0


def test_an_agreement_is_tried_once_and_only_where_it_is_wanted(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library(monkeypatch, EVEN)
    tries: list[int] = []
    real = agreement.measured
    monkeypatch.setattr(agreement, "measured", lambda *given: tries.append(1) or real(*given))
    for _ in range(2):
        engine = make_engine("target", cache_dir=str(tmp_path))
        seeded(engine, seed=None)
        seeded(engine, speculate="off")
        seeded(engine)
        seeded(engine)
    assert len(tries) == 1
    assert engine._agreements.known == Agreement(16, prompt=True)
    (tmp_path / "agreement.json").write_text(json.dumps({engine._agreements._key: ["?"]}))
    seeded(make_engine("target", cache_dir=str(tmp_path)))
    assert len(tries) == 2
    seeded(make_engine("target", cache_dir=str(tmp_path), batch=64))
    assert len(tries) == 3, "another shape of passes is another case"


def test_a_cancel_during_the_try_ends_the_answer(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine("target")

    def cancelled(*_: object) -> Agreement:
        engine.cancel()
        raise Aborted("cancelled")

    monkeypatch.setattr(agreement, "measured", cancelled)
    assert seeded(engine).end.reason == "cancelled"
    monkeypatch.undo()
    assert seeded(engine).end.reason == "max_tokens"


@pytest.mark.parametrize(
    ("agreeing", "fields", "chosen"),
    [
        ({"on": 16}, {"seeded": True}, "on"),
        ({"on": 4, "off": 2}, {"seeded": True}, "on"),
        ({"on": 16, "off": 16}, {"seeded": True}, "off"),
        ({}, {"seeded": True}, "off"),
        ({"on": 16}, {}, "off"),
        ({"on": 16}, {"seeded": True, "flash_attn": "off"}, "off"),
    ],
)
def test_an_engine_for_seeds_takes_the_setting_whose_passes_agree(
    make_engine: MakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    agreeing: dict[str, int],
    fields: dict[str, object],
    chosen: str,
) -> None:
    """On a processor whose kernels agree with one kind of flash attention only. Not where nobody asked for a seed, nor
    against a person's own choice; and what is usual here (off) where nothing is won."""

    def measured(context: Context, chunk: int) -> Agreement:
        return Agreement(agreeing.get(context.options.flash_attn, 1))

    monkeypatch.setattr(agreement, "measured", measured)
    engine = make_engine("target", **{"flash_attn": "auto", "context": 1024, **fields})
    assert engine.info.flash_attn == chosen
    assert seeded(engine).started.reproducible == (agreeing.get(chosen, 1) > 1)


def test_what_was_tried_for_the_setting_is_not_tried_again(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[str] = []

    def measured(context: Context, chunk: int) -> Agreement:
        tried.append(context.options.flash_attn)
        return Agreement(16, True)

    monkeypatch.setattr(agreement, "measured", measured)
    for _ in range(2):
        engine = make_engine("target", flash_attn="auto", context=1024, cache_dir=str(tmp_path), seeded=True)
        assert seeded(engine).started.reproducible
    assert tried == ["off"]
