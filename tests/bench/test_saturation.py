"""Where spare compute ends: ratios of one round, the acceptance they ask for, and the process that is timed."""

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import saturation
from localspec.bench.saturation import Measurement, Pass, Plan, Saturation
from localspec.bench.theory import acceptance_for, expected_tokens, speedup
from localspec.engine import quirks
from localspec.engine.errors import EngineDied, LoadError
from localspec.engine.requests import EngineConfig
from tests.bench.test_html import Page
from tests.cli.streams import CommandLine
from tests.fake_engine import INFO
from tests.tiny import write_llama


@pytest.mark.parametrize(
    ("acceptance", "length", "tokens"), [(0.0, 3, 1.0), (1.0, 3, 4.0), (0.5, 2, 1.75), (0.8, 4, 3.3616)]
)
def test_expected_tokens_of_a_cycle(acceptance: float, length: int, tokens: float) -> None:
    assert expected_tokens(acceptance, length) == pytest.approx(tokens)
    assert acceptance_for(tokens, length) == pytest.approx(acceptance, abs=1e-6)


def test_no_acceptance_gives_more_than_a_whole_draft_and_one() -> None:
    assert acceptance_for(4.01, 3) is None


def test_undrafted_cycles_dilute_the_speedup() -> None:
    assert speedup(3.0, 1.5) == pytest.approx(2.0)
    # Of four cycles one emits 3 tokens for 2 plain passes: 6 tokens in 5.
    assert speedup(3.0, 2.0, drafted=0.25) == pytest.approx(6 / 5)


def test_break_even_is_the_median_of_ratios_within_rounds() -> None:
    """The machine becomes ten times slower, all passes alike: the ratio stays."""
    passes = [
        Pass(2, 0, 0, 10.0), Pass(2, 3, 0, 20.0), Pass(2, 3, 1, 300.0), Pass(2, 0, 1, 100.0), Pass(2, 0, 2, 10.0),
        Pass(2, 3, 2, 40.0),
    ]  # fmt: skip
    found = Saturation(None, passes)
    assert found.break_even(2, 3) == pytest.approx(3.0)
    assert found.acceptance(2, 3) == pytest.approx(acceptance_for(3.0, 3))
    assert found.cycles_per_s(2, 0) == pytest.approx(200.0)
    assert found.cycles_per_s(2, 3) == pytest.approx(50.0)
    assert (found.break_even(1, 3), found.ms(1, 0), found.acceptance(1, 3)) == (None, None, None)


def test_a_round_without_its_plain_pass_has_no_ratio() -> None:
    assert Saturation(None, [Pass(1, 3, 0, 5.0)]).break_even(1, 3) is None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


def plan(model: Path, **changes: Any) -> Plan:
    return Plan(EngineConfig(str(model), threads=1), **({"sequences": (1, 2), "lengths": (3,), "rounds": 2} | changes))


def test_the_real_process_times_every_pass(model: Path, tmp_path: Path) -> None:
    found = Saturation()
    told = list(Measurement(plan(model), state_dir=tmp_path).run(found))
    assert told == found.passes
    assert len(told) == plan(model).passes == 8
    assert found.info is not None
    assert (found.info.target, found.info.threads) == ("tiny.gguf", 1)
    assert found.break_even(2, 3) is not None
    assert "parallel sequences of tiny.gguf" in (tmp_path / "engine.log").read_text()


def test_what_the_process_says_is_raised_as_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist"):
        list(Measurement(plan(tmp_path / "no.gguf"), state_dir=tmp_path).run(Saturation()))


def child(tmp_path: Path, code: str) -> list[str]:
    """A stand-in for the process that measures; `job` is what it was told, `tell` writes a line."""
    start = (
        "import json, os, signal, sys\n"
        "job = json.loads(sys.stdin.readline())\n"
        "def tell(**line): print(json.dumps(line), flush=True)\n"
        "def one(ms): tell(type='pass', sequences=1, length=0, round=0, ms=ms)\n"
        f"tell(type='loaded', **{asdict(INFO)!r})\n"
    )
    file = tmp_path / "child.py"
    file.write_text(start + code)
    return [sys.executable, str(file)]


def test_a_process_that_dies_is_named_with_its_last_words(model: Path, tmp_path: Path) -> None:
    command = child(tmp_path, "one(1.0)\nsys.stderr.write('out of luck')\nsys.stderr.flush()\nos.abort()\n")
    found = Saturation()
    with pytest.raises(EngineDied, match=r"SIGABRT.*out of luck"):
        list(Measurement(plan(model), state_dir=tmp_path, command=command).run(found))
    assert len(found.passes) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGILL") or sys.platform == "win32", reason="POSIX signals")
def test_an_illegal_instruction_leads_to_the_safer_kernels_and_is_remembered(model: Path, tmp_path: Path) -> None:
    code = (
        "if job['config']['extra_bufts']:\n    one(1.0)\n    os.kill(os.getpid(), signal.SIGILL)\n    signal.pause()\n"
    )
    command = child(tmp_path, code + "one(5.0)\ntell(type='end')\n")
    found = Saturation()
    list(Measurement(plan(model), state_dir=tmp_path, command=command).run(found))
    # What the other kernels took is gone.
    assert [one.ms for one in found.passes] == [5.0]
    assert quirks.needs_plain_buffers(tmp_path)


def test_stopped_it_keeps_what_was_told(model: Path, tmp_path: Path) -> None:
    found = Saturation()
    measurement = Measurement(plan(model, rounds=10**6), state_dir=tmp_path)
    for _ in measurement.run(found):
        if len(found.passes) == 5:
            measurement.stop()
    assert len(found.passes) >= 5


def test_stopped_before_it_began_it_starts_nothing(model: Path, tmp_path: Path) -> None:
    measurement = Measurement(plan(model), state_dir=tmp_path, command=["/no/such/program"])
    measurement.stop()
    assert list(measurement.run(Saturation())) == []


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(monkeypatch)


ARGUMENTS = ("bench", "saturation", "--threads", "1", "--repeats", "2", "--context-tokens", "8")


def test_the_command_prints_a_table_for_every_length(cli: CommandLine, model: Path) -> None:
    outcome = cli.run(*ARGUMENTS, "--target", str(model), "--sequences", "1,2", "--lengths", "1,3")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("target tiny.gguf")
    assert "1 threads, context 8, KV cache f16" in outcome.out
    assert "bench saturation --target" in outcome.out
    assert "Drafts of 1: a cycle emits between 1 and 2 tokens" in outcome.out
    assert "Drafts of 3: a cycle emits between 1 and 4 tokens" in outcome.out
    assert "pay" in outcome.out.splitlines()[-1]


def test_json_has_every_figure(cli: CommandLine, model: Path) -> None:
    outcome = cli.run(*ARGUMENTS, "--target", str(model), "--sequences", "2,1", "--lengths", "3", "--json")
    found = json.loads(outcome.out)
    assert found["machine"]["target"]["name"] == "tiny.gguf"
    assert found["command"].endswith("--sequences 1,2 --lengths 3 --repeats 2 --context-tokens 8 --json")
    assert [row["sequences"] for row in found["sequences"]] == [1, 2]
    for row in found["sequences"]:
        (draft,) = row["drafts"]
        assert draft["length"] == 3
        assert draft["cycles_per_s"] == pytest.approx(row["sequences"] * 1000 / draft["ms"])
        assert draft["break_even"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--draft", "x"), 2, "no draft"),
        (("--speculate", "off"), 2, "--speculate"),
        (("--ctx", "64"), 2, "--context-tokens"),
        (("--sequences", "1,x"), 2, "'x' is not a whole number"),
        (("--lengths", "0"), 1, "--lengths"),
    ],
)
def test_what_does_not_belong_is_refused(
    cli: CommandLine, model: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    outcome = cli.run(*ARGUMENTS, "--target", str(model), *arguments)
    assert outcome.code == code
    assert words in outcome.err
    assert outcome.out == ""


def test_the_verdict_says_up_to_where_drafts_can_pay() -> None:
    from localspec.cli.bench_saturation import verdict

    plan = Plan(EngineConfig("t"), (1, 2, 4), (3,))
    found = Saturation(None, [
        Pass(1, 0, 0, 10), Pass(1, 3, 0, 20), Pass(2, 0, 0, 10), Pass(2, 3, 0, 30), Pass(4, 0, 0, 10),
        Pass(4, 3, 0, 50),
    ])  # fmt: skip
    assert verdict(found, plan, 3) == "With 2 sequences drafts of 3 pay from 81% accepted on; with 4 they cannot pay."
    assert "cannot pay here" in verdict(Saturation(None, found.passes[-2:]), plan, 3)
    assert saturation.SEQUENCES == (1, 2, 4, 8, 16)


def test_the_page_has_a_picture_and_a_table_for_every_length(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    arguments = ("--target", str(model), "--sequences", "1,2", "--lengths", "1,3", "--html", str(file), "--json")
    outcome = cli.run(*ARGUMENTS, *arguments)
    assert outcome.err == f"localspec: the page is {file}\n"
    found, measured = Page(file.read_text(encoding="utf-8")), json.loads(outcome.out)
    assert found.count("svg") == found.count("table") == 3
    rate = measured["sequences"][1]["drafts"][1]["break_even"]
    assert f"{rate:.2f}" in found.words["td"]


def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(cli: CommandLine, model: Path) -> None:
    outcome = cli.run(*ARGUMENTS, "--target", str(model), "--html", "/no/such/folder/page.html")
    assert (outcome.code, outcome.out) == (1, "")
    assert "cannot be written" in outcome.err


def test_interrupted_it_prints_what_it_has(cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localspec.cli import interrupts

    handlers: list[interrupts.Interrupts] = []
    enter, run = interrupts.Interrupts.__enter__, Measurement.run

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        handlers.append(self)
        return enter(self)

    def interrupted(self: Measurement, found: Saturation) -> Any:
        for one in run(self, found):
            yield one
            if len(found.passes) == 2:
                handlers[-1]._handle(2, None)

    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    monkeypatch.setattr(Measurement, "run", interrupted)
    arguments = ("--target", str(model), "--sequences", "1,2", "--lengths", "3", "--repeats", "99", "--json")
    outcome = cli.run(*ARGUMENTS, *arguments)
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    first, _ = json.loads(outcome.out)["sequences"]
    assert first["plain_ms"] > 0
    assert first["drafts"][0]["break_even"] > 0
