"""A conversation's caches on disk, so that taking it up again does not mean reading it all again.

Beside the native files lies a note of what they belong to (model file, context settings, library) and of their
content. A cache that does not fit, or whose bytes are not those that were written, is not loaded: a wrong cache would
change what the model says, and a damaged file can end the process inside the native library.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localspec.engine.context import Context
from localspec.engine.errors import EngineError
from localspec.engine.llama import start_library

FORM = 1
NOTE = ".json"
"""What the note adds to the name of the target's file."""

PART = ".part"
"""Ends the names of files that are still being written."""

_CHUNK = 1 << 22


def files_of(path: Path) -> list[Path]:
    """Every file that `save(..., path)` may leave."""
    return [path, path.with_name(path.name + ".draft"), path.with_name(path.name + NOTE)]


def save(target: Context, draft: Context | None, path: Path) -> int:
    """Writes what the contexts hold to `path` and files beside it; returns bytes, 0 when they hold nothing to keep.

    What was there before is replaced, the note last. Raises `EngineError` and leaves no half-written file.
    """
    target_file, draft_file, note = files_of(path)
    caches: dict[str, Any] = {}
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        note.unlink(missing_ok=True)
        for name, context, file in (("target", target, target_file), ("draft", draft, draft_file)):
            file.unlink(missing_ok=True)
            # An encoder's output is no part of what the library saves; the text is read again in one pass.
            if context is None or not context.tokens or context.encodes:
                continue
            part = file.with_name(f"{file.name}.{os.getpid()}{PART}")
            try:
                context.save(str(part))
                size = part.stat().st_size
                caches[name] = {
                    "fingerprint": fingerprint(context),
                    "tokens": len(context.tokens),
                    "size": size,
                    "digest": _digest(part),
                }
                part.replace(file)
            finally:
                part.unlink(missing_ok=True)
            written += size
        if "target" in caches:
            part = note.with_name(f"{note.name}.{os.getpid()}{PART}")
            part.write_text(json.dumps({"form": FORM, "caches": caches}), encoding="utf-8")
            part.replace(note)
    except OSError as error:
        raise EngineError(f"cannot save the conversation's cache to {path}: {error.strerror or error}") from None
    return written


def restore(target: Context, draft: Context | None, path: Path) -> int:
    """Loads what `save` wrote, when it fits these contexts; returns the target's tokens, 0 when nothing was loaded.

    Never raises: a conversation can always be read again.
    """
    target_file, draft_file, note = files_of(path)
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        caches = found["caches"] if found["form"] == FORM else {}
        if not _fits(target, caches.get("target"), target_file):
            return 0
        target.load(str(target_file))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, EngineError):
        return 0
    with contextlib.suppress(OSError, EngineError):
        if draft is not None and _fits(draft, caches.get("draft"), draft_file):
            draft.load(str(draft_file))
    return len(target.tokens)


def fingerprint(context: Context) -> dict[str, Any]:
    """What has to be the same for a cache to mean the same: the model's file, how the context keeps it, the library."""
    file, options = Path(context.model.path), context.options
    facts = file.stat()
    return {
        "library": start_library(),
        "file": [file.name, facts.st_size, facts.st_mtime_ns],
        "kv_type": options.kv_type,
        "flash_attn": options.flash_attn,
        "swa_full": options.swa_full,
        "kv_unified": options.kv_unified,
        "rollback_slots": context.rollback_slots,
    }


def _fits(context: Context, entry: Mapping[str, Any] | None, file: Path) -> bool:
    return (
        entry is not None
        and entry["fingerprint"] == fingerprint(context)
        and entry["tokens"] <= context.size
        and entry["size"] == file.stat().st_size
        and entry["digest"] == _digest(file)
    )


def _digest(file: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
