"""The paired runner: order, ratios, and what is left when it is stopped."""

from itertools import pairwise

import pytest

from localspec.bench.paired import PLAIN, Measured, Mode, Plan, overhead_share, run
from localspec.engine.requests import Request, SamplerSettings
from tests.bench.answers import CHAT, EDIT_A, EDIT_B, Timed, prompting, stats

LOOKUP = Mode("lookup 15", "lookup", 15)
AUTO = Mode("auto", "auto")


def test_modes_take_turns_on_each_prompt_and_the_next_round_goes_back() -> None:
    engine = Timed()
    plan = Plan([EDIT_A, CHAT], [PLAIN, LOOKUP, AUTO], rounds=2, max_tokens=64)
    runs = list(run(engine, plan, prompting))
    there = [("off", None), ("lookup", 15), ("auto", None)]
    assert engine.asked() == [
        *(("edit a", *mode) for mode in there + there[::-1]),
        *(("talk", *mode) for mode in there + there[::-1]),
    ]
    assert len(runs) == plan.answers == 12
    assert [(one.task, one.round, one.mode) for one in runs] == list(plan.order())
    assert {request.max_tokens for request in engine.requests} == {64}
    # A prompt is read once: all its answers follow one another.
    changes = sum(a.prompt != b.prompt for a, b in pairwise(engine.requests))
    assert changes == 1


def test_answers_of_a_round_share_their_seed() -> None:
    engine = Timed()
    list(run(engine, Plan([CHAT], [PLAIN, LOOKUP], 3, 8), prompting))
    assert [request.seed for request in engine.requests] == [0, 0, 1, 1, 2, 2]


def test_a_speedup_is_the_median_of_the_ratios_within_rounds() -> None:
    """Not the ratio of medians: the machine slows down to a tenth, both modes alike, and the ratios stay."""
    plain, fast = iter((10.0, 1.0, 5.0)), iter((20.0, 3.0, 20.0))

    def speed(request: Request, number: int) -> object:
        return stats(next(plain if request.speculate == "off" else fast), judged=10, accepted=8, cycles=5)

    measured = Measured(list(run(Timed(speed), Plan([EDIT_A], [PLAIN, LOOKUP], 3, 8), prompting)))  # type: ignore[arg-type]
    (found,) = measured.comparisons()
    assert found.speedups == pytest.approx((2.0, 3.0, 4.0))
    assert found.speedup == pytest.approx(3.0)
    assert found.acceptance_rate == pytest.approx(0.8)
    assert found.tokens_per_cycle == pytest.approx(2.0)


def test_an_answer_without_a_partner_gives_no_ratio() -> None:
    plan = Plan([EDIT_A, EDIT_B], [PLAIN, LOOKUP], rounds=1, max_tokens=8)
    runs = list(run(Timed(lambda request, number: stats(10.0 * (1 + number))), plan, prompting))
    (a, b) = Measured(runs[:2] + runs[3:]).comparisons()
    assert (a.speedup, b.speedup) == (pytest.approx(2.0), None)
    assert (b.speedups, len(b.stats)) == ((), 1)


def test_an_answer_of_one_token_has_no_speed() -> None:
    runs = list(
        run(Timed(lambda request, number: stats(None, tokens=1)), Plan([CHAT], [PLAIN, LOOKUP], 1, 8), prompting)
    )
    (found,) = Measured(runs).comparisons()
    assert (found.speedup, found.acceptance_rate) == (None, None)
    assert overhead_share(runs) is None


def test_overhead_is_a_share_of_all_decode_time() -> None:
    runs = list(run(Timed(), Plan([CHAT], [PLAIN, LOOKUP], 1, 8), prompting))
    long = stats(1.0, tokens=101, overhead=0.01)
    both = [*runs, *run(Timed(lambda request, number: long), Plan([CHAT], [AUTO], 1, 8), prompting)]
    # 0.1 s and 0.1 s of 1 s each, 1 s of 100 s.
    assert overhead_share(both) == pytest.approx(1.2 / 102)


def test_stopping_keeps_what_was_measured() -> None:
    engine = Timed()
    answers = run(engine, Plan([CHAT], [PLAIN, LOOKUP], 5, 8), prompting, stopped=lambda: len(engine.requests) >= 3)
    assert len(list(answers)) == 3
    assert len(engine.requests) == 3


def test_a_cancelled_answer_is_no_measurement() -> None:
    engine = Timed()
    runs = []
    for answer in run(engine, Plan([CHAT], [PLAIN, LOOKUP], 5, 8), prompting):
        runs.append(answer)
        engine.cancelled = True
    assert len(runs) == 1
    assert len(engine.requests) == 2


def test_the_draft_model_is_as_new_to_a_prompt_in_every_round() -> None:
    engine = Timed()
    list(run(engine, Plan([CHAT], [PLAIN, AUTO], 3, 8), prompting))
    assert all(request.draft_anew for request in engine.requests)


def test_drafts_are_verified_as_in_a_persons_answer() -> None:
    """Their answers have no seed, for which there is a rule of its own; these have one."""
    engine = Timed()
    hot = SamplerSettings(temperature=1.0)
    modes = [AUTO, Mode("plain hot", "off", sampling=hot), Mode("auto hot", "auto", sampling=hot)]
    list(run(engine, Plan([CHAT], [*modes, Mode("lookup hot", "lookup", sampling=hot)], 1, 8), prompting))
    assert [request.verify for request in engine.requests] == ["rejection", "rejection", "block", "rejection"]
