"""Commands as processes: started, waited for, interrupted, and none left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
POSIX_SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a single process there")

Start = Callable[..., "subprocess.Popen[Any]"]
"""Starts `python -m MODULE arguments...`. `environment` is added to the test's own; the rest is what Popen takes."""


def until(fact: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := fact()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def starting(ready: Path) -> Iterator[Start]:
    """What is started inside is ended behind, children and all. A scripted engine touches `ready`."""
    started: list[subprocess.Popen[Any]] = []

    def start(*command: str, environment: dict[str, str] | None = None, **more: Any) -> "subprocess.Popen[Any]":
        own = {"READY": str(ready), "OMP_WAIT_POLICY": "passive"}
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **own, **(environment or {})}, **{"stdin": subprocess.DEVNULL, **more},
        )  # fmt: skip
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
            process.wait()


def interrupted(process: "subprocess.Popen[Any]", ready: Path) -> tuple[Any, Any]:
    """What it says on stdout and stderr when it is interrupted where the scripted engine is `ready`."""

    def there() -> bool:
        assert process.poll() is None, "the process ended before the scripted engine got there"
        return ready.exists()

    until(there, "the scripted engine got there")
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=DEADLINE_S)
