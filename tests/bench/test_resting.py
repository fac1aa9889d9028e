"""Waiting for a process to rest: real processes that compute, sleep, and end."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from localspec.bench.resting import rest


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


BUSY = "import sys; print('on', flush=True)\nwhile True: pass"
WORKS_FIRST = """
import time
print("on", flush=True)
ends = time.process_time() + 0.7
while time.process_time() < ends: pass
print("done", flush=True)
input()
"""


def test_it_waits_until_the_work_is_done() -> None:
    with program(WORKS_FIRST) as process:
        rest(process.pid, lambda: False)
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        assert process.poll() is None


def test_one_that_never_rests_is_waited_for_so_long_and_no_longer() -> None:
    with program(BUSY) as process:
        begun = time.monotonic()
        rest(process.pid, lambda: False, at_most_s=0.5)
        assert time.monotonic() - begun >= 0.5
        assert process.poll() is None


def test_who_stops_does_not_wait() -> None:
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(len(asked) >= 2)
        return asked[-1]

    with program(BUSY) as process:
        rest(process.pid, stopped)
    assert asked == [False, False, True]


def test_a_process_that_is_gone_rests() -> None:
    with program("print('on', flush=True)") as process:
        pass
    rest(process.pid, lambda: False)
    rest(None, lambda: False)
