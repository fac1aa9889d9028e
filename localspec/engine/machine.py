"""What `auto` means on this machine: threads, context, GPU layers."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

DEFAULT_CONTEXT = 8192
"""Enough for a long chat or a source file; more costs memory that a laptop would rather keep."""

MEMORY_SHARE = 0.5
"""Of the memory still free after the weights, what the KV caches may take."""

GPU_RESERVE = 512 << 20
"""Bytes left free on a GPU for compute buffers and the screen."""


def usable_cores() -> int:
    """Cores, hyper-threads counted, that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """Performance cores this process may use: efficiency cores and hyper-threads slow a decode down."""
    usable = usable_cores()
    cores = _performance_cores() or psutil.cpu_count(logical=False) or usable
    return max(1, min(cores, usable, _quota() or usable))


def _performance_cores() -> int | None:
    """The fast cores of a processor that has two kinds, None when it has one."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            asked = subprocess.run(
                ["sysctl", "-n", "hw.perflevel0.physicalcpu"], capture_output=True, text=True, timeout=2, check=True
            )
            return int(asked.stdout)
        return None
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            listed = Path("/sys/devices/cpu_core/cpus").read_text()
            return len({_core_of(cpu) for cpu in parse_cpu_list(listed)})
    return None


def _core_of(cpu: int) -> str:
    return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()


def parse_cpu_list(text: str) -> list[int]:
    """The numbers of a kernel CPU list such as `0-3,8`. Raises ValueError."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _quota() -> int | None:
    """Whole cores a container's quota allows, None without one."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            return max(1, round(int(quota) / int(period)))
    return None


def choose_context(train_context: int, kv_bytes_per_token: int, free_bytes: int) -> int:
    """Tokens of context: what the model was trained for, `DEFAULT_CONTEXT`, or what memory holds, whichever is least.

    `kv_bytes_per_token` sums target and draft. Never below 512, so that a small machine can still try.
    """
    affordable = int(free_bytes * MEMORY_SHARE) // max(1, kv_bytes_per_token)
    chosen = min(train_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT, affordable)
    return max(min(512, train_context or 512), chosen // 256 * 256 if chosen >= 256 else chosen)


def free_memory() -> int:
    """Bytes that can be used without swapping."""
    return int(psutil.virtual_memory().available)


def share_gpu(free_bytes: int, files: Sequence[tuple[int, int]]) -> list[int]:
    """GPU layers for each of `files` (bytes, layers), in order of precedence: the draft goes first.

    -1 means all layers; a part is proportional to the bytes that fit. Without a GPU `free_bytes` is 0 and all get 0.
    """
    left = max(0, free_bytes - GPU_RESERVE)
    shares = []
    for size, layers in files:
        if size <= left:
            shares.append(-1)
            left -= size
        else:
            fitting = left * layers // max(1, size)
            shares.append(fitting)
            left -= fitting * size // max(1, layers)
    return shares
