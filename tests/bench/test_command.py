"""`localspec bench figures` with a scripted engine, and once with the real one on a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.bench import process
from localspec.bench.process import StartUp
from localspec.models import measured
from tests.cli.streams import CommandLine
from tests.fake_engine import FakeEngine, Say, Script, plain

ROOT = Path(__file__).parents[2]

ANSWER = Script(
    [*plain("a"), Say(("b", "c", "d"), end=("bonus", "e")), Say(("f",), end=("resampled", "g"), proposed=4)],
    reason="max_tokens",
)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setattr(process, "start_up", lambda: StartUp((0.1, 0.2, 0.3), ()))
    monkeypatch.setattr(FakeEngine, "pid", None, raising=False)
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER])
    return line


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    rows = [
        {"id": "e[1]", "category": "code-edit", "prompt": "Rename [/] it.\n```\nx = 1\n```"},
        {"id": "c1", "category": "chat", "prompt": "Hello"},
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def test_a_table_with_bars_and_one_row_an_edit(cli: CommandLine, model: Path, workload: Path) -> None:
    """T2: names of requests are no markup."""
    outcome = cli.run("bench", "figures", "--target", str(model), "--workload", str(workload), "--repeats", "2")
    assert (outcome.code, outcome.err) == (0, "")
    assert "target tiny.gguf" in outcome.out
    assert "fake 1.0" in outcome.out
    line = next(line for line in outcome.out.splitlines() if line.startswith("e[1]"))
    assert line.split() == ["e[1]", "lookup", "15", "1.00x", "1.00", "1.00", "80%", "3.00"]
    assert "median speed-up" in outcome.out
    assert "NO" in outcome.out
    prompts = {request.prompt[1].text for request in cli.engines[-1].requests[2:]}
    assert prompts == {"Rename [/] it.\n```\nx = 1\n```", "Hello"}
    assert cli.engines[-1].closed


def test_the_menu_shows_what_was_measured_of_its_pair(cli: CommandLine, model: Path, workload: Path) -> None:
    arguments = ("--workload", str(workload), "--repeats", "2")
    cli.run("bench", "figures", "--target", str(model), *arguments)
    assert measured.read() == {}
    assert cli.run("models", "add", "mine", "--target", str(model)).code == 0
    cli.run("bench", "figures", "--pair", "mine", *arguments)
    assert measured.read() == {"mine": {"edits": 1.0}}
    row = next(line for line in cli.run("models", "list").out.splitlines() if line.startswith("mine "))
    assert "edits 1.0x" in row


def test_json_is_one_value_on_stdout(cli: CommandLine, model: Path) -> None:
    """The built-in workload, three rounds."""
    outcome = cli.run("bench", "figures", "--target", str(model), "--json")
    found = json.loads(outcome.out)
    assert outcome.err == ""
    assert found["edit_speedup"] == pytest.approx(1.0)
    assert [len(edit["speedups"]) for edit in found["edits"]] == [3, 3, 3]
    assert found["machine"]["target"]["name"] == "tiny.gguf"
    assert found["command"].startswith("localspec bench figures --target ")
    assert found["date"]
    assert found["start_up"] == {"help_s": [0.1, 0.2, 0.3], "loaded": []}


def test_a_bad_workload_is_one_line(cli: CommandLine, model: Path, workload: Path) -> None:
    workload.write_text('{"id": "x"}\n')
    outcome = cli.run("bench", "figures", "--target", str(model), "--workload", str(workload))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"localspec: {workload}:1: category must be a text\n"
    assert cli.engines == []


@pytest.mark.parametrize("option", [("--speculate", "off"), ("--draft-length", "3")])
def test_options_that_choose_one_way_do_not_belong_here(cli: CommandLine, model: Path, option: tuple[str, str]) -> None:
    outcome = cli.run("bench", "figures", "--target", str(model), *option)
    assert outcome.code == 2
    assert option[0] in outcome.err


def test_interrupted_it_prints_what_it_has(
    cli: CommandLine, model: Path, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first Ctrl+C ends the measurement, not what it found."""
    from localspec.cli import interrupts

    generate = FakeEngine.generate
    handlers: list[interrupts.Interrupts] = []
    enter = interrupts.Interrupts.__enter__

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        handlers.append(self)
        return enter(self)

    def interrupted(self: FakeEngine, request: object) -> object:
        # Two of the chat, eight of the overheads, the first round of the edit, and the next one's first.
        if len(self.requests) == 2 + 8 + 2:
            handlers[-1]._handle(2, None)
        return generate(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    monkeypatch.setattr(FakeEngine, "generate", interrupted)
    arguments = ("bench", "figures", "--target", str(model), "--workload", str(workload), "--json")
    outcome = cli.run(*arguments)
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    found = json.loads(outcome.out)
    assert found["overhead_share"]["auto, greedy"] is not None
    assert found["start_up"] is not None
    assert [edit["speedups"] for edit in found["edits"]] == [[pytest.approx(1.0)]]
    assert len(cli.engines[-1].requests) == 13


def test_the_real_engine_on_a_tiny_model(model: Path) -> None:
    """Every figure is there, and none stands without an answer behind it."""
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "figures", "--target", str(model), "--draft", str(model),
         "--repeats", "1", "--max-tokens", "24", "--threads", "1", "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["draft"] == "tiny.gguf"
    assert len(found["overhead_share"]) == 6
    assert all(0 < share < 1 for share in found["overhead_share"].values())
    assert found["edit_speedup"] > 0
    # What a random model writes is not always tokenised again as it was written.
    assert 0 < found["second_turn"]["reused"] <= found["second_turn"]["same"]
    assert found["start_up"]["loaded"] == []
    if sys.platform == "linux":
        assert 0 < found["memory"]["anonymous"] <= found["memory"]["bound"]
