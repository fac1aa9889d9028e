"""What the rules cost on the host: the arithmetic beside the models' passes, timed on recorded rows."""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from localspec.engine.coupled import coupled
from localspec.engine.distribution import Distribution
from localspec.engine.noise import Noise
from localspec.engine.requests import SamplerSettings, Verify
from localspec.engine.rule_report import RowCost
from localspec.engine.sampling import Sampler
from localspec.engine.verify import rejection
from localspec.engine.verify_block import block

UNFILTERED = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
FILTERS = {"top-k 40": replace(UNFILTERED, top_k=40), "unfiltered": UNFILTERED}

TURNS = 15
"""Cycles of each rule, in turns: a median stands. Each draws other tokens, so short and long verdicts mix."""

Rows = NDArray[np.float32]
Laws = Sequence[Distribution]


def measure(target: Rows, draft: Rows) -> list[RowCost]:
    """Cycles over recorded logits: `draft` of shape (K, vocabulary), `target` of shape (K + 1, vocabulary)."""
    return [_measure(name, settings, target, draft) for name, settings in FILTERS.items()]


def _measure(name: str, settings: SamplerSettings, target: Rows, draft: Rows) -> RowCost:
    size, length = target.shape[1], len(draft)
    sampler = Sampler(settings, size)
    laws: list[float] = []
    rules: dict[Verify, list[float]] = {"rejection": [], "block": [], "coupled": []}
    order = list(rules)
    for turn in range(TURNS):
        begun = time.perf_counter()
        p = [sampler.distribution(row, ()) for row in target]
        q = [sampler.distribution(row, ()) for row in draft]
        laws.append(time.perf_counter() - begun)
        # Whoever is first finds nothing in the processor's caches.
        for rule in (*order[turn % 3 :], *order[: turn % 3]):
            rng, noise = np.random.default_rng(turn), Noise(turn)
            begun = time.perf_counter()
            _cycle(rule, p, q, rng, noise)
            rules[rule].append(time.perf_counter() - begun)
    each = 1000 / length
    return RowCost(size, name, median(laws) * each, {rule: median(times) * each for rule, times in rules.items()})


def _cycle(rule: Verify, target: Laws, draft: Laws, rng: np.random.Generator, noise: Noise) -> None:
    """Draw a token of each of the draft's laws, and judge them."""
    if rule == "coupled":
        coupled([noise.draw(law, i) for i, law in enumerate(draft)], lambda i: target[i], noise, 0)
        return
    judge = block if rule == "block" else rejection
    judge([law.sample(rng) for law in draft], draft, lambda i: target[i], rng)
