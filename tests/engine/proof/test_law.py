"""The exact law from a rule's own code: as by halving the uniforms, zero for the rules, large for biased ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from localspec.engine.distribution import Distribution
from localspec.engine.proof.law import Rule, certain_distance, drawn_distance, single_distance
from localspec.engine.verify import Verdict, rejection
from localspec.engine.verify_block import block
from tests.engine.faults import argmax_bonus, credulous, fresh_draw, whole_redraw
from tests.engine.rule_law import EXACT, dense, distance, filtered, holed, sampled_draft

SIZE = 5
ROWS = {
    "dense": dense(SIZE),
    "filtered": filtered(SIZE, 1.5),
    "holed": holed(SIZE, range(SIZE)),
}


def first_draw(draft: Sequence[int], _probs: object, target: Any, rng: Any) -> Verdict:
    """Exact, and not one of ours: drawn from the target, and kept while it is what was drafted."""
    for i, token in enumerate(draft):
        said = target(i).sample(rng)
        if said != token:
            return Verdict(i, said)
    return Verdict(len(draft), target(len(draft)).sample(rng))


def own_chance(draft: Sequence[int], probs: Any, target: Any, rng: Any) -> Verdict:
    """Does with its uniform what no trace can follow."""
    for i in range(len(draft)):
        if int(rng.random() * 4) == 3:
            return Verdict(i, target(i).sample(rng))
    return Verdict(len(draft), target(len(draft)).sample(rng))


RULES: dict[str, tuple[Rule, bool]] = {
    "rejection": (rejection, True),
    "block": (block, True),  # type: ignore[dict-item]
    "first draw": (first_draw, True),
    "fresh draw": (fresh_draw, False),
    "whole redraw": (whole_redraw, False),
    "credulous": (credulous, False),
    "argmax bonus": (argmax_bonus, False),
    "own chance": (own_chance, False),
}


def rows(kind: str, count: int, seed: int) -> list[Distribution]:
    rng = np.random.default_rng([seed, SIZE])
    return [ROWS[kind](rng) for _ in range(count)]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", ROWS)
def test_exact_rules_are_exact_and_others_show(name: str, kind: str) -> None:
    rule, exact = RULES[name]
    worst = 0.0
    for seed in range(8):
        target, draft = rows(kind, 3, seed), rows(kind, 2, 100 + seed)
        found = [drawn_distance(rule, target, draft), single_distance(rule, target[:2], draft[0])]
        if name != "block":
            found += [certain_distance(rule, target[:2], (token,)) for token in range(SIZE)]
        worst = max(worst, *found)
        assert single_distance(rule, target[:2], draft[0]) == pytest.approx(
            drawn_distance(rule, target[:2], draft[:1]), abs=1e-12
        )
    assert worst < 1e-12 if exact else worst > 1e-2


@pytest.mark.parametrize("name", ["rejection", "block", "whole redraw", "argmax bonus"])
def test_it_is_what_halving_the_uniforms_finds(name: str) -> None:
    """An independent way to the same number (`exact_law.py`)."""
    rule, _ = RULES[name]
    for seed in range(3):
        target, draft = rows("filtered", 3, seed), rows("filtered", 2, 100 + seed)
        process = sampled_draft(lambda prefix: target[len(prefix)], lambda prefix: draft[len(prefix)], 2, rule)  # noqa: B023
        halved = distance(process, lambda prefix: target[len(prefix)], SIZE, 2)  # noqa: B023
        assert drawn_distance(rule, target, draft) == pytest.approx(halved, abs=EXACT)


def test_a_whole_vocabulary_is_one_run_a_way() -> None:
    size = 20_000
    rng = np.random.default_rng(1)
    target, draft = ([Distribution(None, rng.dirichlet(np.full(size, 0.05))) for _ in range(2)] for _ in range(2))
    runs = 0

    def counting(*arguments: Any) -> Verdict:
        nonlocal runs
        runs += 1
        return rejection(*arguments)

    assert single_distance(counting, target, draft[0]) < 1e-12
    assert runs <= 4
    assert single_distance(whole_redraw, target, draft[0]) > 1e-2
