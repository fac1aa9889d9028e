"""Waits until the engine's process computes nothing, so that what is measured beside it has the machine to itself."""

import time
from collections.abc import Callable

import psutil

LOOK_S = 0.2
"""Far longer than the tick that processor time is counted in."""

AWAKE = 0.1
"""Share of one core that a process may take and count as resting."""

AT_MOST_S = 60.0
"""Reading a long conversation with a slow draft model takes that; longer than that it is something else."""


def rest(pid: int | None, stopped: Callable[[], bool], at_most_s: float = AT_MOST_S) -> None:
    """Return when the process rests, has ended (or is None), after `at_most_s`, or once `stopped`."""
    if pid is None:
        return
    ends = time.monotonic() + at_most_s
    try:
        process = psutil.Process(pid)
        spent = _spent(process)
        while not stopped() and time.monotonic() < ends:
            begun = time.monotonic()
            time.sleep(LOOK_S)
            before, spent = spent, _spent(process)
            if spent - before < AWAKE * (time.monotonic() - begun):
                return
    except psutil.Error:
        return


def _spent(process: psutil.Process) -> float:
    """Processor time of all its threads, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)
