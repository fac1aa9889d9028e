"""How the threads of a pass wait for each other: asleep, or awake for a moment first.

A pass of a small model has about a thousand places where its threads meet. Waking a sleeping thread takes some 15
microseconds, a third of a plain pass of a 1.5B model on two cores; a thread that stays awake (spins) is there at once,
but where another program wants the core, it spins away the time of the thread that is waited for. libgomp, which GCC's
builds of llama.cpp use, takes the number of turns before sleep from GOMP_SPINCOUNT, once, when it loads.

Measured on two cores, milliseconds for a plain pass of a 1.5B model:

| turns | alone | one other busy program | two |
|------:|------:|------:|------:|
| 0 (OMP_WAIT_POLICY=passive) | 42 | 43 | 49 |
| 300 | 32 | 50 | 53 |
| 1,000 | 28 | 61 | 104 |
| 3,000 | 27 | 99 | 99 |
| 300,000 (the library's default) | 27 | 48 | 64, in one run 3,068 |

The default is mostly good beside others and now and then a hundred times slower, which is why it is not taken.
"""

import time
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from statistics import median

from localspec.engine import machine

ALONE = 3000
"""Turns on a machine with cores to spare: what two threads of a pass wait for each other, with some room."""

SHARED = 300
"""Turns where others run too: most of the gain, and little of the loss."""

LOOKS = 5
LOOK_S = 0.004
"""The system is looked at this often, and this far apart: shorter than anybody notices at a start."""

WAIT_POLICY, SPIN_COUNT = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"


def choose(environment: MutableMapping[str, str]) -> None:
    """Set how threads wait in `environment`, that of a process still to be started. A person's own choice stands."""
    if WAIT_POLICY in environment or SPIN_COUNT in environment:
        return
    # For libraries that know no count of turns: asleep is never far wrong.
    environment[WAIT_POLICY] = "passive"
    environment[SPIN_COUNT] = str(SHARED if crowded() else ALONE)


def crowded() -> bool:
    """Whether the threads of a pass would have to share cores with other programs now."""
    return others_running() + machine.default_threads() > machine.usable_cores()


def others_running() -> int:
    """Threads on this machine that run or wait for a core at the moment, this one aside; 0 where nobody tells."""
    seen = []
    for _ in range(LOOKS):
        with suppress(OSError, ValueError, IndexError):
            seen.append(int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].split("/")[0]))
        time.sleep(LOOK_S)
    return max(0, round(median(seen)) - 1) if seen else 0
