"""Holding the law of a whole engine against the target's exact one: chi-square of many short answers.

Of each answer the first three tokens count: one from prefill, the others from cycles with a draft. Their exact joint
probabilities come from decoding every prefix with the target alone. Seeds are fixed, so a passing test always passes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from localspec.engine.context import ContextOptions, stretches
from localspec.engine.encoder_context import open_context
from localspec.engine.engine import Engine
from localspec.engine.events import Cycle, Token
from localspec.engine.llama import Model
from localspec.engine.prompt import PromptEncoder
from localspec.engine.requests import EngineConfig, Request, SamplerSettings
from localspec.engine.sampling import Sampler
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

TEXT = "".join(f"b{letter}ed" for letter in "acdefghijkl") + "b"
"""Wherever sampling goes from here, the pair it ends in stood before, so that lookup has a guess."""

Law = dict[tuple[int, ...], float]


def nothing(_model: Model, _tokens: tuple[int, ...]) -> Iterable[int]:
    return ()


def exact_law(
    file: Path, settings: SamplerSettings, forbidden: Callable[[Model, tuple[int, ...]], Iterable[int]] = nothing
) -> Law:
    """The joint law of the answer's tokens, from the target alone; `forbidden` tokens may not follow those so far."""
    model = Model(str(file))
    context = open_context(model, ContextOptions(512, outputs=1, flash_attn="on"))
    start = PromptEncoder(model).encode(prompt(TEXT))
    text = len(start) if context.encodes else 0
    law: Law = {(): 1.0}
    for _ in range(TOKENS):
        longer: Law = {}
        for tokens, probability in law.items():
            bias = settings.logit_bias | dict.fromkeys(forbidden(model, tokens), float("-inf"))
            sampler = Sampler(replace(settings, logit_bias=bias), model.vocab_size)
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
