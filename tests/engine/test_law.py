"""The law of the whole engine: real llama.cpp, tiny random models, chi-square against the target's exact distribution.

Of each answer the first three tokens count: one from prefill, the others from cycles with a draft. Their exact joint
probabilities come from decoding every prefix with the target alone. Seeds are fixed, so a passing test always passes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from localspec.engine import generate, strategy
from localspec.engine.acceptance import DraftAcceptance
from localspec.engine.context import ContextOptions, stretches
from localspec.engine.controller import Choice, Controller, Decision, Drawing, Offer
from localspec.engine.distribution import Distribution
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.encoder_context import open_context
from localspec.engine.engine import Engine
from localspec.engine.events import Cycle, Token
from localspec.engine.llama import Model
from localspec.engine.prompt import PromptEncoder
from localspec.engine.requests import EngineConfig, Request, SamplerSettings
from localspec.engine.sampling import Sampler
from localspec.engine.verify import Verdict
from tests import tiny
from tests.engine.answers import prompt

SAMPLES = 5_000
TOKENS = 3
ACCEPTED_P = 1e-4
"""A right engine fails a test at this level once in 10,000 seeds; the planted faults fall far below."""

NEVER = dict.fromkeys(range(tiny.FIRST_LETTER), float("-inf"))
FREE = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias=NEVER)
FILTERED = replace(FREE, top_k=6, top_p=0.9, temperature=0.8)
PENALISED = replace(FREE, repeat_penalty=1.3, frequency_penalty=0.05, presence_penalty=0.2)
"""What stood a dozen times may still come: lookup guesses it."""

SETTINGS = {"free": FREE, "filtered": FILTERED, "penalised": PENALISED}

UNSURE = 0.2
"""A draft here ends before a token whose most probable choice has no more: some do after one token, some after two."""

TEXT = "".join(f"b{letter}ed" for letter in "acdefghijkl") + "b"
"""Wherever sampling goes from here, the pair it ends in stood before, so that lookup has a guess."""

Law = dict[tuple[int, ...], float]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("law")
    return {
        "target": tiny.write_llama(root / "target.gguf", seed=11, scale=1.2),
        # The same directions, less sharp: a draft that agrees often and not always.
        "draft": tiny.write_llama(root / "draft.gguf", seed=11, scale=0.6),
    }


def exact_law(file: Path, settings: SamplerSettings) -> Law:
    """The joint law of the answer's tokens, from the target alone."""
    model = Model(str(file))
    context = open_context(model, ContextOptions(512, outputs=1, flash_attn="on"))
    sampler = Sampler(settings, model.vocab_size)
    start = PromptEncoder(model).encode(prompt(TEXT))
    text = len(start) if context.encodes else 0
    law: Law = {(): 1.0}
    for _ in range(TOKENS):
        longer: Law = {}
        for tokens, probability in law.items():
            sequence = [*start, *tokens]
            context.truncate(0 if model.is_recurrent else min(len(context.tokens), len(start) - 1))
            for begin, end in stretches(len(context.tokens), len(sequence), 512, text):
                row = context.decode(sequence[begin:end])[-1]
            next_law = sampler.distribution(row, sequence)
            ids = range(len(next_law.probs)) if next_law.ids is None else next_law.ids
            for token, share in zip(ids, next_law.probs, strict=True):
                if share > 0:
                    longer[(*tokens, int(token))] = probability * float(share)
        law = longer
    context.close()
    model.close()
    assert sum(law.values()) == pytest.approx(1.0)
    return law


def draw(
    files: dict[str, Path],
    settings: SamplerSettings,
    mode: str,
    length: int | None = 2,
    samples: int = SAMPLES,
    drafters: Counter[str] | None = None,
    **fields: Any,
) -> tuple[Counter, float]:
    """Counts of answers, and the acceptance rate of the drafts in them; `drafters` counts the cycles of each.

    `fields` are further ones of the request. Without a `draft` among the files the target's heads draft.
    """
    draft = str(files["draft"]) if "draft" in files else None
    drafter = "mtp" if draft is None else "self" if mode == "self" else "draft"
    engine = Engine(
        EngineConfig(str(files["target"]), draft, drafter, context=512, threads=1, flash_attn="on")  # type: ignore[arg-type]
    )
    counts: Counter[tuple[int, ...]] = Counter()
    judged = accepted = 0
    for seed in range(samples):
        # Two more than count: a cycle drafts less than is still wanted.
        request = Request(
            prompt(TEXT), settings, speculate=mode, draft_length=length, max_tokens=TOKENS + 2, seed=seed, **fields
        )  # type: ignore[arg-type]
        tokens: list[int] = []
        for event in engine.generate(request):
            if isinstance(event, Token):
                tokens.append(event.id)
            elif isinstance(event, Cycle):
                judged, accepted = judged + event.judged, accepted + event.accepted
                if drafters is not None:
                    drafters[event.drafter] += 1
                if len(tokens) >= TOKENS:
                    break
        counts[tuple(tokens[:TOKENS])] += 1
    engine.close()
    return counts, accepted / max(1, judged)


def p_value(counts: Counter, law: Law) -> float:
    """Chi-square of the counts against the law; outcomes expected fewer than 8 times are one class."""
    assert set(counts) <= set(law), "an outcome the target can never give"
    total = sum(counts.values())
    frequent = [outcome for outcome, share in law.items() if share * total >= 8]
    observed = [counts[o] for o in frequent]
    expected = [law[o] * total for o in frequent]
    if (rest := total - sum(expected)) > 8:
        observed.append(total - sum(observed))
        expected.append(rest)
    else:
        expected = [e * sum(observed) / sum(expected) for e in expected]
    assert len(expected) > 20
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
@pytest.mark.parametrize("settings", list(SETTINGS))
def test_the_engine_keeps_the_targets_law(files: dict[str, Path], settings: str, mode: str) -> None:
    counts, acceptance = draw(files, SETTINGS[settings], mode)
    if mode != "off":
        assert 0.05 < acceptance < 0.95, "the rule must be seen both ways"
    assert p_value(counts, exact_law(files["target"], SETTINGS[settings])) > ACCEPTED_P


@pytest.mark.parametrize("mode", ["draft", "auto"])
def test_a_draft_that_may_end_early_keeps_the_law(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Lengths of the controller's choosing: a draft ends before a token it is unsure of, and keeps what it drew."""
    lengths: Counter[int] = Counter()
    real = ModelDrafter.draft

    def counting(self: ModelDrafter, *arguments: Any) -> Draft:
        draft = real(self, *arguments)
        lengths[len(draft.tokens)] += 1
        return draft

    def draws(self: Drawing, stands: float) -> bool:
        more = self.drawn == 0 or stands > UNSURE
        self.drawn += more
        return more

    def chosen(self: Controller, offers: Sequence[Offer], limit: int, cost: object, **_: object) -> Decision:
        choice = Choice(0, limit, 2.0, 2.0) if limit else None
        return Decision(choice, choice)

    monkeypatch.setattr(DraftAcceptance, "of", lambda self, top: top)
    monkeypatch.setattr(strategy, "CHEAP", float("inf"))
    monkeypatch.setattr(Drawing, "draw", draws)
    monkeypatch.setattr(Drawing, "go_on", lambda self: True)
    monkeypatch.setattr(ModelDrafter, "draft", counting)
    monkeypatch.setattr(Lookup, "draft", lambda *_: Draft(()))
    monkeypatch.setattr(Controller, "choose", chosen)
    counts, acceptance = draw(files, FREE, mode, length=None)
    assert min(lengths[1], lengths[2]) > SAMPLES / 20
    assert 0.05 < acceptance < 0.95
    assert p_value(counts, exact_law(files["target"], FREE)) > ACCEPTED_P


# -- planted faults: each must be caught by the same test --

Rule = Callable[..., Verdict]


def fresh_draw(
    draft: list[int], _probs: object, target: Callable[[int], Distribution], rng: np.random.Generator
) -> Verdict:
    """C4: draw from the target at each place; on a match go on, otherwise keep a second, fresh draw."""
    for i, token in enumerate(draft):
        if target(i).sample(rng) != token:
            return Verdict(i, target(i).sample(rng))
    return Verdict(len(draft), target(len(draft)).sample(rng))


def whole_redraw(
    draft: list[int], probs: list[Distribution] | None, target: Callable[[int], Distribution], rng: np.random.Generator
) -> Verdict:
    """C4: the replacement drawn from the whole target instead of the excess."""
    for i, token in enumerate(draft):
        share = 1.0 if probs is None else probs[i].prob(token)
        if rng.random() * share >= target(i).prob(token):
            return Verdict(i, target(i).sample(rng))
    return Verdict(len(draft), target(len(draft)).sample(rng))


@pytest.mark.parametrize(("mode", "rule"), [("lookup", fresh_draw), ("lookup", whole_redraw), ("draft", whole_redraw)])
def test_biased_rules_are_caught(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mode: str, rule: Rule
) -> None:
    """C4, through the whole engine."""
    monkeypatch.setattr(generate, "rejection", rule)
    counts, _ = draw(files, FREE, mode)
    assert p_value(counts, exact_law(files["target"], FREE)) < ACCEPTED_P / 1000


def test_a_draft_token_taken_back_for_its_value_is_caught(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropping a drawn token because its own probability is low biases the output."""
    real = ModelDrafter.draft

    def dropping(self: ModelDrafter, *arguments: Any) -> Draft:
        draft = real(self, *arguments)
        assert draft.probs is not None
        keep = 0
        while keep < len(draft.tokens) and draft.probs[keep].prob(draft.tokens[keep]) >= 0.15:
            keep += 1
        return Draft(draft.tokens[:keep], draft.probs[:keep])

    monkeypatch.setattr(ModelDrafter, "draft", dropping)
    counts, _ = draw(files, FREE, "draft")
    assert p_value(counts, exact_law(files["target"], FREE)) < ACCEPTED_P / 1000


def test_a_penalty_that_sees_rejected_tokens_is_caught(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """C5, in the law: rejected tokens left in the history that the penalties count."""
    real = generate.Reply._law
    leaked: list[int] = []

    def leaking(self: generate.Reply, row: np.ndarray, history: list[int], place: int = 0) -> Distribution:
        return real(self, row, [*history, *leaked], place)

    real_draft = ModelDrafter.draft

    def remembering(self: ModelDrafter, history: list[int], limit: int) -> Draft:
        draft = real_draft(self, history, limit)
        leaked[:] = draft.tokens
        return draft

    monkeypatch.setattr(generate.Reply, "_law", leaking)
    monkeypatch.setattr(ModelDrafter, "draft", remembering)
    harsh = replace(PENALISED, frequency_penalty=0.4)
    counts, _ = draw(files, harsh, "draft")
    assert p_value(counts, exact_law(files["target"], harsh)) < ACCEPTED_P / 1000


def test_a_draft_out_of_step_keeps_the_law(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a drafter proposes, the target's law stands: only acceptance suffers."""
    real = ModelDrafter.draft
    monkeypatch.setattr(ModelDrafter, "draft", lambda self, history, limit: real(self, history[:-1], limit))
    counts, _ = draw(files, FREE, "draft")
    assert p_value(counts, exact_law(files["target"], FREE)) > ACCEPTED_P
