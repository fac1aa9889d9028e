"""Virtual time against cycles priced by hand."""

import pytest

from localspec.bench.curves import Curve
from localspec.bench.virtual import Price, pooled, price
from localspec.engine.costs import IN_STEP, READING
from tests.bench.answers import CHAT
from tests.bench.answers_cycles import AUTO, cycle, run

FLAT = Curve("flat", (1, 2, 4, 8), (0,), ((1.0, 1.5, 2.0, 3.0),), 0.5)


def test_plain_decoding_costs_what_it_yields() -> None:
    found = price([cycle() for _ in range(12)], 100, FLAT)
    assert (found.tokens, found.cost, found.speedup) == (12, 12.0, 1.0)
    assert price([], 100, FLAT).speedup is None


def test_lookup_pays_for_the_pass_alone() -> None:
    # Widths 4 and 8 cost 2 and 3; 3 + 1, 0 + 1 and 1 tokens come out.
    found = price([cycle(3, 3), cycle(7, 0), cycle()], 100, FLAT)
    assert (found.tokens, found.cost) == (6, 6.0)


def test_a_draft_model_pays_for_every_pass_it_makes() -> None:
    found = price([cycle(3, 1, "draft", passes=3, read=1)], 100, FLAT)
    assert (found.tokens, found.cost) == (2, pytest.approx(2.0 + 3 * 0.5))
    looked = price([cycle(3, 1, "draft", passes=4, read=1)], 100, FLAT)
    assert looked.cost == pytest.approx(2.0 + 4 * 0.5), "a fourth distribution, which nothing was drawn from"
    nothing = price([cycle(passes=1, read=IN_STEP)], 100, FLAT)
    assert (nothing.tokens, nothing.cost) == (1, pytest.approx(1.0 + 0.5)), "it looked and drew nothing"


def test_a_draft_model_pays_for_reading_what_it_has_not_read() -> None:
    found = price([cycle(1, 1, "draft", passes=1, read=IN_STEP + 5), cycle(1, 1, "draft", passes=1, read=2)], 9, FLAT)
    assert found.cost == pytest.approx(2 * (1.5 + 0.5) + 5 * READING * 0.5)


def test_a_pass_is_priced_where_it_stood() -> None:
    longer = Curve("longer", (1, 4), (100, 200), ((1.0, 2.0), (1.0, 4.0)))
    # At 150 tokens of context half-way between, then at 154.
    found = price([cycle(3, 3), cycle(3, 3)], 150, longer)
    assert found.cost == pytest.approx(3.0 + 3.08)


def test_answers_are_pooled_by_tokens_and_cost() -> None:
    runs = [run(CHAT, AUTO, 0, 10.0, [cycle(3, 3)]), run(CHAT, AUTO, 1, 10.0, [cycle(), cycle()])]
    assert pooled(runs, FLAT) == Price(6, 4.0)
    assert pooled(runs, FLAT).speedup == pytest.approx(1.5)
    assert pooled([], FLAT).speedup is None
