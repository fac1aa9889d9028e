"""From answers to rows: both clocks, pooling of short answers, lengths, and the sentence about them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from localspec.bench import verdict
from localspec.bench.bounds import known
from localspec.bench.curves import Curve
from localspec.bench.paired import GREEDY, PLAIN, Measured, Mode, Run
from localspec.bench.results import ModeReport, Row
from localspec.bench.stats import Estimate
from localspec.bench.summary import LONG, mode_reports
from localspec.bench.workloads import Task
from localspec.engine.events import Cycle
from localspec.engine.requests import SamplerSettings
from tests.bench.answers_cycles import AUTO, cycle, pairs, run

FLAT = Curve("flat", (1, 4), (0,), ((1.0, 2.0),))
EDIT_A, EDIT_B, TALK = Task("a", "code-edit", "edit a"), Task("b", "code-edit", "edit b"), Task("t", "chat", "talk")

LONG_CYCLES = [cycle(3, 3)] * (LONG // 4)
"""64 tokens and the first, at 2 plain passes a cycle."""


def report(runs: Sequence[Run], **more: object) -> ModeReport:
    (found,) = mode_reports(Measured(list(runs)), 512, FLAT, **more)  # type: ignore[arg-type]
    return found


def test_a_category_is_the_geometric_mean_of_its_prompts_medians() -> None:
    runs = pairs(EDIT_A, (2.0, 9.0, 1.0), LONG_CYCLES) + pairs(EDIT_B, (8.0, 8.0, 8.0), LONG_CYCLES)
    found = report(runs + pairs(TALK, (0.5, 0.5, 0.5), [cycle()] * LONG))
    edit, talk = found.categories
    assert (edit.category, edit.prompts, edit.answers, edit.tokens) == ("code-edit", 2, 6, 6 * LONG)
    assert edit.wall.value == pytest.approx(4.0)
    assert talk.wall == Estimate(pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5))
    assert edit.wall.low is not None
    assert edit.wall.low < 4.0 < (edit.wall.high or 0)
    assert found.mean.wall.value == pytest.approx(math.sqrt(4.0 * 0.5))
    assert (found.mean.category, found.mean.prompts) == ("geometric mean", 3)


def test_virtual_time_is_pooled_within_a_category_and_averaged_over_them() -> None:
    runs = pairs(EDIT_A, (1.0,), LONG_CYCLES) + pairs(EDIT_B, (1.0,), [cycle()] * LONG)
    found = report(runs + pairs(TALK, (1.0,), [cycle(3, 0)] * LONG))
    edit, talk = found.categories
    # 64 tokens for 32 passes and 64 for 64.
    assert edit.virtual == pytest.approx(128 / 96)
    assert talk.virtual == pytest.approx(0.5)
    assert found.mean.virtual == pytest.approx(math.sqrt(128 / 96 * 0.5))


def test_without_prices_there_is_no_virtual_time() -> None:
    (found,) = mode_reports(Measured(pairs(TALK, (1.2,), LONG_CYCLES)), 64)
    assert (found.categories[0].virtual, found.mean.virtual, found.categories[0].bound) == (None, None, None)
    assert found.mean.wall.value == pytest.approx(1.2)


def test_acceptance_cycles_and_drafters_are_summed() -> None:
    cycles = [cycle(3, 2), cycle(3, 3), cycle(), cycle(2, 0, "draft")] * 8
    found = report(pairs(TALK, (1.0, 1.0), cycles))
    (row,) = found.categories
    assert (row.judged, row.accepted, row.cycles) == (16 * (3 + 3 + 1), 16 * 5, 64)
    assert row.acceptance_rate == pytest.approx(5 / 7)
    assert row.tokens_per_cycle == pytest.approx((3 + 4 + 1 + 1) / 4)
    assert row.drafters == {"lookup": 32, "draft": 16, "none": 16}
    assert list(row.drafters)[-1] == "none"
    assert found.run_lengths == {"lookup": {"2": 16, "3": 16}, "draft": {"0": 16}}
    assert found.draft_lengths == {"lookup": {"3": 32}, "draft": {"2": 16}}


def test_long_answers_have_rows_of_their_own_and_short_ones_are_pooled() -> None:
    """Ratios of pooled answers are of all their tokens over all their seconds."""
    short = [Task(name, "qa", name) for name in ("s1", "s2")]
    runs = pairs(Task("l", "qa", "l"), (2.0, 3.0), LONG_CYCLES)
    for task, tokens, ratio in zip(short, (10, 30), (2.0, 0.5), strict=True):
        runs += pairs(task, (ratio, 1.0), [cycle()] * tokens)
    long, pooled = report(runs).prompts
    assert (long.id, long.speedups) == ("l", (pytest.approx(2.0), pytest.approx(3.0)))
    assert (pooled.id, pooled.prompts) == ("short answers: s1, s2", 2)
    # Plain: 40 tokens in 4 s. Round 0: 10 at 20/s and 30 at 5/s are 6.5 s.
    assert pooled.speedups == (pytest.approx(4 / 6.5), pytest.approx(1.0))
    assert pooled.wall.value == pytest.approx((4 / 6.5 + 1) / 2)


def test_a_round_that_was_cut_short_is_not_pooled() -> None:
    short = [Task(name, "qa", name) for name in ("s1", "s2")]
    runs = pairs(short[0], (2.0, 2.0), [cycle()] * 10) + pairs(short[1], (2.0, 2.0), [cycle()] * 10)[:-1]
    (pooled,) = report(runs).prompts
    assert pooled.speedups == (pytest.approx(2.0),)


def test_an_answer_of_64_tokens_is_long_and_one_less_is_not() -> None:
    """The first token is one of them."""
    tasks = Task("l", "qa", "l"), Task("s", "qa", "s"), Task("z", "qa", "z")
    runs = pairs(tasks[0], (1.0,), [cycle()] * (LONG - 1))
    for task in tasks[1:]:
        runs += pairs(task, (1.0,), [cycle()] * (LONG - 2))
    assert [row.id for row in report(runs).prompts] == ["l", "short answers: s, z"]


def test_each_mode_is_compared_with_plain_under_its_own_sampling() -> None:
    warm = SamplerSettings(temperature=1.0)
    plain, auto = Mode("plain, temperature 1", "off", sampling=warm), Mode("auto, temperature 1", "auto", sampling=warm)
    runs = pairs(TALK, (2.0,), LONG_CYCLES)
    runs += [run(TALK, plain, 0, 5.0, [cycle()] * LONG), run(TALK, auto, 0, 15.0, LONG_CYCLES)]
    cold, hot = mode_reports(Measured(runs), 64, FLAT)
    assert (cold.name, cold.temperature, cold.mean.wall.value) == ("auto", 0.0, pytest.approx(2.0))
    assert (hot.name, hot.temperature, hot.mean.wall.value) == ("auto, temperature 1", 1.0, pytest.approx(3.0))
    assert AUTO.sampling == PLAIN.sampling == GREEDY


def test_a_mode_whose_partner_is_missing_has_rows_without_a_wall_clock() -> None:
    found = report(pairs(TALK, (1.0,), LONG_CYCLES)[1:])
    assert found.categories[0].wall == Estimate()
    assert found.categories[0].virtual == pytest.approx(2.0)
    assert mode_reports(Measured(), 64, FLAT) == ()


def test_the_bound_is_that_of_lookup_with_perfect_lengths_on_the_same_text() -> None:
    """`1 2 3 4 5` again and again: after the first tokens lookup guesses right to the end. A draft of three costs 2 for
    4 tokens; the best cut of 20 right tokens is five of those."""
    prompt = [1, 2, 3, 4, 5] * 4
    ids = ([1, 2, 3, 4, 5] * 9)[:41]
    runs = [run(TALK, AUTO, 0, 10.0, [cycle(3, 3)] * 10, ids)]
    stepped = Curve("steps", (1, 2, 4, 5), (0,), ((1.0, 2.0, 2.0, 50.0),))
    bound = known(stepped, {TALK.id: prompt})(runs[0])
    assert bound == pytest.approx(40 / (10 * 2.0))
    (found,) = mode_reports(Measured(runs), 64, stepped, known(stepped, {TALK.id: prompt}))
    assert found.categories[0].bound == pytest.approx(2.0)
    assert found.categories[0].of_bound == pytest.approx(1.0)


def test_bounds_are_pooled_like_virtual_time_and_missing_when_one_is() -> None:
    runs = pairs(EDIT_A, (1.0,), LONG_CYCLES) + pairs(EDIT_B, (1.0,), LONG_CYCLES)
    found = report(runs, bound=lambda one: 4.0 if one.task == EDIT_A else 2.0)
    assert found.categories[0].bound == pytest.approx(2 / (1 / 4 + 1 / 2))
    assert report(runs, bound=lambda one: 4.0 if one.task == EDIT_A else None).categories[0].bound is None


def test_nothing_is_known_of_a_text_without_its_prompt() -> None:
    one = run(TALK, AUTO, 0, 10.0, LONG_CYCLES, [1, 2, 3])
    assert known(FLAT, {})(one) is None
    assert known(None, {TALK.id: [1, 2]})(one) is None
    assert known(FLAT, {TALK.id: [1, 2]})(run(TALK, AUTO, 0, 10.0, LONG_CYCLES, [1])) is None


@pytest.mark.parametrize(
    ("row", "slower"),
    [
        (Row("x", virtual=0.994), True),
        (Row("x", virtual=0.996), False),
        (Row("x", wall=Estimate(0.9, 0.8, 0.99), virtual=1.2), True),
        (Row("x", wall=Estimate(0.9, 0.8, 1.01), virtual=1.0), False),
        (Row("x", wall=Estimate(0.9)), False),
    ],
)
def test_slower_is_what_virtual_time_resolves_or_the_wall_clock_is_sure_of(row: Row, slower: bool) -> None:
    assert verdict.is_slower(row) is slower


def test_the_verdict_is_a_sentence_with_both_clocks() -> None:
    def mode(*rows: Row) -> ModeReport:
        return ModeReport("auto", "auto", None, 0.0, Row("geometric mean"), rows, ())

    good, bad = Row("edit", wall=Estimate(2.0, 1.5, 2.5), virtual=2.1), Row("chat", wall=Estimate(0.97), virtual=0.98)
    assert verdict.slower(mode(good)) == (
        "auto: no category was slower than plain; the least gained edit: 2.10x in virtual time, "
        "2.00x by the wall clock (1.50 to 2.50)."
    )
    assert verdict.slower(mode(good, bad)) == (
        "auto: slower than plain in chat: 0.98x in virtual time, 0.97x by the wall clock."
    )
    assert verdict.slower(mode()) == "auto: nothing was compared."


def test_the_verdict_names_the_prompts_that_lost() -> None:
    """Within a category that gained one may have lost."""
    good, bad = Row("edit", id="e1", virtual=2.0), Row("edit", id="e2", virtual=0.9)
    found = ModeReport("auto", "auto", None, 0.0, Row("geometric mean"), (Row("edit", virtual=1.5),), (good, bad))
    assert verdict.slower(found).endswith("Prompts that were: e2: 0.90x in virtual time.")
    assert verdict.slower(replace(found, prompts=(good,))).endswith("No prompt was slower either.")
    assert "either" not in verdict.slower(replace(found, categories=(bad,), prompts=(good,)))


def test_cycles_cut_by_an_end_are_counted_as_they_are() -> None:
    """An end inside an accepted run: fewer left the cycle than stood."""
    cut: Cycle = cycle(3, 2, emitted=2)
    (found,) = mode_reports(Measured([run(TALK, AUTO, 0, 10.0, [cut])]), 64, FLAT)
    assert (found.categories[0].tokens, found.categories[0].virtual) == (2, pytest.approx(1.0))
