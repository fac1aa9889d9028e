"""`localspec edit` as a process: interrupts write nothing, a filter gives its text back, a model without sense."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.tiny import vocabulary, write_llama

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
POSIX_SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a single process there")
SOURCE = "def f(x):\n    return x\n"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has bytes, so that any prompt can be read."""
    return write_llama(
        tmp_path_factory.mktemp("models") / "bytes.gguf", tokens=vocabulary(with_bytes=True), context=4096
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "READY": str(tmp_path / "ready"), "OMP_WAIT_POLICY": "passive"}
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.wait()


def interrupted_when_ready(process: "subprocess.Popen[bytes]", ready: Path) -> tuple[bytes, bytes]:
    deadline = time.monotonic() + DEADLINE_S
    while not ready.exists():
        assert time.monotonic() < deadline, "the scripted engine did not get there"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=DEADLINE_S)


@POSIX_SIGNALS
@pytest.mark.parametrize("scenario", ["load", "prefill", "decode"])
def test_an_interrupt_writes_nothing(scenario: str, start: Start, tiny: Path, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(SOURCE)
    process = start("tests.cli.scripted", scenario, "edit", "--target", str(tiny), str(file), "x", "--apply")
    out, err = interrupted_when_ready(process, tmp_path / "ready")
    assert (process.returncode, out) == (130, b"")
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert file.read_text() == SOURCE


@POSIX_SIGNALS
@pytest.mark.parametrize("scenario", ["load", "prefill", "decode"])
def test_an_interrupted_filter_gives_the_text_back(scenario: str, start: Start, tiny: Path, tmp_path: Path) -> None:
    process = start("tests.cli.scripted", scenario, "edit", "--target", str(tiny), "-", "x")
    assert process.stdin is not None
    process.stdin.write(SOURCE.encode())
    process.stdin.close()
    process.stdin = None
    out, err = interrupted_when_ready(process, tmp_path / "ready")
    assert (process.returncode, out.decode()) == (130, SOURCE)
    assert b"Traceback" not in err


def test_the_real_engine_with_a_model_that_knows_nothing(start: Start, tiny: Path, tmp_path: Path) -> None:
    """Random weights answer with no code block; that is a failure in one line, and no file is touched."""
    file = tmp_path / "code.py"
    file.write_text(SOURCE)
    process = start(
        "localspec", "edit", "--target", str(tiny), "--ctx", "2048", "--threads", "1", "--max-tokens", "40",
        str(file), "Rename f.", "--apply",
    )  # fmt: skip
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (1, b"")
    assert b"nothing was written" in err.splitlines()[-1]
    assert file.read_text() == SOURCE
