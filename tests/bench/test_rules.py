"""The rules beside each other: what is reckoned from the places, the order of measuring, and the command."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import results, rule_results, rules
from localspec.bench.curves import Curve
from localspec.bench.rule_results import Cell, RuleCell
from localspec.engine.requests import EngineConfig, SamplerSettings
from localspec.engine.rule_report import Place, RuleRates
from tests.bench.answers import CHAT, EDIT_A, prompting
from tests.bench.reports import REPORT
from tests.bench.test_html import Page
from tests.cli.streams import CommandLine, failed
from tests.fake_engine import FakeEngine, Say, Script, plain
from tests.tiny import vocabulary, write_llama

PRICES = Curve("a price list", (1, 2, 3, 4), (0,), ((1.0, 1.5, 2.0, 2.5),), 0.25)
"""A further token costs half a plain pass, a drafted one a quarter."""

ANSWER = Script([*plain("a"), Say(("b", "c"), end=("bonus", "d"), drafter="draft")], "max_tokens")


def place(kept: tuple[float, ...], block: tuple[float, ...] | None = None, minima: float = 0.5) -> Place:
    return Place(20, len(kept), {"rejection": kept, "block": block or kept, "coupled": kept}, minima, 0.4, 0.3)


def cell(*places: Place, text: str = "code", temperature: float = 1.0) -> Cell:
    return Cell(text, temperature, RuleRates(True, places))


# -- figures --


def test_a_speedup_is_tokens_over_passes_and_drafting() -> None:
    found = rule_results.cell(cell(place((0.5, 0.8)), place((0.9, 1.6))), 2, PRICES)
    one, two = found.at("rejection", 1), found.at("rejection", 2)
    assert one is not None
    assert two is not None
    assert (one.accepted, two.accepted) == (pytest.approx(0.7), pytest.approx(1.2))
    assert one.speedup == pytest.approx(1.7 / 1.75)
    assert two.speedup == pytest.approx(2.2 / 2.5)
    assert found.best("rejection") == one
    assert (found.places, found.minima, found.agreement, found.argmax) == (2, 0.5, 0.4, 0.3)


def test_a_draft_that_ended_by_itself_costs_what_it_was() -> None:
    found = rule_results.cell(cell(place((1.0,)), place((1.0, 2.0, 3.0))), 3, PRICES)
    three = found.at("block", 3)
    assert three is not None
    assert three.accepted == pytest.approx((1 + 3) / 2)
    assert three.speedup == pytest.approx((2 + 4) / (1.75 + 3.25))


def test_without_a_cost_curve_there_is_no_virtual_time() -> None:
    found = rule_results.cell(cell(place((0.5,))), 1, None)
    assert [point.speedup for point in found.points] == [None] * 3
    assert found.best("block") is None


def test_over_the_texts_tokens_are_averaged_and_speedups_as_ratios() -> None:
    cells = [rule_results.cell(one, 1, PRICES) for one in (cell(place((0.0,))), cell(place((1.0,)), text="chat"))]
    both: RuleCell = rule_results.mean(cells)
    point = both.at("coupled", 1)
    assert point is not None
    assert (both.text, both.places, point.accepted) == ("all", 2, pytest.approx(0.5))
    assert point.speedup == pytest.approx(((1 / 1.75) * (2 / 1.75)) ** 0.5)


def test_a_gain_is_of_the_same_places_and_its_interval_too() -> None:
    """Block keeps a tenth more at every place, easy or hard: the places differ, the ratio does not."""
    places = [place((kept,), block=(kept + 0.1 * (1 + kept),)) for kept in (0.0, 0.2, 0.9)]
    other = [place((kept,)) for kept in (0.3, 0.7)]
    found = [cell(*places), cell(*other, text="chat", temperature=0.3)]
    gain = rule_results.gain(found, "block", 1, 1.0)
    assert (gain.ratio.value, gain.ratio.low, gain.ratio.high) == pytest.approx((1.1, 1.1, 1.1))
    assert rule_results.gain(found, "block", 1, None).ratio.value == pytest.approx(1.1**0.5)
    assert rule_results.gain(found, "coupled", 1, 0.3).ratio.value == 1.0


def test_places_that_differ_make_an_interval_wide() -> None:
    places = [place((0.5,), block=(0.5 if number % 4 else 1.5,)) for number in range(20)]
    ratio = rule_results.gain([cell(*places)], "block", 1, None).ratio
    assert ratio.value == pytest.approx(1.75 / 1.5)
    assert ratio.low is not None
    assert ratio.high is not None
    assert 1.0 <= ratio.low < 1.1 < ratio.value < ratio.high < 1.35


# -- measuring --


def engine() -> FakeEngine:
    made = FakeEngine(EngineConfig("t.gguf", "d.gguf"), scripts=[ANSWER])
    made.start()
    return made


def setting(fake: FakeEngine, **values: Any) -> rules.Setting:
    usual: dict[str, Any] = {
        "texts": [EDIT_A, CHAT], "temperatures": (0.5, 1.0), "lengths": (1, 2), "text_tokens": 7, "stride": 2,
        "wall_length": 2, "rounds": 1, "max_tokens": 8, "sampling": SamplerSettings(top_k=7),
    }  # fmt: skip
    return rules.Setting(fake, prompting, "draft", **usual | values)


def test_every_text_at_every_temperature_then_the_rules_in_turns() -> None:
    fake, found, told = engine(), rules.Found(), []
    rules.measure(found, setting(fake), progress=lambda part, text: told.append((part, text)))
    jobs = [(job.prompt[0].text, job.sampling.temperature, job.timed) for job in fake.jobs]
    assert jobs == [("edit a", 0.5, True), ("talk", 0.5, False), ("edit a", 1.0, False), ("talk", 1.0, False)]
    assert {(job.longest, job.text_tokens, job.stride, job.sampling.top_k) for job in fake.jobs} == {(2, 7, 2, 7)}
    asked = [(one.speculate, one.verify, one.draft_length) for one in fake.requests[:4]]
    assert asked == [
        ("off", "rejection", None), ("draft", "rejection", 2), ("draft", "block", 2), ("draft", "coupled", 2)
    ]  # fmt: skip
    assert [one.sampling.temperature for one in fake.requests] == ([0.5] * 4 + [1.0] * 4) * 2
    assert found.complete
    parts = [part for part, _ in told]
    assert parts == sorted(parts)
    assert parts[-1] == pytest.approx(1.0)
    report = found.report(setting(fake), PRICES)
    assert [(run.rule, run.temperature) for run in report.runs] == [
        (rule, temperature) for temperature in (0.5, 1.0) for rule in ("rejection", "block", "coupled")
    ]
    assert {(run.wall.value, run.tokens_per_cycle, run.answers) for run in report.runs} == {(1.0, 3.0, 2)}
    assert [mean.temperature for mean in report.means] == [0.5, 1.0]
    assert report.times[0].rules["coupled"] == 0.3


def test_what_was_cancelled_within_a_text_is_kept() -> None:
    fake, found = engine(), rules.Found()
    rules.measure(found, setting(fake), progress=lambda part, text: fake.cancel() if len(fake.jobs) == 2 else None)
    assert len(fake.jobs) == 2
    assert fake.requests == []
    report = found.report(setting(fake), None)
    assert not report.complete
    assert [one.places for one in report.cells] == [3, 1]
    assert report.runs == ()


def test_no_rounds_no_wall_clock() -> None:
    fake, found = engine(), rules.Found()
    rules.measure(found, setting(fake, rounds=0))
    assert fake.requests == []
    assert found.complete


# -- the command --


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER])
    return line


def command(cli: CommandLine, model: Path, *arguments: str) -> Any:
    return cli.run("bench", "rules", "--target", str(model), "--draft", str(model), *arguments)


FEW = ("--places", "3", "--lengths", "1,2", "--repeats", "1", "--temp", "0.7")


def test_a_table_for_each_temperature_then_gains_clock_and_arithmetic(cli: CommandLine, model: Path) -> None:
    outcome = command(cli, model, *FEW, "--cost-curve", "amx")
    assert (outcome.code, outcome.err) == (0, "")
    text = outcome.out
    assert "reference: native build with AMX" in text
    assert "top-k 40, top-p 0.95, min-p 0.05" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["code", "1", "1.50", "1.55", "1.45", "0.74x", "0.76x", "0.71x"] in lines
    assert ["all", "1", "1.50", "1.55", "1.45", "0.74x", "0.76x", "0.71x"] in lines
    # By this curve drafting pays at no length, under no rule.
    assert ["best", "none", "none", "none", "1.00x", "1.00x", "1.00x"] in lines
    assert ["block", "1", "1.033x", "1.033", "to", "1.033"] in lines
    assert ["0.7", "coupled", "3", "1.00x", "1.00", "to", "1.00", "3.00", "3"] in lines
    assert ["top-k", "40", "0.500", "0.100", "0.200", "0.300"] in lines
    jobs = cli.engines[-1].jobs
    assert [job.text_tokens for job in jobs] == [10, 10, 10]
    assert cli.engines[-1].closed


def test_json_and_a_page_have_the_same_figures(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "rules.html"
    outcome = command(cli, model, *FEW, "--temp", "1", "--json", "--html", str(page))
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["complete"] is True
    assert [one["text"] for one in found["cells"]] == ["code", "chat", "story"] * 2
    assert found["machine"]["target"]["name"] == model.name
    shown = Page(page.read_text(encoding="utf-8"))
    assert shown.count("figure") == 2
    assert shown.count("svg") == 4
    assert "1.55" in shown.words["td"]
    assert {"By the wall clock", "Arithmetic a drafted token"} <= set(shown.words["h3"])


def test_the_comparison_joins_a_saved_report(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    saved, page = tmp_path / "today.json", tmp_path / "page.html"
    saved.write_text(json.dumps(results.as_json(REPORT)))
    outcome = command(cli, model, *FEW, "--into", str(saved), "--json")
    assert outcome.code == 0
    again = results.from_json(json.loads(saved.read_text()))
    assert again.rules is not None
    assert again.modes == REPORT.modes
    assert json.loads(outcome.out)["means"] == json.loads(saved.read_text())["rules"]["means"]
    assert again.rules.means[0].at("block", 2) is not None
    outcome = cli.run("bench", "report", str(saved), "--html", str(page))
    assert outcome.code == 0
    assert "Temperature 0.7: tokens per cycle" in outcome.out
    shown = Page(page.read_text(encoding="utf-8"))
    assert "The verification rules" in shown.words["h2"]
    assert "Tokens per cycle by rule, temperature 0.7" in shown.words["title"]


def test_bench_full_has_the_rules_on_its_page(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    workload, page = tmp_path / "one.jsonl", tmp_path / "page.html"
    workload.write_text(json.dumps({"id": "c", "category": "chat", "prompt": "Hello"}))
    outcome = cli.run(
        "bench", "--target", str(model), "--draft", str(model), "--full", "--workload", str(workload), "--repeats",
        "1", "--html", str(page), "--json",
    )  # fmt: skip
    assert outcome.code == 0
    assert json.loads(outcome.out)["rules"]["complete"] is True
    assert "The verification rules" in Page(page.read_text(encoding="utf-8")).words["h2"]


def test_without_a_draft_model_there_is_nothing_to_judge(cli: CommandLine, model: Path) -> None:
    outcome = cli.run("bench", "rules", "--target", str(model), *FEW)
    failed(outcome, "without a draft model", "--draft")
    assert cli.engines[-1].closed


def test_a_drafter_is_not_to_be_chosen(cli: CommandLine, model: Path) -> None:
    outcome = command(cli, model, "--speculate", "lookup")
    failed(outcome, "--speculate does not belong here", code=2)


def test_longer_drafts_than_usual_get_their_room(cli: CommandLine, model: Path) -> None:
    assert command(cli, model, *FEW, "--lengths", "40").code == 0
    assert cli.engines[-1].config.max_draft_length == 40


def test_interrupted_it_prints_what_it_has(cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localspec.cli import interrupts

    measure, enter = FakeEngine.measure, interrupts.Interrupts.__enter__
    handlers: list[interrupts.Interrupts] = []

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        handlers.append(self)
        return enter(self)

    def interrupted(self: FakeEngine, job: Any, on_progress: Any) -> Any:
        if len(self.jobs) == 1:
            handlers[-1]._handle(2, None)
            return RuleRates(False)
        return measure(self, job, on_progress)

    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    monkeypatch.setattr(FakeEngine, "measure", interrupted)
    outcome = command(cli, model, *FEW, "--json")
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    found = json.loads(outcome.out)
    assert (found["complete"], len(found["cells"]), found["runs"]) == (False, 1, [])


def test_the_real_engine_on_tiny_models(tmp_path: Path) -> None:
    """The target as its own draft loses nothing under any rule, reckoned and counted."""
    model = write_llama(tmp_path / "tiny.gguf", tokens=vocabulary(with_bytes=True), context=4096)
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "rules", "--target", str(model), "--draft", str(model),
         "--places", "3", "--lengths", "1,3", "--temp", "1", "--max-tokens", "13", "--repeats", "1", "--threads", "1",
         "--cost-curve", "amx", "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    for cell_ in found["cells"]:
        assert cell_["minima"] == pytest.approx(1.0, abs=1e-3)
        for point in cell_["points"]:
            assert point["accepted"] == pytest.approx(point["length"], abs=0.01)
    for run in found["runs"]:
        assert 2.5 < run["tokens_per_cycle"] <= 4
    assert [one["filters"] for one in found["times"]] == ["top-k 40", "unfiltered"]
