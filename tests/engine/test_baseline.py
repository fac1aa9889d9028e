"""The plain speed an answer is measured against, from synthetic passes."""

import pytest

from localspec.engine.baseline import ENOUGH, MANY, PlainSpeed


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


def test_the_baseline_is_the_answers_own() -> None:
    speed = learnt(*((100, 30.0, 1.0) for _ in range(5)))
    for _ in range(ENOUGH):
        speed.learn(100, 60.0, 10.0)
    assert speed.own_ms(100, since_s=9.0) == 60.0
    assert speed.own_ms(100, since_s=11.0) is None


def test_a_long_plain_answer_is_its_own_mean() -> None:
    """P1: with its stalls in, so that plain decoding never looks slower or faster than itself."""
    speed = learnt(*((100, 50.0, 1.0) for _ in range(MANY)), (100, 50.0 + 20.0 * (MANY + 1), 1.0))
    assert speed.own_ms(100, since_s=0.0) == pytest.approx(70.0)
