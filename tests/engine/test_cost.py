"""What a pass is taken to cost, from synthetic measurements."""

import pytest

from localspec.engine.cost import ENOUGH, MANY, SHARE, STALE_S, PassCost, PlainSpeed, prior_cost


def learnt(*samples: tuple[int, float, float]) -> PlainSpeed:
    speed = PlainSpeed()
    for context, ms, now in samples:
        speed.learn(context, ms, now)
    return speed


def test_a_plain_speed_needs_a_few_passes() -> None:
    assert learnt().ms(100) is None
    assert learnt((100, 50.0, 0.0), (101, 52.0, 0.1)).ms(100) is None
    assert learnt((100, 50.0, 0.0), (101, 52.0, 0.1), (102, 900.0, 0.2)).ms(100) == 52.0


def test_a_plain_speed_holds_near_its_context_length() -> None:
    speed = learnt(*((100 + i, 50.0, 0.0) for i in range(ENOUGH)))
    assert speed.ms(150) == 50.0
    assert speed.ms(2000) is None
    assert speed.wanted(2000, 0.0)


def test_a_plain_pass_is_due_when_few_or_old_and_never_costs_more_than_its_share() -> None:
    speed = learnt((100, 10.0, 0.0), (101, 10.0, 0.0))
    assert speed.wanted(100, 0.0)
    speed.learn(102, 10.0, 0.0)
    assert not speed.wanted(100, STALE_S)
    assert speed.wanted(100, STALE_S + 0.1)
    slow = learnt(*((100, 1000.0, 0.0) for _ in range(ENOUGH)))
    assert not slow.wanted(100, SHARE * 1.0 - 0.1)
    assert slow.wanted(100, SHARE * 1.0 + 0.1)


def test_the_baseline_is_the_answers_own() -> None:
    speed = learnt(*((100, 30.0, 1.0) for _ in range(5)))
    for _ in range(ENOUGH):
        speed.learn(100, 60.0, 10.0)
    assert speed.baseline_ms(100, since_s=9.0) == 60.0
    assert speed.baseline_ms(100, since_s=11.0) == speed.ms(100)


def test_a_long_plain_answer_is_its_own_mean() -> None:
    """P1: with its stalls in, so that plain decoding never looks slower or faster than itself."""
    speed = learnt(*((100, 50.0, 1.0) for _ in range(MANY)), (100, 50.0 + 20.0 * (MANY + 1), 1.0))
    assert speed.baseline_ms(100, since_s=0.0) == pytest.approx(70.0)


def test_the_prior_is_met_at_its_points_and_between() -> None:
    assert prior_cost(1) == 1.0
    assert prior_cost(4) == 1.75
    assert prior_cost(14) == pytest.approx((prior_cost(12) + prior_cost(16)) / 2)
    assert prior_cost(130) == pytest.approx(2 * prior_cost(65))


def test_measured_passes_replace_the_prior_and_bend_the_rest() -> None:
    cost = PassCost()
    assert cost.of(8) == prior_cost(8)
    for _ in range(ENOUGH):
        cost.learn(8, 1.2)
    assert cost.of(8) == 1.2
    assert cost.of(12) == pytest.approx(max(1.0, prior_cost(12) * 1.2 / prior_cost(8)))
    assert cost.of(1) == 1.0


def test_one_stalled_pass_decides_nothing() -> None:
    cost = PassCost()
    cost.learn(8, 40.0)
    assert cost.of(8) < 40.0
    for _ in range(4):
        cost.learn(8, 2.0)
    assert cost.of(8) == 2.0
