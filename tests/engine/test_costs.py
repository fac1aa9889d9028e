"""What is made of the passes of synthetic machines: steps stay, stalls move nothing, drift is followed."""

import pytest

from localspec.engine.cost import ENOUGH
from localspec.engine.costs import IN_STEP, SHARE, STALE_S, Costs
from localspec.engine.priors import AVX2, AVX512, GPU, Prior
from tests.engine.machines import Machine, Shape, flat, linear, steps

WIDTHS = (1, 4, 16, 1, 8, 2, 1, 32, 12, 1, 3, 6, 1, 24)


@pytest.mark.parametrize("shape", [steps, flat, linear])
@pytest.mark.parametrize("points", [AVX512, AVX2, GPU])
def test_the_curve_is_recovered_whatever_the_prior_says(shape: Shape, points: tuple[tuple[int, float], ...]) -> None:
    machine = Machine(shape, stalls=12)
    costs = Costs(0.4, Prior(points))
    machine.run(costs, *WIDTHS, times=9)
    for width in set(WIDTHS):
        assert costs.relative(width, 100) == pytest.approx(machine.true(width), rel=0.06), width


def test_a_step_is_kept() -> None:
    """4 tokens cost less than 3 on this machine, and stay so."""
    machine = Machine(steps)
    costs = Costs(0.4, Prior(((1, 1.0), (65, 13.0))))
    machine.run(costs, 1, 3, 4, 5, times=9)
    assert costs.relative(4, 100) < costs.relative(3, 100) < costs.relative(5, 100)
    assert costs.relative(4, 100) == pytest.approx(machine.true(4), rel=0.05)


def test_between_measured_widths_the_priors_shape_holds() -> None:
    """Twice the prior at 4 and at 16: twice the prior at 8 and 12, with its step."""
    prior = Prior(((1, 1.0), (4, 1.75), (8, 3.4), (12, 3.5), (16, 4.0)), growth=0.0)
    machine = Machine(lambda width, _: 1.0 if width == 1 else 2 * prior.cost(width, 0), noise=0.0)
    costs = Costs(0.4, prior)
    machine.run(costs, 1, 4, 16, times=3)
    for width in (8, 12):
        assert costs.relative(width, 100) == pytest.approx(2 * prior.cost(width, 0))


def test_a_step_the_prior_does_not_have_makes_the_widths_inside_it_dear() -> None:
    """Where between 8 and 16 the step is nobody knows: choosing 8 or 16 is safe, a guess is not."""
    prior = Prior(((1, 1.0), (32, 2.0)), growth=0.0)
    machine = Machine(lambda width, _: 1.2 if 1 < width < 10 else 1.0 if width == 1 else 3.0, noise=0.0)
    costs = Costs(0.4, prior)
    machine.run(costs, 1, 8, 16, times=3)
    assert costs.relative(8, 100) == pytest.approx(1.2)
    assert costs.relative(16, 100) == pytest.approx(3.0)
    for width in range(9, 16):
        assert costs.relative(width, 100) > 2.4, width


def test_nothing_wide_is_cheaper_than_a_plain_pass() -> None:
    machine = Machine(lambda width, _: 1.0 if width == 1 else 0.7, noise=0.0)
    costs = Costs(0.4)
    machine.run(costs, 1, 4, times=5)
    assert costs.relative(4, 100) == 1.0
    assert costs.relative(1, 100) == 1.0


def test_a_stall_moves_nothing() -> None:
    machine = Machine(steps, noise=0.01)
    costs = Costs(0.4)
    machine.run(costs, *WIDTHS, times=4)
    plain, wide = costs.plain_ms(100), costs.relative(16, 100)
    assert plain is not None
    for width in (16, 1):
        costs.learn_pass(100, width, 6 * machine.seconds(width, 100), machine.now)
        machine.run(costs, *WIDTHS)
        assert costs.plain_ms(100) == pytest.approx(plain, rel=0.03)
        assert costs.relative(16, 100) == pytest.approx(wide, rel=0.03)


def test_the_first_pass_of_a_width_does_not_decide() -> None:
    """A stall that is all there is: the neighbours' word holds it back."""
    machine = Machine(steps, noise=0.0)
    costs = Costs(0.4)
    machine.run(costs, 1, times=4)
    before = costs.relative(16, 100)
    costs.learn_pass(100, 16, 20 * machine.seconds(16, 100), machine.now)
    assert costs.relative(16, 100) < 1.5 * before


@pytest.mark.parametrize("width", [1, 16])
def test_the_machines_speed_is_followed_by_passes_of_any_width(width: int) -> None:
    """A neighbour takes half the machine: baseline and curve move together, with no plain pass needed."""
    machine = Machine(steps, stalls=10)
    costs = Costs(0.4)
    machine.run(costs, *WIDTHS, times=4)
    ratio = costs.relative(16, 100)
    machine.slow = 2.0
    machine.run(costs, width, times=9)
    assert costs.plain_ms(100) == pytest.approx(100.0 * machine.shape(1, 100), rel=0.1)
    assert costs.relative(16, 100) == pytest.approx(ratio, rel=0.03)
    machine.slow = 1.0
    machine.run(costs, width, times=9)
    assert costs.plain_ms(100) == pytest.approx(50.0 * machine.shape(1, 100), rel=0.1)


def test_a_slow_drift_is_followed_and_stays_out_of_the_ratios() -> None:
    """A laptop that gets hot over an answer: the plain passes are rare, as in a good edit."""
    machine = Machine(steps, stalls=15)
    costs = Costs(0.4)
    machine.run(costs, *WIDTHS, times=3)
    for _ in range(40):
        machine.slow *= 1.02
        machine.run(costs, 1, *[16] * 15)
        assert costs.plain_ms(100) == pytest.approx(50.0 * machine.slow * machine.shape(1, 100), rel=0.15)
    assert machine.slow > 2
    assert costs.relative(16, 100) == pytest.approx(machine.true(16), rel=0.07)


def test_a_wrong_ratio_is_put_right_by_real_cycles() -> None:
    """The calibration was disturbed: what was measured beside plain passes since then outvotes it."""
    costs = Costs(0.4)
    Machine(linear).run(costs, 1, 16, times=5)
    machine = Machine(steps, stalls=15)
    machine.run(costs, 1, *[16] * 12, times=12)
    assert costs.relative(16, 100) == pytest.approx(machine.true(16), rel=0.07)
    assert costs.plain_ms(100) == pytest.approx(50.0 * machine.shape(1, 100), rel=0.1)


@pytest.mark.parametrize("shape", [steps, flat, linear])
def test_the_slope_along_the_context_comes_from_two_contexts(shape: Shape) -> None:
    """Known at 100 and 1,500 tokens: right between them, and not far off at twice as many."""
    machine = Machine(shape, noise=0.01)
    costs = Costs(0.4)
    machine.run(costs, *WIDTHS, times=4)
    machine.run(costs, *WIDTHS, context=1500, times=4)
    for context, tolerance in ((100, 0.03), (800, 0.05), (1500, 0.03), (3000, 0.1)):
        for width in (4, 16, 32):
            true = machine.true(width, context)
            assert costs.relative(width, context) == pytest.approx(true, rel=tolerance), (context, width)
        plain = costs.plain_ms(context)
        assert plain == pytest.approx(50.0 * machine.shape(1, context), rel=tolerance)


def test_with_one_context_the_slope_is_the_priors() -> None:
    prior = Prior(growth=1e-3, share=0.5)
    machine = Machine(prior.cost, noise=0.0)
    costs = Costs(0.4, prior)
    machine.run(costs, *WIDTHS, times=3)
    assert costs.plain_ms(4000) == pytest.approx(50.0 * prior.cost(1, 4000))
    assert costs.relative(16, 4000) == pytest.approx(prior.cost(16, 4000) / prior.cost(1, 4000))


def test_nothing_known_is_nothing_said() -> None:
    costs = Costs(0.4)
    assert costs.plain_ms(100) is None
    assert costs.baseline(100, 0.0) == (None, "none")
    assert costs.plain_wanted(100, 0.0)
    Machine(steps).run(costs, 1, 1)
    assert costs.plain_ms(100) is None
    Machine(steps).run(costs, 1)
    assert costs.plain_ms(100) is not None


def test_a_plain_pass_is_due_when_old_and_never_costs_more_than_its_share() -> None:
    fast, slow = Costs(0.4), Costs(0.4)
    for costs, seconds in ((fast, 0.01), (slow, 1.0)):
        for _ in range(3):
            assert costs.plain_wanted(100, 50.0)
            costs.learn_pass(100, 1, seconds, 50.0)
    assert not fast.plain_wanted(100, 50.0 + STALE_S)
    assert fast.plain_wanted(100, 50.1 + STALE_S)
    assert not slow.plain_wanted(100, 49.9 + SHARE * 1.0)
    assert slow.plain_wanted(100, 50.1 + SHARE * 1.0)


def test_at_a_new_context_plain_passes_are_due_sooner_but_not_all_at_once() -> None:
    costs = Costs(0.4)
    for _ in range(3):
        costs.learn_pass(100, 1, 0.1, 50.0)
    assert not costs.plain_wanted(3000, 51.4)
    assert costs.plain_wanted(3000, 51.7)


def test_the_baseline_is_named_for_where_it_comes_from() -> None:
    machine = Machine(steps, noise=0.0)
    costs = Costs(0.4)
    machine.run(costs, 1, 16, times=3)
    since = machine.now + 0.001
    assert costs.baseline(100, since)[1] == "measured"
    assert costs.baseline(4000, since)[1] == "calibrated"
    machine.slow = 1.5
    machine.now += 1
    machine.run(costs, *[16] * 9)
    ms, kind = costs.baseline(100, since)
    assert ms == pytest.approx(75.0 * machine.shape(1, 100), rel=0.02)
    machine.run(costs, 1, 1, 1)
    assert costs.baseline(100, since) == (pytest.approx(75.0 * machine.shape(1, 100)), "measured")
    assert kind == "measured"


def test_passes_made_to_measure_are_no_cycles_but_known_and_fresh() -> None:
    """What was measured before any answer is a calibrated baseline, and no further plain pass is due for it."""
    costs = Costs(0.4)
    for _ in range(3):
        costs.learn_pass(100, 1, 0.1, 50.0, cycle=False)
    assert costs.baseline(100, 0.0) == (pytest.approx(100.0), "calibrated")
    assert not costs.plain_wanted(100, 51.0)
    for _ in range(3):
        costs.learn_pass(100, 1, 0.1, 52.0)
    assert costs.baseline(100, 51.0) == (pytest.approx(100.0), "measured")


def test_a_draft_token_costs_what_drawing_it_takes() -> None:
    """P1: the seconds a draft model spent on reading the prompt are not the price of its tokens."""
    costs = Costs(0.4)
    for _ in range(3):
        costs.learn_pass(100, 1, 0.1, 0.0)
    costs.learn_draft(100, behind=1000, tokens=3, seconds=7.0)
    assert costs.draft_token(100) == pytest.approx(0.4)
    for _ in range(5):
        costs.learn_draft(100, behind=IN_STEP, tokens=3, seconds=0.06)
    assert costs.draft_token(100) == pytest.approx(0.2)
    costs.learn_draft(100, behind=IN_STEP, tokens=3, seconds=6.0)
    assert costs.draft_token(100) == pytest.approx(0.2)


def test_the_draft_is_priced_at_the_machines_speed_now() -> None:
    machine = Machine(steps, noise=0.0)
    costs = Costs(0.4)
    machine.run(costs, *WIDTHS, times=3)
    machine.slow = 2.0
    machine.run(costs, *[16] * 9)
    for _ in range(5):
        costs.learn_draft(100, 1, 4, 4 * 0.3 * machine.seconds(1, 100))
    assert costs.draft_token(100) == pytest.approx(0.3, rel=0.02)


def test_what_reading_takes_is_learnt_from_reading() -> None:
    """300 tokens read in the time of 15 plain passes, and 3 drawn for half a pass each; a stall changes nothing."""
    costs = Costs(0.5)
    for number in range(ENOUGH):
        costs.learn_pass(100, 1, 0.1, 0.1 * number)
    for _ in range(ENOUGH):
        costs.learn_draft(100, behind=IN_STEP, tokens=2, seconds=0.1)
    draws = costs.draft_token(100)
    assert draws == pytest.approx(0.5)
    for seconds in (9.0, 1.5 + 0.15, 1.5 + 0.15):
        costs.learn_draft(100, behind=300, tokens=3, seconds=seconds)
    assert costs.draft_token(100) == draws
    assert costs.catching_up(302, 100) == pytest.approx(15.0, rel=0.01)


def test_reading_costs_by_the_tokens_missing() -> None:
    costs = Costs(0.4)
    assert costs.catching_up(1, 100) == costs.catching_up(IN_STEP, 100) == 0.0
    assert 0.0 < costs.catching_up(100, 100) < costs.catching_up(1000, 100) < 1000 * costs.draft_token(100)


def test_a_report_says_what_the_costs_say() -> None:
    machine = Machine(steps)
    costs = Costs(0.4)
    assert costs.report(4096, "off", draft=True).ms(4, 100) is None
    machine.run(costs, *WIDTHS, times=4)
    machine.run(costs, *WIDTHS, context=1500, times=4)
    costs.learn_draft(100, 1, 4, 0.1)
    report = costs.report(4096, "off", draft=True)
    assert report.measured == (100, 1500)
    assert max(report.contexts) == 4096
    for context in (64, 100, 800, 1500, 4096):
        usual = costs.plain_ms(context)
        assert usual is not None
        for width in (1, 3, 4, 7, 16, 33):
            assert report.relative(width, context) == pytest.approx(costs.relative(width, context), rel=0.01)
            ms = report.ms(width, context)
            assert ms == pytest.approx(usual / report.momentary * costs.relative(width, context), rel=0.01)
    assert report.relative(66, 100) == pytest.approx(2 * report.relative(33, 100))
    assert report.samples[0] > report.samples[15] > report.samples[4] == 0
    assert report.draft_token == pytest.approx(costs.draft_token(64))
    assert costs.report(4096, "off", draft=False).draft_token is None
    assert costs.report(32, "off", draft=False).contexts == (32,)


def test_a_noisy_width_is_not_settled_before_there_are_many() -> None:
    quiet, noisy = Machine(steps, noise=0.01), Machine(steps, noise=0.3)
    costs = [Costs(0.4), Costs(0.4)]
    for machine, one in zip((quiet, noisy), costs, strict=True):
        assert not one.settled(16, 100)
        machine.run(one, 1, 16, times=5)
    assert costs[0].settled(16, 100)
    assert costs[0].settled(1, 100)
    assert not costs[1].settled(16, 100)
    noisy.run(costs[1], 1, 16, times=6)
    assert costs[1].settled(16, 100)


def test_what_a_busy_machine_gave_is_measured_again_next_time() -> None:
    """It would keep a width from being chosen for ever: nothing that is not chosen is measured by answers."""
    quiet, noisy = Machine(steps, noise=0.02), Machine(steps, noise=0.6)
    for machine, believed in ((quiet, True), (noisy, False)):
        costs, again = Costs(0.4), Costs(0.4)
        machine.run(costs, *WIDTHS, times=5)
        again.take_up(costs.rows())
        assert {width: again.count(width, 100) >= 3 for width in (1, 4, 16)} == dict.fromkeys((1, 4, 16), believed)
        assert again.count(16, 100) > 0


def test_rough_numbers_do_not_replace_good_ones() -> None:
    good, rough = Costs(0.4), Costs(0.4)
    Machine(steps, noise=0.02).run(good, *WIDTHS, times=5)
    Machine(linear, noise=0.6).run(rough, *WIDTHS, times=5)
    before = good.relative(16, 100)
    good.take_up(rough.rows())
    assert good.relative(16, 100) == before
