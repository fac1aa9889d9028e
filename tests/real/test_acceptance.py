"""Sampled drafts are accepted as often as the theory says, and more often than the draft's argmax would be."""

from math import sqrt

import pytest

from localspec.engine.engine import Engine
from tests.real.acceptance import TEXTS, measure
from tests.real.conftest import prompt_for

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", TEXTS)
def test_acceptance_is_the_sum_of_minima(engine: Engine, name: str) -> None:
    """Leviathan et al. 2023, theorem 3.5, within three standard errors of the count; and the sum of minima is never
    below the target's probability of the draft's argmax, at any temperature where drafts are drawn."""
    rates = measure(engine, prompt_for(engine.info, TEXTS[name]), seed=7)
    assert rates.judged > 20
    error = sqrt(rates.foreseen * (1 - rates.foreseen) / rates.judged)
    assert abs(rates.counted - rates.foreseen) <= 3 * error + 0.01
    assert rates.ratio >= 1.0
