"""`localspec verify`: what its engine found, told so that a person understands it and a script can rely on it."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from localspec.cli.verify import SECONDS
from localspec.engine.errors import EngineError
from localspec.engine.proof.report import Finding, Proof
from tests.cli.processes import DEADLINE_S, POSIX_SIGNALS, Start, until
from tests.cli.streams import CommandLine, failed

FIGURE = "200 rows: total variation at most 3e-16"
HOLDS = Finding("law", "block", "ok", FIGURE, "exactly the target's law", {"rows": 200})
SILENT = Finding("seed", "auto", "note", "12 tokens", "nothing was drafted, so this shows nothing", {"judged": 0})
WRONG = Finding("cuts", "target", "wrong", "unlimited", "what was cut away is still\x1b[2J there", {"apart": 0.3})
PROOF = Proof((HOLDS, SILENT), 97.4, True, "tiny.gguf", None)


def test_each_verdict_has_its_figure_and_what_it_means(cli: CommandLine, model: Path) -> None:
    cli.use(proof=lambda: PROOF)
    outcome = cli.run("verify", "--target", str(model))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("tiny.gguf, 2 threads")
    assert lines[2] == "ok     law   block  200 rows: total variation at most 3e-16"
    assert lines[3] == "                    exactly the target's law"
    assert lines[4].startswith("note   seed  auto ")
    assert lines[-1] == (
        "1 checks hold, 0 are wrong, 1 could say nothing; 97 s. "
        "What localspec says here is what the target alone would say."
    )
    assert cli.engines[0].proofs[0].seconds == SECONDS
    assert cli.engines[0].closed


def test_a_wrong_one_ends_with_code_1(cli: CommandLine, model: Path) -> None:
    cli.use(proof=lambda: replace(PROOF, findings=(HOLDS, WRONG)))
    outcome = cli.run("verify", "--target", str(model), "--seconds", "30")
    assert outcome.code == 1
    assert "WRONG  cuts  target  unlimited" in outcome.out
    assert "\x1b" not in outcome.out
    assert "what the target alone would say" not in outcome.out
    assert outcome.err.startswith("localspec: 1 of 2 checks are wrong")
    assert cli.engines[0].proofs[0].seconds == 30


def test_json_is_one_value(cli: CommandLine, model: Path) -> None:
    cli.use(proof=lambda: PROOF)
    outcome = cli.run("verify", "--target", str(model), "--json")
    value = json.loads(outcome.out)
    assert (outcome.code, value["type"], value["verdict"], value["wrong"]) == (0, "proof", "holds", 0)
    assert value["findings"][0] == {
        "check": "law",
        "subject": "block",
        "state": "ok",
        "figure": FIGURE,
        "meaning": HOLDS.meaning,
        "numbers": {"rows": 200},
    }
    assert (value["target"], value["complete"], value["threads"]) == ("tiny.gguf", True, 2)
    cli.use(proof=lambda: replace(PROOF, findings=(WRONG,)))
    outcome = cli.run("verify", "--target", str(model), "--json")
    value = json.loads(outcome.out)
    assert (outcome.code, value["verdict"], value["wrong"]) == (1, "wrong", 1)


def test_ctrl_c_shows_what_there_is(cli: CommandLine, model: Path) -> None:
    def interrupted() -> Proof:
        signal.raise_signal(signal.SIGINT)
        return replace(PROOF, complete=False)

    cli.use(proof=interrupted)
    outcome = cli.run("verify", "--target", str(model))
    assert outcome.code == 130
    assert "total variation" in outcome.out
    assert "what the target alone would say" not in outcome.out
    assert "interrupted" in outcome.err
    assert cli.engines[0]._cancelled.is_set()
    outcome = cli.run("verify", "--target", str(model), "--json")
    assert (outcome.code, json.loads(outcome.out)["verdict"]) == (130, "incomplete")


def test_a_failure_is_one_line(cli: CommandLine, model: Path) -> None:
    def fails() -> Proof:
        raise EngineError("the context is too short")

    cli.use(proof=fails)
    failed(cli.run("verify", "--target", str(model)), "the context is too short")
    outcome = cli.run("verify", "--target", str(model), "--json")
    assert (outcome.code, json.loads(outcome.out)["type"]) == (1, "error")
    failed(cli.run("verify", "--target", str(model), "--draft-length", "3"), "--draft-length", code=2)
    failed(cli.run("verify", "--target", str(model), "--seconds", "5"), "--seconds")


def test_the_real_engine_on_a_tiny_model(start: Start, long_model: Path) -> None:
    """From the command through the engine's process and back."""
    process = start(
        "localspec",
        "verify",
        "--json",
        "--seconds",
        "10",
        "--target",
        str(long_model),
        "--ctx",
        "512",
        "--threads",
        "1",
    )
    out, err = process.communicate(timeout=2 * DEADLINE_S)
    value = json.loads(out)
    assert (process.returncode, value["verdict"]) == (0, "holds"), (value["findings"], err)
    assert {(each["check"], each["subject"]) for each in value["findings"] if each["state"] == "ok"} >= {
        ("cuts", "target"), ("law", "block"), ("law", "coupled"), ("greedy", "lookup"), ("penalties", "history"),
    }  # fmt: skip


@POSIX_SIGNALS
def test_an_interrupt_leaves_no_engine(start: Start, long_model: Path) -> None:
    process = start("localspec", "verify", "--seconds", "600", "--target", str(long_model), "--threads", "1")
    children: list[psutil.Process] = until(lambda: psutil.Process(process.pid).children(), "the engine's process")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    gone, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert (len(gone), alive) == (len(children), [])


def test_it_is_in_the_list_of_commands(cli: CommandLine) -> None:
    assert "verify" in cli.run("--help").out
    told = cli.run("verify", "--help").out
    for check in ("cuts", "law", "greedy, seed", "draft in step", "draws kept", "penalties", "chi-square"):
        assert f"  {check}  " in told


@pytest.mark.parametrize("checks", [(HOLDS,) * 3, ()])
def test_no_verdict_is_no_promise(cli: CommandLine, model: Path, checks: tuple[Finding, ...]) -> None:
    cli.use(proof=lambda: replace(PROOF, findings=checks, complete=bool(checks)))
    out = cli.run("verify", "--target", str(model)).out
    assert ("what the target alone would say" in out) == bool(checks)
