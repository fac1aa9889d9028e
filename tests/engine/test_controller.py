"""The controller on synthetic costs and texts: what pays is chosen, what does not is left, and both are followed."""

from dataclasses import replace

import numpy as np
import pytest

from localspec.engine.controller import FORECAST, PAYS, PROBE_AFTER, PROBE_SHARE, Choice, Controller, Offer
from localspec.engine.cost import ENOUGH, PassCost


def costs(curve: dict[int, float]) -> PassCost:
    cost = PassCost()
    for width, relative in curve.items():
        for _ in range(ENOUGH):
            cost.learn(width, relative)
    return cost


FREE = costs(dict.fromkeys(range(2, 33), 1.0))
LINEAR = costs({n: float(n) for n in range(2, 33)})
STEPS = costs(
    {
        2: 1.5,
        3: 1.9,
        4: 1.7,
        5: 2.2,
        6: 2.5,
        7: 2.7,
        8: 3.5,
        10: 3.7,
        12: 3.8,
        14: 3.9,
        16: 4.0,
        20: 5.0,
        24: 5.7,
        28: 6.0,
        32: 6.3,
    }
)
LOOKUP = Offer("lookup", 31, evidence=20)


def run(controller: Controller, offer: Offer, rate: float, cycles: int, seed: int = 1) -> list[int]:
    """Cycles against a text where each token of the offer stands with probability `rate`; the lengths chosen."""
    rng = np.random.default_rng(seed)
    lengths = []
    for _ in range(cycles):
        choice = controller.choose([offer], 31)
        length = choice.length if choice else 0
        stood = 0
        while stood < max(length, 1) and rng.random() < rate:
            stood += 1
        if choice:
            controller.learn(offer, min(stood + 1, length), stood)
        elif offer.token_cost == 0.0:
            controller.learn(offer, 1, min(stood, 1))
        controller.emitted(stood + 1 if choice else 1)
        lengths.append(length)
    return lengths


@pytest.mark.parametrize(("rate", "tokens"), [(0.5, 1.75), (0.9, 2.71)])
def test_the_expected_tokens_are_the_papers(rate: float, tokens: float) -> None:
    """Leviathan et al. 2023, eq. 1, with one rate for every place and passes that cost the same."""
    controller = Controller(FREE)
    offer = Offer("draft", 2)
    controller._rate(offer, 0).accepted, controller._rate(offer, 0).judged = rate, 1.0
    choice = controller.choose([offer], 2, insist=True)
    assert choice is not None
    assert (choice.length, choice.gain) == (2, pytest.approx(tokens))


def test_a_copy_gains_trust_along_its_own_draft() -> None:
    """After a short match the first token is doubtful, the tenth hardly."""
    controller = Controller(FREE)
    offer = Offer("lookup", 31, evidence=2)
    rates = [controller._rate(offer, place).value for place in range(31)]
    assert rates == sorted(rates)
    assert rates[0] < 0.5 < 0.95 < rates[-1]


def test_a_free_and_perfect_drafter_is_used_at_full_length() -> None:
    assert run(Controller(FREE), LOOKUP, 1.0, 60)[-1] == 31


def test_where_a_pass_costs_what_its_tokens_cost_nothing_is_drafted() -> None:
    """P1: n tokens for the price of n leave nothing to gain."""
    lengths = run(Controller(LINEAR), LOOKUP, 0.95, 200)
    assert sum(length > 0 for length in lengths) < 5


def test_lengths_land_on_the_cheap_steps() -> None:
    lengths = run(Controller(STEPS), LOOKUP, 0.97, 200)[50:]
    assert set(lengths) <= {3, 15, 23, 31}
    middling = run(Controller(STEPS), Offer("lookup", 31, evidence=2), 0.7, 300)[50:]
    assert max(set(middling), key=middling.count) == 3


def test_a_text_that_stops_copying_ends_the_drafting_and_one_that_starts_brings_it_back() -> None:
    controller = Controller(STEPS)
    assert run(controller, LOOKUP, 0.97, 60)[-1] > 0
    assert run(controller, LOOKUP, 0.05, 60)[-1] == 0
    assert run(controller, LOOKUP, 0.97, 80)[-1] > 0


def test_a_costly_drafter_that_fails_is_tried_ever_more_rarely() -> None:
    """P1: probes cost at most a few per cent and back off."""
    controller = Controller(STEPS)
    offer = Offer("draft", 31, token_cost=0.2)
    run(controller, offer, 0.1, 30)
    lengths = run(controller, offer, 0.1, 2000)
    assert 1 <= sum(length > 0 for length in lengths) <= 2000 / PROBE_AFTER / 4


def test_a_drafter_whose_best_case_cannot_pay_is_never_asked() -> None:
    """The target as its own draft at its full cost."""
    controller = Controller(STEPS)
    assert not any(run(controller, Offer("draft", 31, token_cost=1.0), 1.0, 500))


def test_a_drafter_that_must_read_first_waits_until_that_pays_back() -> None:
    """P1: reading a long prompt for a short answer gains nothing."""
    offer = Offer("draft", 31, token_cost=0.05, start_cost=FORECAST / 2)
    ready = replace(offer, start_cost=0.0)
    controller = Controller(STEPS)
    for _ in range(20):
        controller.learn(offer, 7, 7)
    gain = controller.choose([ready], 31)
    assert gain is not None
    assert gain.gain > 2.0
    assert controller.choose([offer], 31) == gain
    late = replace(offer, start_cost=FORECAST)
    assert controller.choose([late], 31) is None
    assert controller.choose([late], 31, insist=True) == gain
    controller.emitted(4 * FORECAST)
    assert controller.choose([late], 31) == gain


def test_a_probe_costs_a_small_share_of_the_answer() -> None:
    """P1: reading the prompt included."""
    offer = Offer("draft", 31, token_cost=0.3, start_cost=20.0)
    controller = Controller(STEPS)
    controller.emitted(PROBE_AFTER)
    assert controller.choose([offer], 31) is None
    controller.emitted(int(20.0 / PROBE_SHARE) - PROBE_AFTER)
    assert controller.choose([offer], 31) == Choice(0, 3, 1.0)


def test_a_person_who_insists_gets_a_draft() -> None:
    choice = Controller(LINEAR).choose([Offer("draft", 31, token_cost=1.0)], 31, insist=True)
    assert choice is not None
    assert choice.length >= 1
    assert choice.gain < PAYS


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_the_limit_holds(limit: int) -> None:
    choice = Controller(FREE).choose([LOOKUP], limit)
    assert (choice.length if choice else 0) == limit


def test_the_better_of_two_offers_wins() -> None:
    controller = Controller(STEPS)
    run(controller, LOOKUP, 0.1, 40)
    offers = [LOOKUP, Offer("draft", 31, token_cost=0.05)]
    for _ in range(20):
        controller.learn(offers[1], 7, 7)
    choice = controller.choose(offers, 31)
    assert choice is not None
    assert offers[choice.offer].drafter == "draft"
