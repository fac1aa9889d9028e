"""The controller on known rates and costs: what pays most is chosen, what does not is left, and trying is bounded."""

from collections.abc import Callable, Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.engine.calibrate import GROUPS
from localspec.engine.controller import (
    FORECAST,
    LATER,
    PAYS,
    PROBE_BUDGET,
    PROBE_LENGTH,
    SAFELY,
    UNTRIED,
    Controller,
    Drawing,
    Offer,
)
from localspec.engine.costs import Costs
from localspec.engine.drafters.base import Place
from localspec.engine.lookup_acceptance import LookupAcceptance

STEPS = {1: 1, 2: 1.5, 3: 1.9, 4: 1.7, 5: 2.2, 6: 2.5, 8: 3.5, 12: 3.8, 16: 4.0, 24: 5.7, 32: 6.3}


def curve(points: dict[int, float]) -> Callable[[int], float]:
    """Linear between the points."""
    return lambda width: float(np.interp(width, list(points), list(points.values())))


def free(width: int) -> float:
    return 1.0


def linear(width: int) -> float:
    return float(width)


steps = curve(STEPS)


def expected(rates: Sequence[float]) -> float:
    """The tokens of a cycle by their definition: each further one needs all before it."""
    return 1.0 + sum(float(np.prod(rates[: i + 1])) for i in range(len(rates)))


@pytest.mark.parametrize(("rate", "tokens"), [(0.5, 1.75), (0.9, 2.71)])
def test_the_expected_tokens_are_the_papers(rate: float, tokens: float) -> None:
    """Leviathan et al. 2023, eq. 1: (1 - a^(K+1)) / (1 - a)."""
    decision = Controller().choose([Offer("draft", [rate] * 2)], 2, free)
    assert decision.choice is not None
    assert decision.choice.length == 2
    assert decision.choice.expected == pytest.approx(tokens)
    assert decision.choice.gain == pytest.approx(tokens)
    assert tokens == pytest.approx((1 - rate**3) / (1 - rate))


@given(st.lists(st.floats(0.05, 0.999), min_size=1, max_size=12), st.floats(0.0, 0.5), st.integers(1, 12))
def test_no_other_length_earns_more(rates: list[float], token_cost: float, limit: int) -> None:
    """Against all lengths by hand, at the pace of plain decoding: a cycle's own tokens, and those of a copy's next ones
    once it stood and the target's token behind it agrees too."""
    decision = Controller().choose([Offer("lookup", rates, token_cost)], limit, steps, insist=True)
    assert decision.choice is not None
    known = rates[:limit]

    def earns(at: int, length: int) -> float:
        own = expected(known[at : at + length]) - steps(1 + length) - length * token_cost
        if token_cost or at + length >= len(known):
            return own
        return own + LATER * float(np.prod(known[at : at + length + 1])) * best(at + length + 1)

    def best(at: int) -> float:
        if at not in kept:
            kept[at] = max((earns(at, length) for length in range(1, len(known) - at + 1)), default=0.0)
        return max(0.0, kept[at])

    kept: dict[int, float] = {}
    earned = {length: earns(0, length) for length in range(1, len(known) + 1)}
    # What hardly stands is not looked at.
    assert earned[decision.choice.length] == pytest.approx(max(earned.values()), abs=0.05)


def test_a_sure_copy_is_taken_in_two_cheap_passes_rather_than_in_a_dear_one() -> None:
    """A draft that fails at once costs less than half of it so, and one that stands goes on in the next cycle. That of
    a draft model is made anew each time: nothing of it is left for later."""
    dear = curve({1: 1, 2: 1.8, 15: 5.5, 16: 4.8, 17: 6.5, 31: 11.5, 32: 11})
    rates = [0.97] * 31
    copy = Controller().choose([Offer("lookup", rates)], 31, dear).choice
    drawn = Controller().choose([Offer("draft", rates, 1e-9)], 31, dear).choice
    assert copy is not None
    assert drawn is not None
    assert (copy.length, drawn.length) == (15, 31)


def test_what_does_not_pay_is_left_and_told() -> None:
    """P1: n tokens for the price of n leave nothing to gain; the estimate is there for who asks why."""
    decision = Controller().choose([Offer("lookup", [0.95] * 31)], 31, linear)
    assert decision.choice is None
    assert decision.best is not None
    assert decision.best.gain < PAYS


def test_a_free_and_perfect_drafter_is_used_at_full_length() -> None:
    decision = Controller().choose([Offer("lookup", [1.0] * 31)], 31, free)
    assert decision.choice is not None
    assert decision.choice.length == 31


def test_lengths_land_on_the_cheap_steps() -> None:
    for rate in (0.6, 0.7, 0.8, 0.9, 0.95, 0.99):
        choice = Controller().choose([Offer("lookup", [rate] * 31)], 31, steps, insist=True).choice
        assert choice is not None
        assert choice.length in (1, 3, 15, 31), rate


def test_in_a_fast_text_a_pass_must_earn_more() -> None:
    """A draft that pays in prose wastes time in a copied stretch, where the next pass would have brought six tokens."""
    offer = Offer("lookup", [0.9, 0.6, 0.5, 0.4, 0.4, 0.4])
    slow, fast = Controller(), Controller()
    for _ in range(30):
        fast.learn("lookup", 9, 1.5)
    assert fast.pace > 4.0 > 1.5 > slow.pace
    one, other = slow.choose([offer], 6, curve({1: 1, 7: 1.9})), fast.choose([offer], 6, curve({1: 1, 7: 1.9}))
    assert one.choice is not None
    assert other.choice is None or other.choice.length < one.choice.length


@pytest.mark.parametrize(("asked_for", "expected"), [(None, 1), (200, 1), (101, 10)])
def test_at_the_end_of_an_answer_nothing_is_saved_for_later(asked_for: int | None, expected: int) -> None:
    """Ten tokens of a copied stretch cost four passes: too many where the next pass may bring 31 for eight, and the
    best there is when no more than eleven tokens are wanted."""
    controller = Controller(float("inf") if asked_for is None else asked_for)
    for _ in range(3):
        controller.learn("lookup", 30, 8.0)
    choice = controller.choose([Offer("lookup", [0.98] * 10)], 10, curve({1: 1, 2: 1.05, 11: 4.0})).choice
    assert choice is not None
    assert choice.length == expected


def test_the_better_of_two_offers_wins() -> None:
    offers = [Offer("lookup", [0.5] * 31), Offer("draft", [0.97] * 31, token_cost=0.05)]
    choice = Controller().choose(offers, 31, steps).choice
    assert choice is not None
    assert offers[choice.offer].drafter == "draft"


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_the_limit_holds(limit: int) -> None:
    choice = Controller().choose([Offer("lookup", [1.0] * 31)], limit, free).choice
    assert (choice.length if choice else 0) == limit


def test_a_person_who_insists_gets_a_draft() -> None:
    choice = Controller().choose([Offer("draft", [0.1] * 31, token_cost=1.0)], 31, linear, insist=True).choice
    assert choice is not None
    assert choice.length >= 1


def test_a_draft_model_is_judged_by_its_own_cycles() -> None:
    offer = Offer("draft", [0.9] * 8, token_cost=0.1)
    controller = Controller()
    assert controller.choose([offer], 8, steps).choice is not None
    for _ in range(12):
        controller.learn("draft", 1, 2.2)
    assert controller.choose([offer], 8, steps).choice is None
    for _ in range(40):
        controller.learn("draft", 5, 2.2)
    assert controller.choose([offer], 8, steps).choice is not None


def test_what_a_grammar_forced_says_nothing_of_a_draft_model() -> None:
    offer = Offer("draft", [0.9] * 8, token_cost=0.1)
    controller = Controller()
    for _ in range(12):
        controller.learn("draft", 1, 2.2)
    for _ in range(20):
        controller.learn("grammar", 2, 1.2)
    assert controller.choose([offer], 8, steps).choice is None


def test_a_drafter_whose_best_case_cannot_pay_is_never_asked() -> None:
    """The target as its own draft, at its full cost: neither by estimate nor to try."""
    controller = Controller()
    for _ in range(500):
        assert controller.choose([Offer("draft", [1.0] * 31, token_cost=1.0)], 31, steps).choice is None
        controller.learn(None, 1, 1.0)


def test_a_drafter_that_must_read_first_waits_until_that_pays_back() -> None:
    """P1: reading a long prompt for a short answer gains nothing."""
    rates = [0.97] * 31
    ready = Controller().choose([Offer("draft", rates, 0.05)], 31, steps).choice
    assert ready is not None
    saved = FORECAST * (1 - 1 / ready.gain)
    affordable, late = Offer("draft", rates, 0.05, saved / SAFELY - 1), Offer("draft", rates, 0.05, saved / SAFELY + 1)
    assert Controller().choose([affordable], 31, steps).choice == ready
    assert Controller().choose([late], 31, steps).choice is None
    assert Controller().choose([late], 31, steps, insist=True).choice == ready
    assert Controller(forecast=20).choose([affordable], 31, steps).choice is None, "the answer will be short"
    controller = Controller()
    for _ in range(4 * FORECAST):
        controller.learn(None, 1, 1.0)
    assert controller.choose([late], 31, steps).choice == ready


def test_however_cheap_a_try_there_is_none_at_the_beginning() -> None:
    controller = Controller()
    offer = Offer("draft", [0.05] * 31, 0.01)
    for _ in range(UNTRIED):
        assert controller.choose([offer], 31, free).choice is None
        controller.learn(None, 1, 1.0)
    assert controller.choose([offer], 31, free).choice is not None


@pytest.mark.parametrize("start", [0.0, 2.0, 20.0])
def test_trying_a_drafter_that_seems_not_to_pay_costs_a_bounded_share(start: float) -> None:
    """At most 2 % over any 200 tokens and more, reading the prompt included, and ever more rarely. Tries never pay
    here."""
    controller = Controller()
    lost, tries = 0.0, []
    offer = Offer("draft", [0.2] * 31, 0.2, start)
    for token in range(4000):
        choice = controller.choose([offer], 31, steps).choice
        if choice is not None:
            assert choice.length == PROBE_LENGTH
            lost += steps(1 + PROBE_LENGTH) + PROBE_LENGTH * 0.2 + start - 1.0
            tries.append(token)
            controller.learn("draft", 1, steps(1 + PROBE_LENGTH) + PROBE_LENGTH * 0.2)
        else:
            controller.learn(None, 1, 1.0)
        assert lost <= PROBE_BUDGET * max(token, 1)
    assert tries, "a drafter that was given up is tried again some time"
    assert tries[0] >= 64
    gaps = np.diff(tries)
    assert all(late > early for early, late in pairwise(gaps))


def drift(cycle: int) -> float:
    return 1.0 + 0.5 * np.sin(cycle / 80)


SYNTHETIC = {
    "flat": curve({1: 1, 2: 1.05, 32: 1.3}),
    "linear": curve({1: 1, 32: 20}),
    "steps": steps,
    "late step": curve({1: 1, 2: 1.1, 7: 1.3, 8: 4.0, 32: 5.0}),
}


def played(name: str, *, noisy: bool, drifting: bool, seed: int) -> float:
    """A drafter that is free and always right, on a calibrated machine: tokens a unit of time over cycles 20 to 520,
    relative to the best fixed length. What passes take is told by the clock alone."""
    true, rng = SYNTHETIC[name], np.random.default_rng(seed)
    costs, acceptance, controller = Costs(1.0), LookupAcceptance(), Controller()
    place, now = Place(99), 0.0
    for width in [width for group in ((1,), *GROUPS) for width in group for _ in range(3)]:
        now += 0.05 * true(width)
        costs.learn_pass(100, width, 0.05 * true(width), now)
    tokens = spent = 0.0
    best_tokens = best_spent = 0.0
    best = max(range(32), key=lambda k: (1 + k) / true(1 + k))
    for cycle in range(520):
        length = 0
        if not costs.plain_wanted(100, now):
            offer = Offer("lookup", [acceptance.rate(place)] * 31)
            choice = controller.choose([offer], 31, lambda width: costs.relative(width, 100)).choice
            length = choice.length if choice else 0
        unit = 0.05 * (drift(cycle) if drifting else 1.0)
        if noisy:
            unit *= float(np.exp(rng.normal(0, 0.1))) * (6.0 if rng.random() < 0.02 else 1.0)
        seconds = unit * true(1 + length)
        now += seconds
        costs.learn_pass(100, 1 + length, seconds, now)
        controller.learn("lookup" if length else None, 1 + length, costs.relative(1 + length, 100))
        for _ in range(length):
            acceptance.learn(place, True)
        if cycle >= 20:
            tokens, spent = tokens + 1 + length, spent + seconds
            best_tokens, best_spent = best_tokens + 1 + best, best_spent + unit * true(1 + best)
    return (tokens / spent) / (best_tokens / best_spent)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_with_a_free_and_perfect_drafter_the_optimum_is_reached(name: str) -> None:
    """98 % of it from the twentieth cycle on, the plain passes for the baseline included."""
    assert played(name, noisy=False, drifting=False, seed=0) >= 0.98


@pytest.mark.parametrize(("name", "noisy", "drifting"), [*product(SYNTHETIC, [True], [False, True]),
                                                         *product(SYNTHETIC, [False], [True])])  # fmt: skip
def test_on_noisy_and_drifting_machines_nine_tenths_of_it(name: str, noisy: bool, drifting: bool) -> None:
    """Noise of a tenth, one pass in fifty stalled sixfold, a speed that swings between a half and three halves."""
    shares = [played(name, noisy=noisy, drifting=drifting, seed=seed) for seed in range(5)]
    assert np.median(shares) >= 0.90, shares


def drawing(rate: float, token_cost: float = 0.2, limit: int = 8, **options: bool) -> Drawing:
    return Drawing(rate, token_cost, steps, 1.0, limit, **options)


def test_a_draft_ends_before_a_draw_that_does_not_pay() -> None:
    plan = drawing(0.9)
    assert plan.draw(0.99)
    assert plan.go_on()
    assert not plan.draw(0.1)
    assert plan.drawn == 1


def test_a_draft_goes_on_over_a_dear_width_to_a_cheap_one() -> None:
    """Three tokens in a pass cost more than four: what is dear alone pays together with the next."""
    plan = Drawing(0.95, 0.02, steps, 1.0, 3)
    assert plan.draw(0.95)
    assert plan.draw(0.95)
    assert plan.draw(0.95)
    lonely = Drawing(0.95, 0.02, steps, 1.0, 2, drawn=1, standing=0.35)
    assert not lonely.draw(0.95)


def test_when_little_stands_no_pass_of_the_draft_model_is_made() -> None:
    assert drawing(0.9, 0.4).go_on()
    assert not Drawing(0.9, 0.4, steps, 1.0, 8, drawn=3, standing=0.1).go_on()


def test_insisting_draws_at_least_one() -> None:
    assert drawing(0.1, insist=True).draw(0.01)
    assert not drawing(0.1).draw(0.01)
