"""The command line as a process: interrupts, broken pipes, start-up, the real engine on a tiny model. S4."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.processes import DEADLINE_S, POSIX_SIGNALS, ROOT, Start, interrupted, until


@POSIX_SIGNALS
@pytest.mark.parametrize(
    ("scenario", "out", "err"),
    [
        ("load", "", "localspec: interrupted\n"),
        ("prefill", "", "interrupted: the answer is not complete\n"),
        ("decode", "half an answer", "interrupted: the answer is not complete\n"),
    ],
)
def test_one_interrupt_keeps_the_partial_text(
    start: Start, long_model: Path, tmp_path: Path, scenario: str, out: str, err: str
) -> None:
    """S4."""
    process = start("tests.cli.scripted", scenario, "run", "--target", str(long_model), "hi")
    got_out, got_err = interrupted(process, tmp_path / "ready")
    assert process.returncode == 130
    assert got_out.decode() == out
    assert got_err.decode().endswith(err)
    assert b"Traceback" not in got_err


@POSIX_SIGNALS
def test_an_interrupt_in_json_ends_with_a_valid_end_line(start: Start, long_model: Path, tmp_path: Path) -> None:
    """S4."""
    process = start("tests.cli.scripted", "decode", "run", "--json", "--target", str(long_model), "hi")
    out, _ = interrupted(process, tmp_path / "ready")
    end = json.loads(out.splitlines()[-1])
    assert (end["type"], end["reason"], end["text"]) == ("end", "cancelled", "half an answer")


@POSIX_SIGNALS
def test_a_second_interrupt_ends_at_once(start: Start, long_model: Path) -> None:
    """S4: on the real engine, with its real child."""
    process = start("localspec", "run", "--target", str(long_model), "--ctx", "30000", "--threads", "1", "ab")
    assert process.stdout is not None
    assert process.stdout.read(1)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert b"Traceback" not in err
    gone, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert (len(gone), alive) == (len(children), [])


def test_a_reader_that_leaves_ends_it_quietly_and_leaves_no_child(start: Start, long_model: Path) -> None:
    """As with `| head -c 1`."""
    process = start("localspec", "run", "--target", str(long_model), "--ctx", "30000", "--threads", "1", "ab")
    assert process.stdout is not None
    assert process.stdout.read(1)
    children = psutil.Process(process.pid).children(recursive=True)
    process.stdout.close()
    assert process.wait(timeout=DEADLINE_S) == 1
    assert process.stderr is not None
    err = process.stderr.read().decode()
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []


@pytest.mark.skipif(sys.platform == "win32", reason="written for a POSIX shell")
@pytest.mark.parametrize(
    ("closed", "answered"), [("2>&-", True), ("<&-", True), (">&-", False), ("<&- >&- 2>&-", False)]
)
def test_a_stream_that_was_closed_before_the_start_costs_no_answer(
    long_model: Path, tmp_path: Path, closed: str, answered: bool
) -> None:
    """Nor does a file that is opened then take its place: the history has its name and no words of the answer."""
    command = [sys.executable, "-m", "localspec", "run", "--target", str(long_model), "--max-tokens", "4",
               "--threads", "1", "abc"]  # fmt: skip
    home = tmp_path / "home"
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command], cwd=ROOT, capture_output=True, timeout=DEADLINE_S,
        env={**os.environ, "LOCALSPEC_HOME": str(home)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert bool(done.stdout) is answered
    assert (home / "data" / "history.db").read_bytes().startswith(b"SQLite format 3")
    assert not (home / "state" / "crash.log").exists()


@pytest.mark.parametrize("speculate", ["off", "lookup", "draft", "auto"])
def test_the_real_engine_prints_lines_that_add_up(long_model: Path, speculate: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "run", "--json", "--target", str(long_model), "--draft", str(long_model),
         "--speculate", speculate, "--temp", "0", "--ctx", "512", "--threads", "1", "--max-tokens", "60",
         *(["--draft-length", "4"] if speculate == "draft" else []), "abcabcabc"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=True,
    )  # fmt: skip
    start, *middle, end = map(json.loads, done.stdout.splitlines())
    tokens = [line for line in middle if line["type"] == "token"]
    cycles = [line for line in middle if line["type"] == "cycle"]
    assert start["speculate"] == speculate
    assert "".join(token["text"] for token in tokens) == end["text"]
    assert end["stats"]["tokens"] == len(tokens) == 1 + sum(cycle["emitted"] for cycle in cycles)
    assert end["stats"]["cycles"] == len(cycles)
    for kind in ("accepted", "resampled", "bonus", "plain"):
        assert end["stats"][kind] == [token["kind"] for token in tokens].count(kind)
    if speculate == "off":
        assert {token["kind"] for token in tokens} == {"plain"}
    if speculate == "draft":
        assert end["stats"]["acceptance_rate"] > 0.9


def test_help_and_import_load_nothing_heavy() -> None:
    code = (
        "import sys; from localspec.cli.main import main\n"
        "import localspec.cli.run, localspec.cli.demo, localspec.cli.config, localspec.cli.doctor\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'llama_cpp', 'textual', 'huggingface_hub', 'numpy', 'jinja2', 'rich'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")
    assert "localspec" in done.stdout


def test_a_console_that_cannot_show_a_character_is_no_error(long_model: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "READY": str(tmp_path / "ready"), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    code = (
        "from localspec.cli import session; from localspec.cli.main import main\n"
        "from tests.fake_engine import FakeEngine, Script, plain\n"
        "session.EngineClient = lambda config: FakeEngine(config, scripts=[Script(plain('\\u6f22', 'x'))])\n"
        f"main(['run', '--target', {str(long_model)!r}, 'hi'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"?x")


def test_a_pipe_that_nobody_closes_is_named(start: Start, long_model: Path, tmp_path: Path) -> None:
    process = start("tests.cli.scripted", "prefill", "run", "--target", str(long_model), "hi", stdin=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stdin is not None
    assert b"waiting for standard input" in process.stderr.readline()
    assert not (tmp_path / "ready").exists()
    process.stdin.close()
    until((tmp_path / "ready").exists, "the answer begins once the pipe is closed")


def test_version_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "localspec", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert re.fullmatch(r"localspec \d+\.\d+\.\d+\n", done.stdout)
