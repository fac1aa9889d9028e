"""Block verification keeps the target's law and accepts what theory says: by enumeration, with planted faults."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from localspec.engine.distribution import Distribution, Uniform
from localspec.engine.requests import SamplerSettings
from localspec.engine.sampling import Sampler
from localspec.engine.verify import Verdict, rejection
from localspec.engine.verify_block import block
from tests.engine.exact_law import ALMOST_ONE, Script, law
from tests.engine.rule_law import (
    BIASED,
    EXACT,
    SHAPES,
    SITUATIONS,
    Rule,
    Tokens,
    Tree,
    dense,
    distance,
    filtered,
    pairs,
    sampled_draft,
    tree,
)


def situation_of(name: str, size: int, seed: int) -> tuple[Tree, Tree]:
    return next((target, draft) for found, target, draft in pairs(size, seed) if found == name)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(("size", "length"), SHAPES)
def test_block_keeps_the_targets_law(situation: str, size: int, length: int) -> None:
    for seed in range(10, 40 // length**2 + 10, 4):
        target, draft = situation_of(situation, size, seed)
        assert distance(sampled_draft(target, draft, length, block), target, size, length) < EXACT


# -- how much is accepted --


def expected_accepted(target: Tree, draft: Tree, size: int, length: int, rule: Rule) -> float:
    """Draft tokens that stand in a cycle, on average, from the rule itself."""
    total = 0.0
    for tokens in itertools.product(range(size), repeat=length):
        drawn = math.prod(draft(tokens[:i]).prob(tokens[i]) for i in range(length))
        if drawn == 0.0:
            continue
        probs = [draft(tokens[:i]) for i in range(length)]

        def process(script: Script, tokens: Tokens = tokens, probs: list[Distribution] = probs) -> int:
            verdict = rule(tokens, probs, lambda place: target(tokens[:place]), script)
            script.note(verdict)
            return verdict.accepted

        total += drawn * sum(accepted * share for accepted, share in law(process).items())  # type: ignore[operator]
    return total


def sum_of_minima(target: Tree, draft: Tree, size: int, length: int) -> float:
    """Leviathan et al. 2023: of each place, the product of min(p, q) along every path."""
    total = 0.0
    for places in range(1, length + 1):
        for tokens in itertools.product(range(size), repeat=places):
            total += math.prod(
                min(target(tokens[:i]).prob(tokens[i]), draft(tokens[:i]).prob(tokens[i])) for i in range(places)
            )
    return total


def sum_of_block_minima(target: Tree, draft: Tree, size: int, length: int) -> float:
    """Sun et al. 2025: of each place, q(path) w(path), which is min(p, q) carried along the path."""
    total = 0.0
    for places in range(1, length + 1):
        for tokens in itertools.product(range(size), repeat=places):
            carried = drawn = 1.0
            for i, token in enumerate(tokens):
                carried = min(carried * target(tokens[:i]).prob(token), drawn * draft(tokens[:i]).prob(token))
                drawn *= draft(tokens[:i]).prob(token)
            total += carried
    return total


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(("size", "length"), [(3, 1), (4, 2), (3, 3)])
def test_block_accepts_what_theory_says_and_never_less_than_rejection(situation: str, size: int, length: int) -> None:
    target, draft = situation_of(situation, size, 21)
    block_accepts = expected_accepted(target, draft, size, length, block)
    token_accepts = expected_accepted(target, draft, size, length, rejection)
    assert token_accepts == pytest.approx(sum_of_minima(target, draft, size, length), abs=EXACT)
    assert block_accepts == pytest.approx(sum_of_block_minima(target, draft, size, length), abs=EXACT)
    assert block_accepts >= token_accepts - EXACT


def test_block_accepts_more_where_a_lucky_token_makes_up_for_an_unlucky_one() -> None:
    """The example of Sun et al., section 2: target 1/3 2/3, draft 2/3 1/3, two tokens: 10/9 against 11/9."""
    target = tree(2, 0, lambda rng: Distribution(None, np.array([1 / 3, 2 / 3])))
    draft = tree(2, 0, lambda rng: Distribution(None, np.array([2 / 3, 1 / 3])))
    assert expected_accepted(target, draft, 2, 2, rejection) == pytest.approx(10 / 9)
    assert expected_accepted(target, draft, 2, 2, block) == pytest.approx(11 / 9)


# -- planted faults --


def planted(*, first_failure: bool = False, token_residual: bool = False, fresh_weight: bool = False) -> Rule:
    """Block verification written out plainly, with one mistake or none."""

    def rule(
        draft: Sequence[int],
        draft_probs: Sequence[Distribution] | None,
        target_probs: Callable[[int], Distribution],
        rng: Uniform,
    ) -> Verdict:
        assert draft_probs is not None
        last = len(draft)
        rows = [target_probs(i) for i in range(last + 1)]
        weights = [1.0]
        for i, token in enumerate(draft):
            before = 1.0 if fresh_weight else weights[-1]
            weights.append(min(1.0, before * rows[i].prob(token) / draft_probs[i].prob(token)))
        chances = []
        for i in range(1, last):
            surplus = sum(
                max(weights[i] * rows[i].prob(x) - draft_probs[i].prob(x), 0.0) for x in range(len(rows[i].probs))
            )
            left = surplus + 1.0 - weights[i]
            chances.append(surplus / left if left > 0 else 1.0)
        chances.append(weights[last])
        kept = 0
        order = range(1, last + 1) if first_failure else range(last, 0, -1)
        for i in order:
            stands = rng.random() < chances[i - 1]
            if first_failure and not stands:
                break
            if stands:
                kept = i
                if not first_failure:
                    break
        if kept == last:
            return Verdict(last, rows[last].sample(rng))
        scale = 1.0 if token_residual else weights[kept]
        return Verdict(kept, (rows[kept].excess(draft_probs[kept], scale) or rows[kept]).sample(rng))

    return rule


@pytest.mark.parametrize(
    ("fault", "bias"),
    [({"first_failure": True}, 1e-2), ({"token_residual": True}, BIASED), ({"fresh_weight": True}, BIASED)],
)
@pytest.mark.parametrize(("size", "length"), [(3, 2), (4, 2), (3, 3)])
def test_planted_faults_fail(fault: dict[str, bool], bias: float, size: int, length: int) -> None:
    """Stopping at the first failure instead of keeping the largest i; the residual of the token-level rule; weights
    that forget the tokens before. Without a fault the plain form is exact."""
    target, draft = tree(size, 5, dense(size)), tree(size, 6, dense(size))
    assert distance(sampled_draft(target, draft, length, planted()), target, size, length) < EXACT
    worst = max(
        distance(
            sampled_draft(*situation_of("independent", size, seed), length, planted(**fault)), target_of, size, length
        )
        for seed in (5, 6, 7)
        for target_of in [situation_of("independent", size, seed)[0]]
    )
    assert worst > bias


# -- one call at a time --


def rows(*probs: Sequence[float]) -> list[Distribution]:
    return [Distribution(None, np.array(row, float)) for row in probs]


def test_a_token_stands_though_the_one_before_it_would_not() -> None:
    """Whole draft above its chance by the last uniform alone; no other is drawn before the bonus."""
    draft_probs = rows([2 / 3, 1 / 3], [2 / 3, 1 / 3])
    target = rows([1 / 3, 2 / 3], [1 / 3, 2 / 3], [1.0, 0.0])
    script = Script((ALMOST_ONE,))
    assert block([0, 1], draft_probs, target.__getitem__, script) == Verdict(2, 0)
    assert script.used == 2


def test_one_hot_drafts_are_judged_as_by_rejection() -> None:
    """Each token stands with the target's probability, and what replaces it is another token."""
    size, length = 3, 2
    target = tree(size, 3, dense(size))
    for tokens in itertools.product(range(size), repeat=length):
        certain = [Distribution.one_hot(token) for token in tokens]
        laws = []
        for rule in (block, rejection):

            def process(script: Script, rule: Rule = rule, tokens: Tokens = tokens, probs: list = certain) -> Verdict:
                verdict = rule(tokens, probs, lambda i: target(tokens[:i]), script)
                script.note(verdict)
                return verdict

            laws.append(law(process))
        assert laws[0].keys() == laws[1].keys()
        assert all(laws[0][key] == pytest.approx(laws[1][key], abs=EXACT) for key in laws[0])


@pytest.mark.parametrize(("draft", "asked"), [([], [0]), ([0, 0], [0, 1, 2]), ([1, 0, 0], [0]), ([0, 1, 0], [0, 1])])
def test_rows_are_asked_for_in_order_and_none_behind_a_forbidden_token(draft: list[int], asked: list[int]) -> None:
    calls: list[int] = []

    def target(i: int) -> Distribution:
        calls.append(i)
        return rows([1.0, 0.0])[0]

    block(draft, rows(*[[0.5, 0.5]] * len(draft)), target, Script(()))
    assert calls == asked


def test_a_forbidden_token_is_refused_at_the_smallest_uniform() -> None:
    target = rows([0.0, 1.0], [1.0, 0.0])
    assert block([0], rows([0.5, 0.5]), target.__getitem__, Script((0.0, 0.0))) == Verdict(0, 1)


def test_an_empty_excess_falls_back_to_the_target() -> None:
    target, draft_probs = rows([0.5 - 1e-16, 0.5]), rows([0.5, 0.5])
    assert block([0], draft_probs, target.__getitem__, Script((ALMOST_ONE, 0.25))) == Verdict(0, 0)


def test_a_token_its_draft_forbids_is_an_error() -> None:
    probs = rows([1.0, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="draft token 1 at place 0 has probability 0"):
        block([1], probs, probs.__getitem__, Script(()))


def test_a_target_that_drafts_for_itself_accepts_everything() -> None:
    rng = np.random.default_rng(0)
    for settings in (SamplerSettings(), SamplerSettings(top_k=0, top_p=1.0, min_p=0.0)):
        for _ in range(100):
            probs = [Sampler(settings, 50).distribution(row, ()) for row in rng.normal(size=(9, 50)).astype(np.float32)]
            draft = [row.sample(rng) for row in probs[:8]]
            assert block(draft, probs[:8], probs.__getitem__, rng).accepted == 8


@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("shapes", itertools.product(("dense", "sparse"), repeat=2), ids="-".join)
def test_surplus_is_that_of_the_whole_vocabulary(scale: float, shapes: tuple[str, str]) -> None:
    """Whatever of the two is stored without its zeros."""
    rng, size = np.random.default_rng(1), 12
    first, second = ((dense if shape == "dense" else lambda n: filtered(n, 2.0))(size)(rng) for shape in shapes)
    plain = sum(max(scale * first.prob(x) - second.prob(x), 0.0) for x in range(size))
    assert first.surplus(second, scale) == pytest.approx(plain)
    left = first.excess(second, scale)
    if left is not None:
        for x in range(size):
            assert left.prob(x) == pytest.approx(max(scale * first.prob(x) - second.prob(x), 0.0) / plain)
