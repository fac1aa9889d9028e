"""Which engines run on this machine: one file each in the state folder, for the commands to find them by.

A file is readable by its owner alone, because whoever has the token in it may use the engine. It is written atomically
and removed at the end; one that was left behind by a crash is told by its process, and cleaned away.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from localspec import __version__, paths
from localspec.engine.requests import EngineConfig, Speculate
from localspec.server.codec import CodecError, from_json, to_json

Owner = Literal["serve", "app"]

STARTED_SLACK_S = 2.0
"""Clocks of process starts are coarse; a number given out again belongs to a process that began later."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that takes requests on `127.0.0.1:port` from whoever has the `token`.

    `started` is when the process began, in seconds since the epoch. `config` is what was loaded, `name` how its owner
    chose it, `speculate` how the pair drafts unless a request says otherwise.
    """

    pid: int
    started: float
    port: int
    token: str
    owner: Owner
    name: str
    speculate: Speculate
    context: int
    config: EngineConfig
    version: str = __version__


def folder() -> Path:
    return paths.state_dir() / "engines"


def new_token() -> str:
    """256 bits, for a URL or a header."""
    return secrets.token_urlsafe(32)


def this_process() -> tuple[int, float]:
    """Number and start of this process."""
    process = psutil.Process()
    return process.pid, process.create_time()


def publish(running: RunningEngine) -> Path:
    """Writes the engine's file and returns it. Raises OSError."""
    place = folder()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    # An app may load one model after another: the port keeps the names apart.
    file = place / f"{running.pid}-{running.port}.json"
    part = file.with_suffix(".part")
    with suppress(FileNotFoundError):
        part.unlink()
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(to_json(running), stream)
    part.replace(file)
    return file


def withdraw(file: Path) -> None:
    """Removes an engine's file. Never raises."""
    with suppress(OSError):
        file.unlink()


def running() -> Iterator[RunningEngine]:
    """The engines of this version whose process lives, the newest first. Files of the dead are removed."""
    try:
        files = sorted(folder().glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    except OSError:
        return
    for file in files:
        try:
            found = from_json(RunningEngine, json.loads(file.read_text("utf-8")))
        except (OSError, CodecError, ValueError):
            # Of another version, or half-removed: its owner takes it away.
            continue
        if not _lives(found):
            withdraw(file)
        elif found.version == __version__:
            yield found


def _lives(engine: RunningEngine) -> bool:
    try:
        process = psutil.Process(engine.pid)
        # One that was killed keeps its number until its parent takes note, which in a container may be never.
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return abs(process.create_time() - engine.started) < STARTED_SLACK_S
    except psutil.Error:
        return False
