"""Shared by the tests of the rules: targets and drafts in every situation, and how far a cycle is from the law."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from localspec.engine.distribution import Distribution, Uniform
from localspec.engine.requests import SamplerSettings
from localspec.engine.sampling import Sampler
from localspec.engine.verify import Verdict
from tests.engine.exact_law import Script, law

Tokens = tuple[int, ...]
Tree = Callable[[Tokens], Distribution]
"""The next token's distribution after a prefix."""

Rule = Callable[[Sequence[int], Sequence[Distribution] | None, Callable[[int], Distribution], Uniform], Verdict]

EXACT = 1e-9
BIASED = 1e-3


# Two models that depend on the prefix


def tree(size: int, seed: int, row: Callable[[np.random.Generator], Distribution]) -> Tree:
    def at(prefix: Tokens) -> Distribution:
        return row(np.random.default_rng([seed, size, len(prefix), *prefix]))

    rows: dict[Tokens, Distribution] = {}
    return lambda prefix: rows[prefix] if prefix in rows else rows.setdefault(prefix, at(prefix))


def dense(size: int) -> Callable[[np.random.Generator], Distribution]:
    return lambda rng: Distribution(None, rng.dirichlet(np.ones(size)))


def holed(size: int, allowed: Sequence[int]) -> Callable[[np.random.Generator], Distribution]:
    """Zero outside `allowed`, and on each allowed token but one with probability 1/3."""

    def row(rng: np.random.Generator) -> Distribution:
        weights = np.zeros(size)
        weights[list(allowed)] = rng.random(len(allowed)) * (rng.random(len(allowed)) < 2 / 3)
        weights[rng.choice(allowed)] = rng.random() + 0.1
        return Distribution(None, weights / weights.sum())

    return row


def filtered(size: int, spread: float) -> Callable[[np.random.Generator], Distribution]:
    """Random logits after top-k, top-p and temperature: sparse."""
    sampler = Sampler(SamplerSettings(temperature=0.7, top_k=size - 1, top_p=0.9, min_p=0.02), size)
    return lambda rng: sampler.distribution((rng.normal(size=size) * spread).astype(np.float32), ())


def certain(size: int) -> Callable[[np.random.Generator], Distribution]:
    return lambda rng: Distribution.one_hot(int(rng.integers(size)))


def pairs(size: int, seed: int) -> Iterator[tuple[str, Tree, Tree]]:
    """Targets and drafts, by the situation they make."""
    target = tree(size, seed, dense(size))
    half = size // 2
    yield "independent", target, tree(size, seed + 1, dense(size))
    yield "equal", target, target
    yield "draft filtered", target, tree(size, seed, filtered(size, 1.0))
    yield "target filtered", tree(size, seed, filtered(size, 1.0)), target
    yield "both filtered", tree(size, seed, filtered(size, 1.5)), tree(size, seed + 1, filtered(size, 1.5))
    yield "zeros", tree(size, seed, holed(size, range(size))), tree(size, seed + 1, holed(size, range(size)))
    yield (
        "disjoint",
        tree(size, seed, holed(size, range(half))),
        tree(size, seed, holed(size, range(half, size))),
    )
    yield "one-hot draft", target, tree(size, seed, certain(size))
    yield "one-hot target", tree(size, seed, certain(size)), target


# The law of a cycle, and how far it is from the target's


def sampled_draft(target: Tree, draft: Tree, length: int, rule: Rule) -> Callable[[Script], Tokens]:
    """A cycle: a draft drawn from the draft's distributions, judged by `rule`; the tokens it emits."""

    def process(script: Script) -> Tokens:
        tokens: Tokens = ()
        draft_probs = []
        for _ in range(length):
            draft_probs.append(draft(tokens))
            tokens += (draft_probs[-1].sample(script),)
        script.note(tokens)
        return judged(script, target, tokens, draft_probs, rule)

    return process


def fixed_draft(target: Tree, tokens: Tokens, rule: Rule) -> Callable[[Script], Tokens]:
    """A cycle whose draft is `tokens`, whatever the target thinks of them: lookup."""
    return lambda script: judged(script, target, tokens, None, rule)


def judged(
    script: Script, target: Tree, tokens: Tokens, draft_probs: Sequence[Distribution] | None, rule: Rule
) -> Tokens:
    def target_probs(i: int) -> Distribution:
        script.note(i)
        return target(tokens[:i])

    verdict = rule(tokens, draft_probs, target_probs, script)
    return (*tokens[: verdict.accepted], verdict.token)


def distance(process: Callable[[Script], Tokens], target: Tree, size: int, length: int) -> float:
    """Total variation between the target's law of length + 1 tokens and what comes out when the cycle's tokens are
    continued by the target."""

    def weight(tokens: Tokens, start: int) -> float:
        return math.prod(target(tokens[:i]).prob(tokens[i]) for i in range(start, len(tokens)))

    outcomes = law(process)
    assert sum(outcomes.values()) == pytest.approx(1.0, abs=1e-12)
    total = 0.0
    for tokens in itertools.product(range(size), repeat=length + 1):
        came = sum(outcomes.get(tokens[:n], 0.0) * weight(tokens, n) for n in range(1, length + 2))
        total += abs(came - weight(tokens, 0))
    return total / 2


SITUATIONS = [name for name, _, _ in pairs(4, 0)]


SHAPES = [(size, length) for size in (3, 4, 5, 6) for length in (1, 2, 3) if (size, length) != (5, 3)]
