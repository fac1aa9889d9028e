"""A copy of the draft model in the number format that this processor computes fastest.

What a draft says need not be right: the target checks it all. So its weights may be stored in whatever form makes it
quick, which a target's may not. Many small models cannot be stored in the usual four-bit format, because their rows are
not a multiple of 256, and come in five and eight bits that llama.cpp has no fast kernels for on a CPU: a 0.5B draft
takes half of a 1.5B target's time where its copy in Q4_0 takes a third, and agrees with the target nearly as often.

Whether a copy pays is tried once for a file, by the clock; a copy that does not is deleted and not made again.
"""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

from localspec.engine.context import Context, ContextOptions
from localspec.engine.cost_store import copy_key
from localspec.engine.encoder_context import open_context
from localspec.engine.errors import EngineError, LoadError
from localspec.engine.llama import AbortFlag, Model, requantize
from localspec.engine.memo import Memo
from localspec.engine.requests import EngineConfig

FOLDER = "drafts"
VERDICTS = "draft_copies.json"
"""For each file whether its copy pays; before that is known, how often somebody began to find out."""

LOCK = ".draft_copies.lock"
PART = ".part"

TRIES = 3
"""A copy that was begun so often and never came to a verdict is left alone: it may be what ends the process."""

SMALLEST, LARGEST = 48 << 20, 1 << 30
"""Bytes of a draft worth copying: below, its passes take no time; above, the copying takes long."""

ROOM = 2
"""The disk must have the file's size this many times."""

FASTER = 1.25
"""A copy must be this much faster, token by token: it loses a point or two of agreement."""

AGREES = 0.75
"""Share of the sample's places where copy and file must expect the same token: else something went wrong. Where both
are unsure they differ, so this is far from what a person would call the same model."""

TURNS = 9
"""Passes that each of the two makes, in turn."""

KEPT = 4
"""Copies kept on disk; those not used for longest go first."""

SAMPLE = """def read_lines(path: str, limit: int = 100) -> list[str]:
    # Return the first lines of a text file without their line ends.
    lines = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number == limit:
                break
            lines.append(line.rstrip("\\n"))
    return lines

The most common reason for a slow program is not a slow language, but work that does not have to be done at all.
"""
"""A text that any small model has a firm opinion of."""


def file_to_load(config: EngineConfig, threads: int, abort: AbortFlag, trial: "Trial | None" = None) -> str:
    """The draft's file or its copy, made and tried when that was never done; `config.draft` must be a file that exists.

    Takes a few seconds once for each file, threads, machine and build of the library. Raises nothing: whatever goes
    wrong, the file itself is there.
    """
    assert config.draft is not None
    source = Path(config.draft)
    if not (config.draft_copy and config.extra_bufts and config.cache_dir):
        return config.draft
    if not SMALLEST <= source.stat().st_size <= LARGEST:
        return config.draft
    memo = Memo(Path(config.cache_dir) / VERDICTS)
    key = copy_key(config.draft, threads)
    copy = Path(config.cache_dir) / FOLDER / f"{key}.gguf"
    if memo.get(key) is not False:
        with suppress(OSError, NotImplementedError):
            if copy.is_file() or _made(source, copy, memo, threads, abort, trial or by_the_clock):
                _mark_used(copy)
                return str(copy)
    return config.draft


def give_up(copy: str) -> None:
    """Delete a copy that cannot be loaded: something damaged it. The next load makes another."""
    with suppress(OSError):
        Path(copy).unlink(missing_ok=True)


def _mark_used(copy: Path) -> None:
    """In the time of the last access alone: that of the last change is part of what names costs and saved caches."""
    with suppress(OSError):
        os.utime(copy, ns=(time.time_ns(), copy.stat().st_mtime_ns))


Trial = Callable[[str, str, int, AbortFlag], bool]
"""Whether the second file is to be used instead of the first, with so many threads. Raises `EngineError`."""


def _made(source: Path, copy: Path, memo: Memo, threads: int, abort: AbortFlag, trial: Trial) -> bool:
    """Whether there is a copy now. Raises OSError, also where another process is making one."""
    from filelock import FileLock

    copy.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(copy.parent.parent / LOCK, timeout=0):
        for left in copy.parent.glob(f"*{PART}"):
            left.unlink(missing_ok=True)
        known = memo.get(copy.stem)
        # A verdict whose copy is gone is no try.
        begun = known if type(known) is int else 0
        if begun >= TRIES or shutil.disk_usage(copy.parent).free < ROOM * source.stat().st_size:
            return False
        memo.put(copy.stem, begun + 1)
        pays = _make(source, copy, threads, abort, trial)
        if pays is not None:
            memo.put(copy.stem, pays)
        _tidy(copy.parent)
    return copy.is_file()


def _make(source: Path, copy: Path, threads: int, abort: AbortFlag, trial: Trial) -> bool | None:
    """Whether a copy was made that pays; None when that is not known. It is in place whole or not at all."""
    part = copy.with_suffix(PART)
    try:
        requantize(str(source), str(part), threads)
        pays = trial(str(source), str(part), threads, abort)
        if pays:
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            part.replace(copy)
        return pays
    except LoadError:
        # The library cannot copy such a model, and will not learn to before its next version; or the disk filled up.
        return None if shutil.disk_usage(copy.parent).free < source.stat().st_size else False
    except EngineError:
        return None
    finally:
        part.unlink(missing_ok=True)


def by_the_clock(source: str, copy: str, threads: int, abort: AbortFlag) -> bool:
    """Both read a sample and then make single passes, turn about."""
    contexts: list[Context] = []
    took: list[list[float]] = [[], []]
    try:
        for file in (source, copy):
            model = Model(file)
            contexts.append(_context(model, threads, abort))
        encodes = contexts[0].encodes
        sample = contexts[0].model.tokenize(SAMPLE)[: contexts[0].size // (4 if encodes else 2)]
        for context in contexts if encodes else ():
            # The encoder reads it, and then the decoder writes it.
            context.decode(sample, 0)
        first, second = (context.decode(sample, len(sample)).argmax(axis=1) for context in contexts)
        for _ in range(TURNS):
            for context, times in zip(contexts, took, strict=True):
                begun = time.perf_counter()
                context.decode(sample[-1:], 1)
                times.append(time.perf_counter() - begun)
    finally:
        for context in contexts:
            context.close()
            context.model.close()
    agrees = float((first == second).mean())
    return agrees >= AGREES and median(took[0]) >= FASTER * median(took[1])


def _context(model: Model, threads: int, abort: AbortFlag) -> Context:
    options = ContextOptions(context=512, batch=512, outputs=512, threads=threads, flash_attn="off")
    try:
        return open_context(model, options, abort)
    except BaseException:
        model.close()
        raise


def _tidy(folder: Path) -> None:
    copies = sorted(folder.glob("*.gguf"), key=lambda file: file.stat().st_atime_ns)
    for old in copies[:-KEPT]:
        old.unlink(missing_ok=True)
