"""What this machine has to hold a model: main memory, the GPUs llama.cpp found, the processor's kernels.

Nothing here loads llama.cpp. Its devices are read from a record that the engine's process leaves, `devices.json` in the
cache directory: a list of objects with `name`, `description`, `free` and `total` (bytes) and `kind`: "gpu" for memory
of its own, "igpu" for a share of main memory. No record means that no GPU is known.
"""

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from localspec.models.errors import plain

RECORD = "devices.json"

Kernels = Literal["amx", "avx512", "avx2", "neon", "none"]
"""The processor features that decide which weights llama.cpp copies into another order."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device as llama.cpp reports it; bytes. `shared`: its memory is main memory."""

    name: str
    description: str
    free: int
    total: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """Main memory in bytes, within the limit of a container where there is one, and the known GPUs."""

    ram_total: int
    ram_free: int
    gpus: tuple[Gpu, ...] = ()
    kernels: Kernels = "none"


def read_machine(cache_dir: Path | None = None) -> Machine:
    """This machine, now. `cache_dir` is where the engine's record of devices lies."""
    import psutil

    memory = psutil.virtual_memory()
    total, free = int(memory.total), int(memory.available)
    limit = container_memory() if sys.platform == "linux" else None
    if limit is not None:
        total, free = min(total, limit[0]), min(free, limit[1])
    return Machine(total, free, read_gpus(cache_dir) if cache_dir else (), read_kernels())


def read_gpus(cache_dir: Path) -> tuple[Gpu, ...]:
    """The GPUs in the engine's record; entries that cannot be understood are left out."""
    try:
        entries = json.loads((cache_dir / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return ()
    return tuple(gpu for entry in entries if (gpu := _gpu(entry))) if isinstance(entries, list) else ()


def _gpu(entry: Any) -> Gpu | None:
    if not isinstance(entry, dict) or entry.get("kind") not in ("gpu", "igpu"):
        return None
    free, total = entry.get("free"), entry.get("total")
    if not isinstance(free, int) or not isinstance(total, int) or not 0 <= free <= total:
        return None
    name = plain(str(entry.get("name", "")))
    # Apple's GPUs call themselves gpu and share main memory.
    shared = entry["kind"] == "igpu" or name.startswith(("Metal", "MTL"))
    return Gpu(name, plain(str(entry.get("description", ""))), free, total, shared)


def container_memory(
    root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc/self/cgroup")
) -> tuple[int, int] | None:
    """The tightest memory limit of this process's control groups and what is left of it, bytes; None: no limit.

    File pages count against the limit but are given back under pressure, so inactive ones count as free.
    """
    try:
        lines = proc.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return None
    found: list[tuple[int, int]] = []
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, group = parts
        if not controllers:
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inner = base / group.strip("/")
        # Inside a container the group's path is often not visible; the root then is the container's own group.
        levels = [inner, *(p for p in inner.parents if p == base or base in p.parents)] if group.strip("/") else [base]
        found += [limit for level in levels if (limit := _limit(level, *names)) is not None]
    return min(found) if found else None


def _limit(group: Path, maximum: str, current: str, reclaimable: str) -> tuple[int, int] | None:
    try:
        limit = int((group / maximum).read_text("ascii"))
        used = int((group / current).read_text("ascii"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
        used -= int(stat.get(reclaimable, 0))
    except (OSError, ValueError):  # "max" is not a number either
        return None
    # Version 1 says "no limit" with a number of that size.
    return None if limit >= 1 << 60 else (limit, max(0, limit - max(0, used)))


def read_kernels(cpuinfo: Path = Path("/proc/cpuinfo")) -> Kernels:
    """This processor's kernels; a build for another machine may use fewer."""
    machine = platform.machine().lower()
    if machine in ("arm64", "aarch64"):
        return "neon"
    if machine not in ("x86_64", "amd64"):
        return "none"
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as file:
            flags = next((set(line.split(":", 1)[1].split()) for line in file if line.startswith("flags")), set())
    except OSError:
        # Every x86 processor a model is pleasant on has it.
        return "avx2"
    if {"amx_int8", "avx512_vnni"} <= flags:
        return "amx"
    if "avx512f" in flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "none"
