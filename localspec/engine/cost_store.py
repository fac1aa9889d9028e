"""Cost curves on disk: one small file for each model file, settings, machine and build of the library.

Losing one costs a measurement. A file that is damaged, or holds numbers that cannot be, is no file.
"""

import contextlib
import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from localspec.engine import quirks
from localspec.engine.cost import BANDS
from localspec.engine.costs import Rows
from localspec.engine.llama import gpus
from localspec.engine.memo import Memo
from localspec.engine.requests import EngineConfig, FlashAttention
from localspec.engine.waiting import SPIN_COUNT, WAIT_POLICY

FOLDER = "costs"
FLASH_FILE = "flash.json"

MOST = 32
"""Files kept; the ones not written for longest go first."""

_WIDEST = 4096
_CHEAPEST, _DEAREST = 1e-6, 1e7
"""Milliseconds of a pass, or plain passes: nothing that was measured comes near."""


def fingerprint(config: EngineConfig, file: str, threads: int, layers: int, flash: str) -> str:
    """Names what a curve holds for: the file, the settings that a pass's time depends on, machine and library, and how
    its threads wait: waking them is a large part of a plain pass, and none of what a wide one costs more."""
    waits = os.environ.get(SPIN_COUNT) or os.environ.get(WAIT_POLICY) or ""
    return _digest(
        *_file(file), threads, layers, config.kv_type, flash, config.extra_bufts, config.swa_full,
        *_machine(on_gpu=layers != 0), waits,
    )  # fmt: skip


def flash_key(config: EngineConfig, threads: int, layers: int) -> str:
    """Names what a verdict on flash attention holds for."""
    return fingerprint(config, config.target, threads, layers, "either")


def copy_key(file: str, threads: int) -> str:
    """Names a copy of `file` made for this processor, and the verdict on it."""
    return _digest(*_file(file), threads, *_machine(on_gpu=False))


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _file(file: str) -> tuple[str, int, int]:
    path = Path(file)
    stat = path.stat()
    return path.name, stat.st_size, stat.st_mtime_ns


@cache
def _machine(*, on_gpu: bool) -> tuple[str, ...]:
    """Processor, the number of its cores, graphics processors when they compute, and the build of the library."""
    devices = [device.description for device in gpus()] if on_gpu else []
    return quirks.cpu_key(), str(psutil.cpu_count()), *devices, quirks.library_key()


class CostStore:
    """Curves by fingerprint, in files below `cache_dir` (None: nothing is kept)."""

    def __init__(self, cache_dir: str | None) -> None:
        self._root = Path(cache_dir) if cache_dir else None

    def read(self, key: str) -> dict[str, Rows]:
        """What was kept, rows that make no sense left out; empty when there is nothing."""
        if self._root is None:
            return {}
        found = Memo(self._file(key)).get("curves")
        if not isinstance(found, dict):
            return {}
        return {
            name: [row for row in rows if _sane(row)]
            for name, rows in found.items()
            if isinstance(name, str) and isinstance(rows, list)
        }

    def write(self, key: str, curves: dict[str, Rows]) -> None:
        """Keep the curves: the last writer wins, and a file is whole or absent."""
        if self._root is None:
            return
        file = self._file(key)
        Memo(file).put("curves", curves)
        with contextlib.suppress(OSError):
            files = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for old in files[:-MOST]:
                old.unlink(missing_ok=True)

    def faster_flash(self, key: str) -> FlashAttention | None:
        """The kind of flash attention that was measured to be faster; None when nobody compared."""
        found = self._flash().get(key)
        return found if found in ("on", "off") else None

    def keep_faster_flash(self, key: str, faster: FlashAttention) -> None:
        self._flash().put(key, faster)

    def _file(self, key: str) -> Path:
        assert self._root is not None
        return self._root / FOLDER / f"{key}.json"

    def _flash(self) -> Memo:
        return Memo(self._root / FLASH_FILE if self._root else None)


def _sane(row: Any) -> bool:
    """Width, context, cost, samples: numbers that a measurement can give."""
    if (
        not isinstance(row, list)
        or len(row) != 4
        or any(isinstance(x, bool) or not isinstance(x, int | float) for x in row)
    ):
        return False
    width, context, cost, samples = row
    # Comparing comes first: it knows whole numbers of any length, and no number that is none lies within bounds.
    return (
        1 <= width <= _WIDEST
        and 0 <= context <= 64 * BANDS[-1]
        and _CHEAPEST < cost < _DEAREST
        and 1 <= samples <= _DEAREST
        and all(float(x).is_integer() for x in (width, context, samples))
    )
