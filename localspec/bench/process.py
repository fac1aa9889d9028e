"""The program's processes as the system sees them: memory of the engine's, start-up of a fresh one."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.engine.requests import KvType

SPARE_BYTES = 400_000_000
"""Anonymous memory an engine may take beyond model files and KV caches."""

HELP_CALLS = 7
HEAVY = ("llama_cpp", "textual")
"""Modules that a start without a model has no use for."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes: the most anonymous memory seen of the engine's process, size of the model files, of the KV caches."""

    anonymous: int
    files: int
    caches: int

    @property
    def bound(self) -> int:
        return self.files + self.caches + SPARE_BYTES


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds of every `localspec --help`, ascending; modules of `HEAVY` that `import localspec` loads."""

    help_s: tuple[float, ...]
    loaded: tuple[str, ...]


def start_up() -> StartUp:
    """Starts Python a few times, as a person does."""
    times = []
    for _ in range(HELP_CALLS):
        begun = time.perf_counter()
        _python("-m", "localspec", "--help")
        times.append(time.perf_counter() - begun)
    code = f"import json, sys, localspec; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    return StartUp(tuple(sorted(times)), tuple(json.loads(_python("-c", code))))


def _python(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


def cache_bytes(files: Sequence[Path], context: int, kv_type: KvType) -> int:
    """KV caches of the models in `files`, each with room for `context` tokens. Raises `ModelError`."""
    from localspec.models.gguf_split import read_model
    from localspec.models.memory import kv_bytes, shape_of

    return sum(kv_bytes(shape_of(read_model(file)), context, kv_type) for file in files)


def anonymous_bytes(pid: int) -> int | None:
    """Memory of a process that no file stands behind (RssAnon); None where the system does not tell (Linux does)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "RssAnon":
            return int(value.split()[0]) * 1024
    return None
