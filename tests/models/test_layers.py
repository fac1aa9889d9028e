"""Which layers are left out, and of which models none may be."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from localspec.models.gguf import Header, read_header
from localspec.models.layers import ALIKE, PERIODS, STYLES, NoSelfDraft, Shortening, plans, spread
from tests.models import ggufs


def header(tmp_path: Path, arch: str = "llama", layers: int = 28, **facts: Any) -> Header:
    return read_header(ggufs.model(tmp_path / "model.gguf", arch=arch, **{f"{arch}__block_count": layers} | facts))


def plan(one: Header, keep: int | None = None) -> Shortening:
    """The first of the ways."""
    return plans(one, keep)[0]


def test_one_layer_in_seven_goes_from_around_the_middle(tmp_path: Path) -> None:
    """Of 28 layers four, in the ways that were measured (docs/methods.md)."""
    ways = plans(header(tmp_path))
    assert [cut.left_out for cut in ways] == [(13, 14, 15, 16), (9, 11, 13, 15), (15, 17, 19, 21)]
    for cut in ways:
        assert (len(cut.kept), cut.layers) == (24, 28)
        assert sorted(cut.kept + cut.left_out) == list(range(28))


def test_no_way_is_tried_twice(tmp_path: Path) -> None:
    assert [cut.left_out for cut in plans(header(tmp_path, layers=3))] == [(1,)]


@pytest.mark.parametrize("period", [1, 2, 4, 6])
@pytest.mark.parametrize("layers", [3, 4, 5, 8, 12, 18, 24, 26, 28, 30, 36, 80])
def test_whatever_goes_leaves_the_ends_and_every_layers_kind(layers: int, period: int) -> None:
    for groups, style in itertools.product(range(1, layers // period - 1), STYLES):
        left_out = spread(layers, groups, period, *style)
        assert len(set(left_out)) == groups * period
        assert sorted(left_out) == list(left_out)
        assert left_out[0] >= period
        assert left_out[-1] < (layers // period - 1) * period
        kept = [i for i in range(layers) if i not in left_out]
        assert [i % period for i in kept] == [place % period for place in range(len(kept))]


def test_as_many_as_are_asked_for(tmp_path: Path) -> None:
    one = header(tmp_path, layers=8)
    for keep in range(2, 8):
        cut = plan(one, keep)
        assert len(cut.kept) == keep
        assert {0, 7} <= set(cut.kept)
    for keep in (0, 1, 8, 9):
        with pytest.raises(NoSelfDraft, match="2 to 7 of them can be kept"):
            plan(one, keep)
    with pytest.raises(NoSelfDraft, match="2 layers, too few"):
        plan(header(tmp_path, layers=2))


@pytest.mark.parametrize(("arch", "period"), sorted(PERIODS.items()))
def test_where_kinds_repeat_whole_periods_go(tmp_path: Path, arch: str, period: int) -> None:
    window = {f"{arch}__attention__sliding_window": 512}
    cut = plan(header(tmp_path, arch, 36, **window))
    assert len(cut.left_out) % period == 0
    assert [i % period for i in cut.kept] == [place % period for place in range(len(cut.kept))]
    with pytest.raises(NoSelfDraft, match=f"in steps of {period}"):
        plan(header(tmp_path, arch, 36, **window), 35)


def test_a_file_that_lists_its_kinds_may_lose_any(tmp_path: Path) -> None:
    pattern = {"gemma3__attention__sliding_window": 512,
               "gemma3__attention__sliding_window_pattern": [i % 6 != 5 for i in range(26)]}  # fmt: skip
    assert len(plan(header(tmp_path, "gemma3", 26, **pattern), 25).left_out) == 1
    pattern["gemma3__attention__sliding_window_pattern"] = [True] * 20
    with pytest.raises(NoSelfDraft, match="too short"):
        plan(header(tmp_path, "gemma3", 26, **pattern))


def test_a_period_that_the_file_names_is_the_one(tmp_path: Path) -> None:
    facts = {"gemma3__attention__sliding_window": 512, "gemma3__attention__sliding_window_pattern": 3}
    assert len(plan(header(tmp_path, "gemma3", 26, **facts), 23).left_out) == 3
    assert len(plan(header(tmp_path, "gemma3", 26), 25).left_out) == 1, "no window: all layers are alike"


REFUSED = [
    ("qwen35", {}, "recurrent layers"),
    ("mamba", {}, "recurrent layers"),
    ("t5", {}, "an encoder and a decoder"),
    ("step35", {"step35__nextn_predict_layers": 1}, "NextN layers"),
    ("qwen3", {"qwen3__nextn_predict_layers": 1}, "NextN layers"),
    ("deepseek2", {"deepseek2__leading_dense_block_count": 1}, "mixes dense layers and experts"),
    ("ernie4_5-moe", {"ernie4_5-moe__interleave_moe_layer_step": 2}, "mixes dense layers and experts"),
    ("gemma3n", {}, "read the cache of earlier ones"),
    ("gemma4", {"gemma4__attention__shared_kv_layers": 4}, "read the cache of earlier ones"),
    ("baichuan", {}, "is not known whether"),
    ("gemma2", {"gemma2__block_count": 46}, "scales the attention"),
    ("llama", {"llama__something": [1, 2, 3]}, "llama.something is a list of 3, for 28 layers"),
]


@pytest.mark.parametrize(("arch", "facts", "reason"), REFUSED, ids=[one[0] for one in REFUSED])
def test_others_are_refused_with_the_reason(tmp_path: Path, arch: str, facts: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoSelfDraft, match=reason) as failed:
        plan(header(tmp_path, arch, **facts))
    assert "\n" not in str(failed.value)


def test_the_number_kept_may_not_make_it_another_model(tmp_path: Path) -> None:
    """llama.cpp knows a 27B by its 62 layers."""
    window = {"gemma3__attention__sliding_window": 512, "gemma3__attention__sliding_window_pattern": [True] * 64}
    with pytest.raises(NoSelfDraft, match="to keep 62"):
        plan(header(tmp_path, "gemma3", 64, **window), 62)


def test_the_two_tables_are_apart() -> None:
    assert not ALIKE & PERIODS.keys()
