"""The curve itself: what samples make of it, between widths, along the context, and back from disk."""

from math import log

import pytest

from localspec.engine.cost import BANDS, ENOUGH, KEPT, STEP, WINDOW, Curve, band, between, doubted
from localspec.engine.priors import AMX, AVX2, AVX512, GPU, NO_REPACK, Prior, prior_for

LIBRARY = "llama-cpp-python 0.3.36: CPU : SSE3 = 1 | AVX2 = 1 | {} | OPENMP = 1 | REPACK = 1"


@pytest.mark.parametrize(
    ("flags", "points"),
    [
        ("AVX512 = 1 | AMX_INT8 = 1", AMX),
        ("AVX512 = 1 | AVX512_VNNI = 1", AVX512),
        ("F16C = 1", AVX2),
        ("NEON = 1", AVX512),
    ],
)
def test_the_prior_is_that_of_the_build(flags: str, points: object) -> None:
    assert prior_for(LIBRARY.format(flags), flash="on").points is points


def test_what_runs_elsewhere_or_without_repacked_kernels_has_a_prior_of_its_own() -> None:
    library = LIBRARY.format("AVX512 = 1 | AMX_INT8 = 1")
    assert prior_for(library, flash="on", gpu=True).points is GPU
    assert prior_for(library, flash="on", extra_bufts=False).points is NO_REPACK


@pytest.mark.parametrize("points", [AMX, AVX512, AVX2, NO_REPACK, GPU])
def test_every_prior_starts_at_a_plain_pass_and_is_met_at_its_points(points: tuple[tuple[int, float], ...]) -> None:
    prior = Prior(points, growth=1e-3, share=0.5)
    assert prior.cost(1, 0) == 1.0
    for width, cost in points:
        assert prior.cost(width, 0) == cost
        assert prior.cost(width, 1000) == pytest.approx(cost + 1 + 0.5 * (width - 1))
    (low, below), (high, above) = points[-2:]
    assert below < prior.cost((low + high) // 2, 0) < above
    assert prior.cost(2 * high, 0) == pytest.approx(2 * above)


def test_attention_grows_faster_with_flash_attention_on_a_processor() -> None:
    on, off = (prior_for(LIBRARY.format("AVX512 = 1"), flash=kind) for kind in ("on", "off"))
    assert on.cost(16, 0) == off.cost(16, 0)
    assert on.cost(16, 2000) - on.cost(16, 0) > 3 * (off.cost(16, 2000) - off.cost(16, 0))


def curve(*samples: tuple[int, int, float]) -> Curve:
    made = Curve(Prior(AVX512))
    for width, context, cost in samples:
        for _ in range(ENOUGH):
            made.learn(width, context, cost)
    return made


def test_a_width_is_measured_after_a_few_samples_and_only_where_they_are() -> None:
    made = Curve(Prior(AVX512))
    for _ in range(ENOUGH - 1):
        made.learn(4, 100, 2.0)
        assert made.measured(4, 100) is None
    made.learn(4, 100, 2.0)
    assert made.measured(4, 100) == pytest.approx(2.0)
    assert made.measured(5, 100) is None
    assert made.solid(4, 100)
    assert not made.solid(4, BANDS[0])
    assert made.widths() == [4]


def test_bands_are_told_apart_at_their_ends() -> None:
    assert band(0) == band(BANDS[0] - 1) == 0
    assert band(BANDS[0]) == 1
    assert band(10 * BANDS[-1]) == len(BANDS)


def test_the_latest_samples_count() -> None:
    made = curve((4, 100, 2.0))
    for _ in range(WINDOW):
        made.learn(4, 100, 3.0)
    assert made.measured(4, 100) == pytest.approx(3.0)


def test_five_stalls_in_a_row_move_nothing() -> None:
    made = Curve(Prior(AVX512))
    for _ in range(WINDOW):
        made.learn(4, 100, 2.0)
    for _ in range(5):
        made.learn(4, 100, 20.0)
    assert made.measured(4, 100) == pytest.approx(2.0)
    made.learn(4, 100, 20.0)
    assert made.measured(4, 100) == pytest.approx(20.0), "six are no stalls"


def test_along_the_context_it_is_a_line() -> None:
    made = curve((4, 100, 2.0), (4, 1100, 3.0))
    assert made.measured(4, 600) == pytest.approx(2.5)
    assert made.measured(4, 2100) == pytest.approx(4.0)
    assert made.measured(4, 0) == pytest.approx(1.9)


def test_it_does_not_fall_with_the_context_beyond_what_was_seen() -> None:
    made = curve((4, 100, 3.0), (4, 1100, 2.0))
    assert made.measured(4, 3000) == pytest.approx(2.0)
    assert made.measured(4, 0) == pytest.approx(3.0)


def test_bands_too_near_each_other_give_no_slope() -> None:
    made = curve((4, 500, 2.0), (4, 520, 2.4))
    prior = Prior(AVX512)
    assert made.measured(4, 4000) == pytest.approx(2.4 * prior.cost(4, 4000) / prior.cost(4, 520))


def test_neighbours_that_agree_are_interpolated() -> None:
    assert between(8, {1: 0.0, 4: 0.2, 16: 0.4}) == pytest.approx(0.3)
    assert between(2, {1: 0.0, 4: 1.0}) == pytest.approx(0.5), "a plain pass is no step"
    assert between(32, {1: 0.0, 16: 0.4}) == 0.4
    assert between(3, {1: 0.0}) == 0.0


def test_neighbours_that_disagree_make_all_between_them_dear() -> None:
    apart = {1: 0.0, 4: 0.1, 16: 0.1 + 1.01 * STEP}
    for width in range(5, 16):
        assert between(width, apart) == apart[16]
    for width in range(5, 16):
        assert between(width, {1: 0.0, 4: apart[16], 16: 0.1}) == apart[16]


def test_a_doubtful_sample_counts_within_bounds() -> None:
    assert doubted(0.5, []) == 0.5
    assert doubted(0.5, [0.7]) == pytest.approx(0.6)
    assert doubted(0.5, [9.0]) == pytest.approx(0.5 + log(2) / 2)
    assert doubted(0.5, [-9.0, 0.6]) == 0.5


def test_what_is_kept_comes_back_and_is_soon_outvoted() -> None:
    made = curve((4, 100, 2.0), (4, 1100, 3.0), (16, 100, 5.0))
    again = Curve(Prior(AVX512))
    for width, context, cost, samples in made.samples():
        again.restore(width, context, cost, samples)
    for width, context in ((4, 100), (4, 700), (16, 100)):
        assert again.measured(width, context) == pytest.approx(made.measured(width, context))
    again.restore(4, 100, 2.0, 1000)
    for _ in range(KEPT + 1):
        again.learn(4, 100, 4.0)
    assert again.measured(4, 100) == pytest.approx(4.0)


def test_too_few_samples_do_not_replace_what_was_measured() -> None:
    made = curve((4, 100, 2.0))
    made.restore(4, 100, 9.0, ENOUGH - 1)
    assert made.measured(4, 100) == pytest.approx(2.0)
    made.restore(4, 100, 3.0, ENOUGH)
    assert made.measured(4, 100) == pytest.approx(3.0)
