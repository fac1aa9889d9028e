"""Clients of scripted engine processes, and waiting on facts."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from localspec.engine.client import EngineClient
from localspec.engine.events import Event, Finished, Token
from localspec.engine.requests import EngineConfig, Request, Segment

HOSTS = Path(__file__).parent / "hosts"

DEADLINE_S = 30.0
"""For facts that a healthy run reaches at once: only a broken one waits this long, also on a busy machine."""


def fake_command(mode: str) -> list[str]:
    return [sys.executable, "-u", "-P", str(HOSTS / "fake.py"), mode]


def fake_client(mode: str = "plain", *, extra_bufts: bool = True, log_file: Path | None = None) -> EngineClient:
    config = EngineConfig("folder/target.gguf", extra_bufts=extra_bufts)
    return EngineClient(config, host_command=fake_command(mode), log_file=log_file)


def ask(text: str, seed: int | None = None) -> Request:
    return Request((Segment(text),), seed=seed)


def wait_until(fact: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(0.005)


def is_gone(pid: int) -> bool:
    """Ended; a dead process that nobody has fetched yet holds no memory."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until_token(answer: Iterator[Event]) -> list[Event]:
    """The answer's events up to its first token."""
    seen: list[Event] = []
    for event in answer:
        seen.append(event)
        if isinstance(event, Token):
            return seen
    raise AssertionError("no token came")


def text_of(events: list[Event]) -> str:
    """The answer's text, checked against its tokens'."""
    last = events[-1]
    assert isinstance(last, Finished)
    assert "".join(event.text for event in events if isinstance(event, Token)) == last.text
    return last.text
