"""Reports as JSON: there and back, and what a damaged one is told."""

import json
from dataclasses import replace
from typing import Any

import pytest

from localspec.bench import results
from localspec.bench.results import Row
from tests.bench.reports import MODE, REPORT


def saved() -> Any:
    return json.loads(json.dumps(results.as_json(REPORT), allow_nan=False))


def test_a_report_comes_back_as_it_was() -> None:
    assert results.from_json(saved()) == REPORT
    bare = replace(REPORT, curve=None, modes=(), machine=replace(REPORT.machine, draft=None), complete=True)
    assert results.from_json(json.loads(json.dumps(results.as_json(bare)))) == bare


def test_rates_are_there_for_other_programs() -> None:
    row = saved()["modes"][0]["categories"][0]
    assert row["acceptance_rate"] == pytest.approx(0.9)
    assert row["tokens_per_cycle"] == pytest.approx(3.0)
    assert row["of_bound"] == pytest.approx(2.6 / 3.0)
    empty = Row("x")
    assert (empty.acceptance_rate, empty.tokens_per_cycle, empty.of_bound) == (None, None, None)


def test_every_report_says_which_machine() -> None:
    machine = saved()["machine"]
    assert machine["target"] == {"name": "t.gguf", "bytes": 10**9}
    assert {"processor", "cores", "threads", "flash_attn", "library", "system", "draft"} <= set(machine)
    assert saved()["date"]


def test_what_a_later_version_adds_is_no_fault() -> None:
    found = saved()
    found["new"] = found["machine"]["new"] = found["modes"][0]["new"] = 1
    assert results.from_json(found) == REPORT


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("format",), "localspec bench 9", "no saved report of localspec bench"),
        (("rounds",), "3", r"report\.rounds must be a whole number"),
        (("complete",), 1, r"report\.complete must be true or false"),
        (("modes",), {}, r"report\.modes must be a list"),
        (("modes", 0, "mean"), None, r"report\.modes\[0\]\.mean must be an object"),
        (("modes", 0, "categories", 1, "tokens"), 1.5, r"categories\[1\]\.tokens must be a whole number"),
        (("modes", 0, "categories", 0, "wall", "low"), "x", r"wall\.low must be a number"),
        (("modes", 0, "categories", 0, "wall", "low"), float("nan"), r"wall\.low must be a number"),
        pytest.param(("modes", 0, "categories", 0, "virtual"), 10**400, "too large", id="long"),
        (("modes", 0, "run_lengths", "lookup", "3"), "x", r"run_lengths\.lookup\.3 must be a whole number"),
        (("machine", "target"), {"name": "x"}, r"machine\.target has no bytes"),
        (("curve", "widths"), [4], "widths must begin with 1"),
        (("curve",), "x", "a cost curve is a JSON object"),
    ],
)
def test_a_damaged_report_is_told_where(place: tuple[str | int, ...], value: Any, words: str) -> None:
    found = inner = saved()
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(results.ReportError, match=words):
        results.from_json(found)


@pytest.mark.parametrize("found", [None, [], "x", {}, {"format": results.FORMAT}])
def test_what_is_no_report_is_told_so(found: Any) -> None:
    with pytest.raises(results.ReportError):
        results.from_json(found)


def test_modes_keep_their_order() -> None:
    several = replace(REPORT, modes=(MODE, replace(MODE, name="lookup"), replace(MODE, name="draft")))
    back = results.from_json(json.loads(json.dumps(results.as_json(several))))
    assert [mode.name for mode in back.modes] == ["auto", "lookup", "draft"]
