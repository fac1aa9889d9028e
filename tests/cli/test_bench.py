"""`localspec bench` with a scripted engine, and once with the real one on a tiny model."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.cli import bench_suite, interrupts
from localspec.engine.errors import EngineDied, EngineError
from localspec.models import measured
from tests import fake_engine
from tests.cli.processes import POSIX_SIGNALS, ROOT, Start, interrupted
from tests.cli.streams import CommandLine, failed
from tests.fake_engine import FakeEngine, Say, Script, plain

ANSWER = Script(
    [*plain("a"), Say(("b", "c", "d"), end=("bonus", "e")), Say(("f",), end=("resampled", "g"), proposed=4)],
    reason="max_tokens",
)
"""A first token, then four and two in two cycles of 0.01 s: plain and auto are as fast as each other."""


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER])
    return line


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    rows = [
        {"id": "e[1]", "category": "code-edit", "prompt": "Rename [/] it."},
        {"id": "e2", "category": "code-edit", "prompt": "Rename that."},
        {"id": "c1", "category": "chat", "prompt": "Hello"},
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def bench(cli: CommandLine, model: Path, *arguments: str) -> Any:
    return cli.run("bench", "--target", str(model), *arguments)


def asked(cli: CommandLine) -> list[tuple[str, str, float]]:
    requests = cli.engines[-1].requests
    return [(one.prompt[1].text, one.speculate, one.sampling.temperature) for one in requests]


def test_without_options_one_request_of_each_kind_plain_and_auto_three_times(
    cli: CommandLine, bytes_model: Path
) -> None:
    outcome = bench(cli, bytes_model, "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert [row["category"] for row in found["modes"][0]["categories"]] == [
        "code-edit", "code-generation", "chat", "summarization", "question-answering", "extraction", "math",
        "translation",
    ]  # fmt: skip
    assert len(cli.engines[-1].requests) == 8 * 2 * 3
    assert {request.max_tokens for request in cli.engines[-1].requests} == {64}
    ways = [speculate for _, speculate, _ in asked(cli)][:6]
    assert ways == ["off", "auto", "auto", "off", "off", "auto"]
    assert (found["complete"], found["rounds"], found["workload"]) == (True, 3, "built-in")
    assert found["machine"]["library"] == "fake 1.0"
    # By the fake machine's 10 ms a plain pass: 48 answers of 64 tokens, and the reading.
    assert re.search(r"48 answers to 8 prompts: about 3\d seconds, 0\.0 GB of memory", outcome.err)


def test_both_clocks_are_told(cli: CommandLine, bytes_model: Path, workload: Path) -> None:
    """The fake machine's passes of 4 and 5 tokens cost 1.3 and 1.4; six tokens came of the two cycles."""
    outcome = bench(cli, bytes_model, "--workload", str(workload), "--json")
    row = json.loads(outcome.out)["modes"][0]["categories"][0]
    assert row["wall"]["value"] == pytest.approx(1.0)
    assert row["wall"]["low"] == pytest.approx(1.0)
    assert row["virtual"] == pytest.approx(6 / (1.3 + 1.4))
    assert row["bound"] is not None
    assert (row["prompts"], row["tokens"], row["judged"], row["accepted"]) == (2, 36, 30, 24)


def test_the_table_has_a_row_a_category_and_a_verdict(cli: CommandLine, bytes_model: Path, workload: Path) -> None:
    """T2: names of requests are no markup."""
    outcome = bench(cli, bytes_model, "--workload", str(workload), "--verbose")
    lines = {line.split("  ")[0]: line for line in outcome.out.splitlines()}
    assert "1.00x" in lines["code-edit"]
    assert "2.22x" in lines["code-edit"]
    assert "lookup 100%" in lines["geometric mean"]
    assert "short answers: e[1], e2" in outcome.out
    assert "auto: no category was slower than plain" in outcome.out
    assert "tiny.gguf" in outcome.out
    assert "fake 1.0" in outcome.out


def test_eighty_columns_are_enough(
    cli: CommandLine, bytes_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is cut or broken in a terminal of the usual width; a wide one shows more."""
    saved = tmp_path / "saved.json"
    bench(cli, bytes_model, "--repeats", "2", "--save", str(saved))
    monkeypatch.setenv("COLUMNS", "80")
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", cli.run("bench", "report", str(saved), "--verbose", terminal=True).out)
    assert max(map(len, narrow.splitlines())) <= 80
    assert re.search(r"^question-answering +12 +1\.00x +1\.00–1\.00 +2\.22x +\d\.\d\dx +\d+% +80%", narrow, re.M)
    assert "tokens/cycle" not in narrow
    monkeypatch.setenv("COLUMNS", "118")
    wide = re.sub(r"\x1b\[[0-9;]*m", "", cli.run("bench", "report", str(saved), terminal=True).out)
    assert max(map(len, wide.splitlines())) <= 118
    assert re.search(r"^question-answering +1 +12 .* 3\.00 +lookup 100%", wide, re.M)


def test_virtual_time_of_another_machine(cli: CommandLine, bytes_model: Path, workload: Path, tmp_path: Path) -> None:
    file = tmp_path / "curve.json"
    file.write_text(json.dumps({"name": "other", "widths": [1, 4, 5], "costs": [[1, 2, 4]]}))
    outcome = bench(cli, bytes_model, "--workload", str(workload), "--json", "--cost-curve", str(file))
    found = json.loads(outcome.out)
    assert found["curve"]["name"] == "other"
    assert found["modes"][0]["categories"][0]["virtual"] == pytest.approx(1.0)
    assert cli.engines[-1].calibrated == []


def test_a_machine_that_was_never_measured_is_measured_first(
    cli: CommandLine, bytes_model: Path, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    calibrate, generate = FakeEngine.calibrate, FakeEngine.generate

    def calibrated(self: FakeEngine, seconds: float, on_progress: Any = None) -> Any:
        order.append("calibrate")
        return calibrate(self, seconds, on_progress)

    def generated(self: FakeEngine, request: Any) -> Any:
        order.append("generate")
        return generate(self, request)

    monkeypatch.setattr(FakeEngine, "calibrate", calibrated)
    monkeypatch.setattr(FakeEngine, "generate", generated)
    bench(cli, bytes_model, "--workload", str(workload))
    assert order[:2] == ["calibrate", "generate"]
    assert order.count("calibrate") == 1
    assert cli.engines[-1].calibrated == [bench_suite.CALIBRATE_S]


def test_what_was_measured_before_is_not_measured_again(
    cli: CommandLine, bytes_model: Path, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_engine, "COSTS", replace(fake_engine.COSTS, samples=(9,) * 33))
    bench(cli, bytes_model, "--workload", str(workload), "--repeats", "1")
    assert cli.engines[-1].calibrated == []


def test_a_machine_that_cannot_be_measured_is_priced_by_its_answers(
    cli: CommandLine, bytes_model: Path, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one width was seen often enough besides the plain passes, and it cost as much as those."""

    def refuse(self: FakeEngine, seconds: float, on_progress: Any = None) -> None:
        raise EngineError("The caches of this model cannot be cut back.")

    monkeypatch.setattr(FakeEngine, "calibrate", refuse)
    cli.use(scripts=[Script(plain("a", "b", "c")), ANSWER] * 9)
    outcome = bench(cli, bytes_model, "--workload", str(workload), "--json")
    assert "could not be measured: The caches of this model cannot be cut back." in outcome.err
    found = json.loads(outcome.out)
    assert found["curve"]["name"] == "the passes of these answers"
    assert found["modes"][0]["categories"][0]["virtual"] > 1


def test_full_is_all_modes_temperatures_and_prompts(
    cli: CommandLine, bytes_model: Path, workload: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.json"
    options = ("--full", "--workload", str(workload), "--repeats", "1", "--json", "--save", str(saved))
    outcome = bench(cli, bytes_model, "--draft", str(bytes_model), *options)
    found = json.loads(outcome.out)
    names = ["auto", "lookup", "draft"]
    assert [mode["name"] for mode in found["modes"]] == names + [f"{name}, temperature 1" for name in names]
    # The comparison of the rules follows.
    assert {request.draft_length for request in cli.engines[-1].requests[3 * 8 :]} == {None, 3}
    cli.engines[-1].requests[3 * 8 :] = []
    assert {request.max_tokens for request in cli.engines[-1].requests} == {128}
    assert "Geometric means" in cli.run("bench", "report", str(saved)).out


def test_one_way_to_speculate_may_be_asked_for(cli: CommandLine, bytes_model: Path, workload: Path) -> None:
    way = ("--speculate", "lookup", "--draft-length", "15", "--temp", "0.5")
    outcome = bench(cli, bytes_model, "--workload", str(workload), *way, "--prompts", "1", "--repeats", "1", "--json")
    (mode,) = json.loads(outcome.out)["modes"]
    assert (mode["name"], mode["draft_length"], mode["temperature"]) == ("lookup 15, temperature 0.5", 15, 0.5)
    assert len(cli.engines[-1].requests) == 2 * 2
    assert {temperature for _, _, temperature in asked(cli)} == {0.5}


def test_the_menu_shows_what_was_measured_of_its_pair(cli: CommandLine, bytes_model: Path, workload: Path) -> None:
    bench(cli, bytes_model, "--workload", str(workload))
    assert measured.read() == {}
    assert cli.run("models", "add", "mine", "--target", str(bytes_model)).code == 0
    cli.run("bench", "--pair", "mine", "--workload", str(workload), "--repeats", "1")
    assert measured.read() == {"mine": {"code-edit": 1.0, "chat": 1.0, "geometric mean": 1.0}}
    row = next(line for line in cli.run("models", "list").out.splitlines() if line.startswith("mine "))
    assert "1.0x" in row


def test_a_saved_report_can_be_shown_again_and_made_a_page_of(
    cli: CommandLine, bytes_model: Path, workload: Path, tmp_path: Path
) -> None:
    saved, once, again = tmp_path / "saved.json", tmp_path / "once.html", tmp_path / "again.html"
    files = ("--save", str(saved), "--html", str(once))
    first = bench(cli, bytes_model, "--workload", str(workload), *files)
    second = cli.run("bench", "report", str(saved), "--html", str(again))
    assert second.code == 0
    assert second.out == first.out
    assert once.read_text(encoding="utf-8") == again.read_text(encoding="utf-8")
    assert f"--save {saved}" in once.read_text(encoding="utf-8")
    assert json.loads(cli.run("bench", "report", str(saved), "--json").out) == json.loads(saved.read_text())
    assert len(cli.engines) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "no saved report"),
        ("{", "not JSON"),
        pytest.param("[" * 100_000, "not JSON", id="deep"),
        (None, "No such file or directory"),
    ],
)
def test_what_is_no_report_is_one_line(cli: CommandLine, tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "saved.json"
    if text is not None:
        file.write_text(text)
    failed(cli.run("bench", "report", str(file)), str(file), words)


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("--speculate", "off"), "nothing to compare", 2),
        (("--full", "--speculate", "lookup"), "--full measures every way", 2),
        (("--full", "--draft-length", "3"), "--full measures every way", 2),
        (("--cost-curve", "fast"), "amx, avx512, avx2", 1),
        (("--html", "/nowhere/at/all.html"), "cannot be written", 1),
        (("--save", "."), "cannot be written", 1),
        (("--max-tokens", "1"), "--max-tokens", 1),
        (("--workload", "/nowhere.jsonl"), "/nowhere.jsonl", 1),
        (("figures",), "--target belongs after the command: bench figures", 2),
        (("nonsense",), "No such command 'nonsense'", 2),
    ],
)
def test_what_cannot_be_done_is_one_line_before_anything_is_loaded(
    cli: CommandLine, bytes_model: Path, arguments: tuple[str, ...], words: str, code: int
) -> None:
    failed(bench(cli, bytes_model, *arguments), words, code=code)
    assert cli.engines == []


def test_a_bad_workload_is_one_line(cli: CommandLine, bytes_model: Path, workload: Path) -> None:
    workload.write_text('{"id": "x"}\n')
    failed(bench(cli, bytes_model, "--workload", str(workload)), f"{workload}:1: category must be a text")
    assert cli.engines == []


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`stop_after(n)`: Ctrl+C comes when n answers are made."""
    generate, enter = FakeEngine.generate, interrupts.Interrupts.__enter__
    handlers: list[interrupts.Interrupts] = []

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        handlers.append(self)
        return enter(self)

    def stop_after(count: int) -> None:
        def interrupted(self: FakeEngine, request: Any) -> Any:
            if len(self.requests) == count:
                handlers[-1]._handle(2, None)
            return generate(self, request)

        monkeypatch.setattr(FakeEngine, "generate", interrupted)

    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    return stop_after


def test_interrupted_it_keeps_what_it_has(
    cli: CommandLine, bytes_model: Path, workload: Path, tmp_path: Path, stop_after: Callable[[int], None]
) -> None:
    """The first Ctrl+C ends the measurement, not what it found: table, file and page are made of that."""
    page = tmp_path / "page.html"
    stop_after(7)
    outcome = bench(cli, bytes_model, "--workload", str(workload), "--json", "--html", str(page))
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    found = json.loads(outcome.out)
    assert found["complete"] is False
    (row,) = found["modes"][0]["categories"]
    # Three rounds of the first request, one of the second: the interrupt came as its answer began.
    assert (row["answers"], row["wall"]["value"]) == (4, pytest.approx(1.0))
    assert "Stopped before its end" in page.read_text(encoding="utf-8")
    assert cli.engines[-1].closed


def test_the_menu_gets_no_mean_of_half_a_measurement(
    cli: CommandLine, bytes_model: Path, workload: Path, stop_after: Callable[[int], None]
) -> None:
    cli.run("models", "add", "mine", "--target", str(bytes_model))
    stop_after(7)
    assert cli.run("bench", "--pair", "mine", "--workload", str(workload)).code == 130
    assert measured.read() == {"mine": {"code-edit": 1.0}}


def test_the_mean_in_the_menu_is_that_of_the_categories_beside_it(
    cli: CommandLine, bytes_model: Path, workload: Path, tmp_path: Path
) -> None:
    """A mean of fewer requests does not stand for all, and an old one not for new figures."""
    cli.run("models", "add", "mine", "--target", str(bytes_model))
    measured.remember("mine", {"code-edit": 3.0, "chat": 1.0, "math": 1.5, "geometric mean": 1.65, "edits": 2.0})
    cli.run("bench", "--pair", "mine", "--workload", str(workload), "--repeats", "1")
    assert measured.read()["mine"] == {"code-edit": 1.0, "chat": 1.0, "math": 1.5, "edits": 2.0}
    cli.run("bench", "--pair", "mine", "--repeats", "1")
    assert measured.read()["mine"]["geometric mean"] == 1.0
    assert measured.read()["mine"]["math"] == 1.0


@POSIX_SIGNALS
def test_an_interrupt_of_the_process_keeps_what_it_has(
    start: Start, bytes_model: Path, workload: Path, tmp_path: Path
) -> None:
    """Six answers are made, the seventh hangs until it is cancelled."""
    process = start(
        "tests.cli.scripted", "bench", "bench", "--target", str(bytes_model), "--workload", str(workload), "--json"
    )
    out, err = interrupted(process, tmp_path / "ready")
    assert process.returncode == 130
    assert "interrupted: what was measured until then is shown" in err.decode()
    found = json.loads(out)
    assert found["complete"] is False
    assert found["modes"][0]["categories"][0]["answers"] == 3


def test_an_engine_that_dies_leaves_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, bytes_model: Path, workload: Path
) -> None:
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER] * 6 + [Script([EngineDied("The engine ended.")])])
    outcome = bench(line, bytes_model, "--workload", str(workload), "--json")
    assert outcome.code == 1
    assert outcome.err.endswith("localspec: The engine ended.\n")
    (row,) = json.loads(outcome.out)["modes"][0]["categories"]
    assert row["wall"]["value"] == pytest.approx(1.0)


def test_help_loads_no_command(cli: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from localspec.cli.main import main\n"
         "try: main(['bench', '--help'])\n"
         "finally: print([name for name in sys.modules if name.startswith('localspec.bench') or name == 'numpy'])"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True, text=True,
    )  # fmt: skip
    assert "report" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_real_engine_on_a_tiny_model(bytes_model: Path, workload: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "--target", str(bytes_model), "--draft", str(bytes_model),
         "--repeats", "2", "--max-tokens", "70", "--threads", "1", "--workload", str(workload), "--html", str(page),
         "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["complete"] is True
    (mode,) = found["modes"]
    assert [row["category"] for row in mode["categories"]] == ["code-edit", "chat"]
    for row in mode["categories"]:
        assert row["wall"]["value"] > 0
        assert row["virtual"] > 0
        # A bound is a bound of lookup: with perfect lengths it never loses to plain decoding.
        assert row["bound"] >= 1
        assert row["cycles"] <= row["tokens"] <= 69 * row["answers"]
    assert found["curve"]["widths"][0] == 1
    assert "<svg" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("bench",), ("bench", "k")])
def test_a_prompt_that_leaves_no_room_is_named_before_anything_is_measured(
    cli: CommandLine, bytes_model: Path, workload: Path, command: tuple[str, ...]
) -> None:
    """The fake engine counts words, and has room for 512."""
    with workload.open("a") as file:
        file.write("\n" + json.dumps({"id": "book", "category": "summary", "prompt": "word " * 600}))
    outcome = cli.run(*command, "--target", str(bytes_model), "--workload", str(workload), "--prompts", "4")
    failed(outcome, "book", "the context of 512")
    assert cli.engines[-1].requests == []
    assert cli.engines[-1].closed
