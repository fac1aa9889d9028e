"""The rules of verification keep the target's law: by enumeration, with planted faults that must fail the same (C4)."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.engine.distribution import Distribution, Uniform
from localspec.engine.requests import SamplerSettings
from localspec.engine.sampling import Sampler
from localspec.engine.verify import Verdict, greedy, rejection
from tests.engine.exact_law import ALMOST_ONE, Script, law
from tests.engine.rule_law import (
    BIASED,
    EXACT,
    SHAPES,
    SITUATIONS,
    Rule,
    Tokens,
    Tree,
    certain,
    dense,
    distance,
    filtered,
    fixed_draft,
    holed,
    judged,
    pairs,
    sampled_draft,
    tree,
)  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(("size", "length"), SHAPES)
def test_rejection_keeps_the_targets_law(situation: str, size: int, length: int) -> None:
    """Draws from the draft, judged: exactly the target's law (C4)."""
    for seed in range(10, 40 // length**2 + 10, 4):
        target, draft = next((target, draft) for name, target, draft in pairs(size, seed) if name == situation)
        assert distance(sampled_draft(target, draft, length, rejection), target, size, length) < EXACT


@pytest.mark.parametrize(("size", "length", "seed"), [(3, 1, 1), (6, 1, 2), (4, 2, 3), (3, 3, 4)])
@pytest.mark.parametrize(
    "row", [dense, lambda size: filtered(size, 1.0), lambda size: holed(size, range(size)), certain]
)
def test_rejection_of_certain_drafts_keeps_the_targets_law(
    size: int, length: int, seed: int, row: Callable[[int], Callable[[np.random.Generator], Distribution]]
) -> None:
    """Every draft there is, of tokens the target likes or forbids, proposed with certainty (C4)."""
    target = tree(size, seed, row(size))
    for tokens in itertools.product(range(size), repeat=length):
        assert distance(fixed_draft(target, tokens, rejection), target, size, length) < EXACT


# Planted faults: each is in use somewhere, and each must fail the test above


def redraws_on_mismatch(
    draft: Sequence[int], draft_probs: object, target_probs: Callable[[int], Distribution], rng: Uniform
) -> Verdict:
    """Accepts when a draw from the target equals the draft, and draws once more when it does not."""
    for i, token in enumerate(draft):
        if target_probs(i).sample(rng) != token:
            return Verdict(i, target_probs(i).sample(rng))
    return Verdict(len(draft), target_probs(len(draft)).sample(rng))


def redraws_from_the_whole_target(
    draft: Sequence[int],
    draft_probs: Sequence[Distribution] | None,
    target_probs: Callable[[int], Distribution],
    rng: Uniform,
) -> Verdict:
    """The right acceptance test, but not the excess after it."""
    for i, token in enumerate(draft):
        proposal = Distribution.one_hot(token) if draft_probs is None else draft_probs[i]
        if rng.random() * proposal.prob(token) >= target_probs(i).prob(token):
            return Verdict(i, target_probs(i).sample(rng))
    return Verdict(len(draft), target_probs(len(draft)).sample(rng))


@pytest.mark.parametrize("rule", [redraws_on_mismatch, redraws_from_the_whole_target])
@pytest.mark.parametrize(("size", "length"), [(3, 1), (4, 2)])
def test_planted_rules_fail(rule: Rule, size: int, length: int) -> None:
    """C4: drawing anew on a mismatch, and redrawing from the whole target."""
    target, draft = tree(size, 5, dense(size)), tree(size, 6, dense(size))
    assert distance(sampled_draft(target, draft, length, rule), target, size, length) > BIASED
    assert distance(fixed_draft(target, (0,) * length, rule), target, size, length) > BIASED


@pytest.mark.parametrize(("size", "length"), [(3, 1), (4, 2)])
def test_the_softmax_value_of_an_argmax_draft_fails(size: int, length: int) -> None:
    """C4: the right rule, told that an argmax was a draw. Told the truth it is exact."""
    target, draft = tree(size, 5, dense(size)), tree(size, 6, dense(size))

    def argmax_draft(*, as_one_hot: bool) -> Callable[[Script], Tokens]:
        def process(script: Script) -> Tokens:
            tokens: Tokens = ()
            draft_probs = []
            for _ in range(length):
                draft_probs.append(draft(tokens))
                tokens += (draft_probs[-1].argmax,)
            return judged(script, target, tokens, None if as_one_hot else draft_probs, rejection)

        return process

    assert distance(argmax_draft(as_one_hot=False), target, size, length) > BIASED
    assert distance(argmax_draft(as_one_hot=True), target, size, length) < EXACT


def stopping_draft(target: Tree, draft: Tree, length: int, *, take_back: bool) -> Callable[[Script], Tokens]:
    """A draft that ends at a token below .4: either without that token, or after keeping it."""

    def process(script: Script) -> Tokens:
        tokens: Tokens = ()
        draft_probs = []
        for _ in range(length):
            proposal = draft(tokens)
            token = proposal.sample(script)
            unlikely = proposal.prob(token) < 0.4
            if not (unlikely and take_back):
                draft_probs.append(proposal)
                tokens += (token,)
            if unlikely:
                break
        script.note(tokens)
        return judged(script, target, tokens, draft_probs, rejection)

    return process


def test_a_taken_back_draft_token_fails() -> None:
    """DESIGN.md's example: target .5 .3 .2, draft .6 .3 .1, dropped below .4: .70 .12 .18 comes out."""
    target = tree(3, 0, lambda rng: Distribution(None, np.array([0.5, 0.3, 0.2])))
    draft = tree(3, 0, lambda rng: Distribution(None, np.array([0.6, 0.3, 0.1])))
    process = stopping_draft(target, draft, 1, take_back=True)
    assert distance(process, target, 3, 1) > BIASED
    first = [sum(p for tokens, p in law(process).items() if tokens[0] == token) for token in range(3)]
    assert first == pytest.approx([0.70, 0.12, 0.18], abs=1e-9)


@pytest.mark.parametrize(("size", "length", "seed"), [(3, 2, 1), (4, 2, 2), (3, 3, 3)])
def test_stopping_after_keeping_the_token_is_exact(size: int, length: int, seed: int) -> None:
    target, draft = tree(size, seed, dense(size)), tree(size, seed + 1, dense(size))
    assert distance(stopping_draft(target, draft, length, take_back=False), target, size, length) < EXACT
    assert distance(stopping_draft(target, draft, length, take_back=True), target, size, length) > BIASED


# One call at a time


def rows(*probs: Sequence[float]) -> list[Distribution]:
    return [Distribution(None, np.array(row, float)) for row in probs]


def scripted(*uniforms: float) -> Script:
    return Script(uniforms)


def test_both_endings() -> None:
    """First rejected and replaced from the excess; all accepted and a bonus."""
    draft_probs, target_probs = rows([0.5, 0.5, 0.0]), rows([0.25, 0.25, 0.5], [0.0, 0.0, 1.0])
    assert rejection([0], draft_probs, target_probs.__getitem__, scripted(0.49)) == Verdict(1, 2)
    assert rejection([0], draft_probs, target_probs.__getitem__, scripted(0.51, 0.0)) == Verdict(0, 2)


@pytest.mark.parametrize(("draft", "asked"), [([], [0]), ([1, 1, 1], [0, 1, 2, 3]), ([1, 0, 1], [0, 1]), ([0, 1], [0])])
def test_rows_are_asked_for_in_order_and_only_when_needed(draft: list[int], asked: list[int]) -> None:
    calls: list[int] = []

    def target(i: int) -> int:
        calls.append(i)
        return 1

    greedy(draft, target)
    assert calls == asked
    calls.clear()
    rejection(draft, None, lambda i: Distribution.one_hot(target(i)), scripted())
    assert calls == asked


def test_a_forbidden_token_is_refused_at_the_smallest_uniform() -> None:
    target = rows([0.0, 1.0], [1.0, 0.0])
    assert rejection([0], None, target.__getitem__, scripted(0.0, 0.0)) == Verdict(0, 1)


@pytest.mark.parametrize("prob", [1.0, 0.7, 1e-3, 1e-300])
def test_a_token_the_target_likes_as_much_stands_at_the_largest_uniform(prob: float) -> None:
    probs = rows([prob, 1.0 - prob], [0.0, 1.0])
    assert rejection([0], probs, probs.__getitem__, scripted(ALMOST_ONE)) == Verdict(1, 1)


def test_an_empty_excess_falls_back_to_the_target() -> None:
    """C4: rounding can leave a target below its draft everywhere."""
    target, draft_probs = rows([0.5 - 1e-16, 0.5]), rows([0.5, 0.5])
    assert target[0].excess(draft_probs[0]) is None
    assert rejection([0], draft_probs, target.__getitem__, scripted(ALMOST_ONE, 0.25)) == Verdict(0, 0)


def test_a_token_its_draft_forbids_is_an_error() -> None:
    probs = rows([1.0, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="draft token 1 at place 0 has probability 0"):
        rejection([1], probs, probs.__getitem__, scripted())


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), min_size=7, max_size=7))
def test_greedy_keeps_the_argmax(draft: list[int], choices: list[int]) -> None:
    """C3: the longest agreeing start, then the target's own token; rejection on one-hot targets says the same."""
    verdict = greedy(draft, choices.__getitem__)
    assert [*draft[: verdict.accepted], verdict.token] == choices[: verdict.accepted + 1]
    assert verdict.accepted == len(draft) or draft[verdict.accepted] != choices[verdict.accepted]
    targets = [Distribution.one_hot(choice) for choice in choices]
    assert rejection(draft, None, targets.__getitem__, np.random.default_rng(0)) == verdict


def test_a_target_that_drafts_for_itself_accepts_everything() -> None:
    """C6: at any temperature, whatever the filters."""
    rng = np.random.default_rng(0)
    size = 50
    for settings in (SamplerSettings(), SamplerSettings(top_k=0, top_p=1.0, min_p=0.0)):
        for _ in range(100):
            logits = (rng.normal(size=(9, size)) * 3).astype(np.float32)
            probs = [Sampler(settings, size).distribution(row, ()) for row in logits]
            draft = [row.sample(rng) for row in probs[:8]]
            assert rejection(draft, probs[:8], probs.__getitem__, rng).accepted == 8
