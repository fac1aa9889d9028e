"""Cost curves: between their points, out of files, out of the engine and of answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from localspec.bench.curves import REFERENCE, Curve, CurveError, from_json, of_costs, of_runs, read
from tests.bench.answers import CHAT
from tests.bench.answers_cycles import AUTO, cycle, run
from tests.fake_engine import COSTS

GOOD: dict[str, Any] = {"name": "mine", "widths": [1, 4], "contexts": [0, 1000], "costs": [[1, 2], [1, 4.0]]}


def test_between_its_points_a_curve_is_linear_and_beyond_in_proportion() -> None:
    curve = Curve("x", (1, 2, 4), (100, 300), ((1.0, 1.6, 2.0), (1.0, 2.0, 4.0)))
    assert curve.relative(1, 50) == 1.0
    assert curve.relative(3, 0) == pytest.approx(1.8)
    assert curve.relative(3, 300) == curve.relative(3, 9000) == pytest.approx(3.0)
    assert curve.relative(4, 200) == pytest.approx(3.0)
    assert curve.relative(8, 100) == pytest.approx(4.0)


def test_a_step_that_was_measured_stays() -> None:
    """Four tokens cost less than three on two of the machines measured."""
    for name in ("avx512", "avx2"):
        assert REFERENCE[name].relative(4, 0) < REFERENCE[name].relative(3, 0)
    assert all(curve.relative(1, 0) == 1.0 for curve in REFERENCE.values())


def test_a_draft_token_of_unknown_price_looks_no_good() -> None:
    assert Curve("x", (1,), (0,), ((1.0,),)).draft_token(0) == 1.0
    assert REFERENCE["amx"].draft_token(0) == 0.44


def test_curves_come_by_name_and_out_of_files(tmp_path: Path) -> None:
    assert read("amx") is REFERENCE["amx"]
    file = tmp_path / "curve.json"
    file.write_text(json.dumps({**GOOD, "draft_token": 0.3}))
    assert read(str(file)) == Curve("mine", (1, 4), (0, 1000), ((1.0, 2.0), (1.0, 4.0)), 0.3)
    file.write_text(json.dumps({"format": "a report", "curve": GOOD}))
    assert read(str(file)).draft is None
    assert from_json({"widths": [1, 2], "costs": [[1, 1.5]]}).contexts == (0,)


def test_a_curve_comes_back_from_json() -> None:
    for curve in (*REFERENCE.values(), from_json(GOOD)):
        assert from_json(json.loads(json.dumps(curve.as_json()))) == curve


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"widths": []}, "widths must be a list"),
        ({"widths": [1, True]}, "widths must be a list"),
        ({"widths": [2, 4]}, "widths must begin with 1"),
        ({"widths": [1, 1]}, "widths must ascend"),
        ({"contexts": [9, 3]}, "contexts must ascend"),
        ({"costs": [[1, 2]]}, "one list for each context"),
        ({"costs": [[1], [1, 2]]}, "one positive number for each width"),
        ({"costs": [[1, -2], [1, 2]]}, "one positive number"),
        ({"costs": [[1, "2"], [1, 2]]}, "one positive number"),
        ({"costs": [[1, float("nan")], [1, 2]]}, "one positive number"),
        ({"draft_token": 0}, "draft_token must be"),
    ],
)
def test_a_bad_curve_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = tmp_path / "curve.json"
    file.write_text(json.dumps(GOOD | change))
    with pytest.raises(CurveError, match=words) as caught:
        read(str(file))
    assert str(caught.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "a JSON object"),
        ("{", "not JSON"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        (None, "amx, avx512, avx2"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "curve.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CurveError, match=words):
        read(str(file))


def test_the_engines_costs_are_taken_as_they_are() -> None:
    curve = of_costs(COSTS, [])
    assert curve.relative(11, 512) == COSTS.relative(11, 512) == pytest.approx(2.0)
    assert curve.relative(11, 4096) == COSTS.relative(11, 4096) == pytest.approx(3.0)
    assert curve.draft == 0.4


def test_answers_show_a_curve_of_their_own() -> None:
    """Medians of the passes: a stalled one moves nothing, a width seen once is left out."""
    plain = [cycle(), cycle(), cycle(verify_ms=900.0), cycle(), cycle()]
    wide = [cycle(3, 2, verify_ms=20.0), cycle(3, 2, verify_ms=400.0), cycle(3, 2, verify_ms=20.0)]
    drawn = [cycle(1, 1, "draft", verify_ms=15.0, draft_ms=4.0) for _ in range(3)]
    found = of_runs([run(CHAT, AUTO, 0, 10.0, [*plain, *wide, *drawn, cycle(15, 15, verify_ms=1.0)])])
    assert found is not None
    assert found.widths == (1, 2, 4)
    assert found.costs == ((1.0, 1.5, 2.0),)
    assert found.draft == pytest.approx(0.4)


def test_too_few_passes_show_nothing() -> None:
    assert of_runs([]) is None
    assert of_runs([run(CHAT, AUTO, 0, 10.0, [cycle(), cycle(), *[cycle(3, 2)] * 9])]) is None
