"""Waiting for other machines: never in silence, never past a cancel, whatever the system call does below."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from localspec.models.progress import Job

POLL_S = 0.1
SAY_AFTER_S = 5.0
"""How long a wait may be silent; half of what a person should ever have to wonder."""

Result = TypeVar("Result")


class NoAnswer(Exception):
    """Nothing came within the limit."""


def patiently(call: Callable[[], Result], what: str, limit_s: float, job: Job, say: Callable[[str], None]) -> Result:
    """`call()` in a thread of its own, waited for at most `limit_s` seconds.

    A name look-up that hangs can be neither interrupted nor given a limit from inside; the thread is left behind.
    Raises what `call` raises, `NoAnswer`, or `Cancelled`.
    """
    box: queue.SimpleQueue[tuple[bool, Result | BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((True, call()))
        except BaseException as error:
            box.put((False, error))

    threading.Thread(target=run, daemon=True, name=f"localspec waits for {what}").start()
    good, value = take(box, what, limit_s, job, say)
    if not good:
        raise value  # type: ignore[misc]
    return value  # type: ignore[return-value]


def take(
    box: "queue.SimpleQueue[Result] | queue.Queue[Result]", what: str, limit_s: float, job: Job,
    say: Callable[[str], None], idle: Callable[[], None] = lambda: None,
) -> Result:  # fmt: skip
    """The next thing out of `box`; says what is waited for, and raises `NoAnswer` after `limit_s` seconds. `idle` is
    called while nothing comes."""
    waited, said = 0.0, 0.0
    while True:
        job.check()
        try:
            return box.get(timeout=POLL_S)
        except queue.Empty:
            waited += POLL_S
            idle()
        if waited >= limit_s:
            raise NoAnswer(f"no answer within {limit_s:.0f} s")
        if waited - said >= SAY_AFTER_S:
            said = waited
            say(f"waiting for {what}")
