"""Which machine, files and settings a measurement was made with: every report says so."""

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from localspec import __version__
from localspec.bench.results import Machine, ModelFile
from localspec.engine.machine import usable_cores
from localspec.engine.requests import EngineConfig, EngineInfo

BUSY = 0.75
"""Load a core above which a measurement is disturbed: it wants them all itself."""


def here(info: EngineInfo, config: EngineConfig) -> Machine:
    """This machine, and what the engine loaded."""
    return Machine(
        processor=processor(),
        cores=usable_cores(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        localspec=__version__,
        target=_file(info.target, config.target),
        draft=_file(info.draft, config.draft) if info.draft and config.draft else None,
        threads=info.threads,
        context=info.context,
        gpu_layers=info.gpu_layers,
        kv_type=config.kv_type,
        flash_attn=info.flash_attn,
        library=info.library,
    )


def _file(name: str, path: str) -> ModelFile:
    try:
        return ModelFile(name, Path(path).stat().st_size)
    except OSError:
        return ModelFile(name, 0)


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name; its architecture where the system does not tell."""
    with suppress(OSError):
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def words(machine: Machine) -> Sequence[str]:
    """The machine in a few lines, for people."""
    draft = f"{machine.draft.name} ({machine.draft.bytes / 1e9:.2f} GB)" if machine.draft else "none"
    gpu = f", {machine.gpu_layers} layers on the GPU" if machine.gpu_layers else ""
    return (
        f"target {machine.target.name} ({machine.target.bytes / 1e9:.2f} GB), draft {draft}",
        f"{machine.threads} threads, context {machine.context}, KV cache {machine.kv_type}, flash attention "
        f"{machine.flash_attn}{gpu}",
        f"{machine.processor}, {machine.cores} cores, {machine.system}, Python {machine.python}, "
        f"localspec {machine.localspec}",
        machine.library,
    )


def load() -> float | None:
    """Programs that wanted a core, on average of the last minute; None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def busy(load: float | None, cores: int) -> str:
    """A warning when other programs compete for the cores; "" when not."""
    if load is None or load < BUSY * cores:
        return ""
    return f"the machine is busy (load {load:.1f} on {cores} cores): the wall clock will scatter, virtual time will not"
