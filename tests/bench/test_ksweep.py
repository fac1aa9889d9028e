"""Speed-up against draft length: the measured ratio, and a theory fed with the same answers' acceptance and cost."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import ksweep
from localspec.bench.ksweep import Point
from localspec.bench.paired import PLAIN, Measured, Plan, run
from localspec.bench.theory import expected_tokens
from localspec.engine.requests import Speculate
from tests.bench.answers import CHAT, EDIT_A, EDIT_B, prompting
from tests.bench.cycles import Priced
from tests.bench.test_html import Page
from tests.cli.streams import CommandLine
from tests.fake_engine import Say, Script, plain
from tests.tiny import vocabulary, write_llama

LOOKUP: list[Speculate] = ["lookup"]


def sweep(engine: Priced, lengths: tuple[int, ...], rounds: int = 2) -> list[Point]:
    plan = Plan([EDIT_A, CHAT], ksweep.modes(LOOKUP, lengths), rounds, 64)
    measured = Measured(list(run(engine, plan, prompting)))
    return ksweep.points(measured, LOOKUP, lengths)


def test_plain_decoding_comes_first_then_every_drafter_with_every_length() -> None:
    modes = ksweep.modes(["lookup", "draft"], (1, 4))
    assert [(mode.speculate, mode.draft_length) for mode in modes] == [
        ("off", None), ("lookup", 1), ("lookup", 4), ("draft", 1), ("draft", 4),
    ]  # fmt: skip
    assert modes[0] == PLAIN


def test_perfect_drafts_are_as_fast_as_the_theory_says() -> None:
    """All accepted: K + 1 tokens a cycle over the cost of the pass and of drafting."""
    engine = Priced(verify=lambda width: 10.0 + width - 1, draft=lambda length: 2.0 * length)
    for point in sweep(engine, (1, 4)):
        cost = (10 + 3 * point.length) / 10
        assert point.speedup == pytest.approx((point.length + 1) / cost)
        assert point.theory == pytest.approx(point.speedup)
        assert point.verify_cost == pytest.approx(1 + point.length / 10)
        assert point.draft_cost == pytest.approx(point.length / 5)
        assert (point.acceptance_rate, point.drafted) == (1.0, 1.0)
        assert point.tokens_per_cycle == pytest.approx(point.length + 1)


def test_the_theory_takes_acceptance_as_independent() -> None:
    """Of 4 drafted tokens always 1 stands: 1 of 2 judged. Independence expects almost as many tokens, not the same."""
    (point,) = sweep(Priced(verify=lambda width: 10.0, accepted=lambda length: 1), (4,))
    assert point.acceptance_rate == pytest.approx(0.5)
    assert point.speedup == pytest.approx(2.0)
    assert point.theory == pytest.approx(expected_tokens(0.5, 4))


def test_cycles_without_a_draft_dilute_both_curves() -> None:
    """Every third cycle has a draft of 2, accepted, for two plain passes: 5 tokens in 4."""
    (point,) = sweep(Priced(verify=lambda width: 20.0 if width > 1 else 10.0, every=3), (2,))
    assert point.drafted == pytest.approx(1 / 3)
    assert point.speedup == pytest.approx(5 / 4)
    assert point.theory == pytest.approx(5 / 4)


def test_a_machine_that_slows_down_between_rounds_moves_neither_curve() -> None:
    costs: dict[str, Any] = {"verify": lambda width: 10.0 + width, "draft": lambda length: 1.0}
    # Two rounds of plain and two lengths a prompt: the second round is three times as slow.
    slow = Priced(**costs, slow=lambda number: 3.0 if number // 3 % 2 else 1.0)
    for found, wanted in zip(sweep(slow, (1, 4)), sweep(Priced(**costs), (1, 4)), strict=True):
        assert found.speedup == pytest.approx(wanted.speedup)
        assert found.theory == pytest.approx(wanted.theory)


def test_what_was_not_measured_is_missing() -> None:
    engine = Priced(cancel_after=2)
    plan = Plan([EDIT_A], ksweep.modes(LOOKUP, (1, 2)), 1, 64)
    measured = Measured(list(run(engine, plan, prompting)))
    first, second = ksweep.points(measured, LOOKUP, (1, 2))
    assert first.speedup is not None
    assert second == Point("lookup", 2)
    assert ksweep.best([first, second]) == first
    assert ksweep.best([second]) is None


def test_a_best_length_that_gains_nothing_is_not_called_fast() -> None:
    from localspec.cli.bench_k import fastest

    slow, theory = Point("draft", 1, speedup=0.72, theory=0.7), Point("draft", 2, speedup=0.6, theory=0.8)
    assert fastest(slow, theory).startswith("no length is faster than plain decoding; the best is 1 (0.72x)")
    quick = Point("draft", 3, speedup=1.3, theory=1.2)
    assert fastest(quick, quick) == "fastest: 3 (1.30x); by the theory 3 (1.20x)"


def test_the_fastest_point_of_either_curve() -> None:
    curve = [Point("draft", 1, speedup=1.5, theory=1.2), Point("draft", 2, speedup=1.4, theory=1.6)]
    found, expected = ksweep.best(curve), ksweep.best(curve, by_theory=True)
    assert found is not None
    assert expected is not None
    assert (found.length, expected.length) == (1, 2)


def test_one_request_for_each_of_the_first_categories() -> None:
    assert ksweep.few([EDIT_A, EDIT_B, CHAT], 5) == [EDIT_A, CHAT]
    assert ksweep.few([EDIT_A, EDIT_B, CHAT], 1) == [EDIT_A]


ANSWER = Script([*plain("a"), Say(("b", "c"), end=("bonus", "e")), Say(("f",), end=("resampled", "g"))], "max_tokens")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER])
    return line


def test_the_command_draws_a_curve_for_each_drafter(cli: CommandLine, model: Path) -> None:
    outcome = cli.run(
        "bench", "k", "--target", str(model), "--draft", str(model), "--lengths", "2,1", "--prompts", "1",
        "--repeats", "1",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith("target tiny.gguf")
    assert "draft tiny.gguf" in lines[0]
    rows = [line.split() for line in lines if line.startswith((" ", "lookup", "draft"))]
    assert [row[0] for row in rows] == ["lookup", "1", "2", "draft", "1", "2"]
    # The fake engine answers all alike.
    assert rows[1][1] == "1.00x"
    assert "█" in outcome.out
    asked = [(request.speculate, request.draft_length) for request in cli.engines[-1].requests]
    assert asked == [("off", None), ("lookup", 1), ("lookup", 2), ("draft", 1), ("draft", 2)]
    assert cli.engines[-1].closed


def test_the_page_has_both_curves_for_each_drafter(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "[page].html"
    arguments = ("--lengths", "1,2", "--prompts", "1", "--repeats", "1", "--html", str(file))
    outcome = cli.run("bench", "k", "--target", str(model), "--draft", str(model), *arguments)
    assert (outcome.code, outcome.err) == (0, f"localspec: the page is {file}\n")
    found = Page(file.read_text(encoding="utf-8"))
    assert found.count("svg") == found.count("table") == 2
    # Measured at both lengths; the scripted drafts are all of 2, so nothing tells what a cycle of length 1 costs.
    assert found.count("path") == 4
    assert found.count("circle") == 2 * (2 + 1)
    assert {"measured", "theory"} <= set(found.words["th"])


def test_longer_drafts_than_usual_get_their_room(cli: CommandLine, model: Path) -> None:
    arguments = ("bench", "k", "--target", str(model), "--prompts", "1", "--repeats", "1", "--json")
    outcome = cli.run(*arguments, "--lengths", "48", "--drafter", "lookup")
    assert cli.engines[-1].config.max_draft_length == 48
    assert cli.engines[-1].config.draft is None
    (point,) = json.loads(outcome.out)["points"]
    assert (point["drafter"], point["length"], point["speedup"]) == ("lookup", 48, pytest.approx(1.0))


def test_a_draft_that_was_asked_for_must_be_there(cli: CommandLine, model: Path) -> None:
    outcome = cli.run("bench", "k", "--target", str(model), "--drafter", "draft")
    assert (outcome.code, outcome.out) == (1, "")
    assert "needs a draft" in outcome.err


def test_interrupted_it_prints_what_it_has(cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localspec.cli import interrupts
    from tests.fake_engine import FakeEngine

    generate, enter = FakeEngine.generate, interrupts.Interrupts.__enter__
    handlers: list[interrupts.Interrupts] = []

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        handlers.append(self)
        return enter(self)

    def interrupted(self: FakeEngine, request: Any) -> Any:
        if len(self.requests) == 2:
            handlers[-1]._handle(2, None)
        return generate(self, request)

    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    monkeypatch.setattr(FakeEngine, "generate", interrupted)
    outcome = cli.run("bench", "k", "--target", str(model), "--lengths", "1,2,3", "--json")
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    speedups = [point["speedup"] for point in json.loads(outcome.out)["points"]]
    assert speedups[0] == pytest.approx(1.0)
    assert speedups[2] is None


def test_the_real_engine_on_a_tiny_model(tmp_path: Path) -> None:
    """The target as its own draft: all is accepted, and every cycle but the last has a full draft."""
    model = write_llama(tmp_path / "tiny.gguf", tokens=vocabulary(with_bytes=True), context=4096)
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "k", "--target", str(model), "--draft", str(model), "--lengths",
         "1,3", "--prompts", "1", "--repeats", "1", "--max-tokens", "24", "--threads", "1", "--drafter", "draft",
         "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=True,
    )  # fmt: skip
    one, three = json.loads(done.stdout)["points"]
    assert one["acceptance_rate"] == three["acceptance_rate"] == 1.0
    assert 1.5 < one["tokens_per_cycle"] <= 2
    assert 3 < three["tokens_per_cycle"] <= 4
    for point in (one, three):
        assert point["drafted"] > 0.8
        assert min(point["speedup"], point["theory"], point["verify_cost"], point["draft_cost"]) > 0
