"""A small menu on a machine of known size, and downloads whose every step a test decides."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from localspec import paths
from localspec.models import catalog, hardware
from localspec.models.errors import ModelError
from localspec.models.hardware import Machine
from localspec.models.progress import Cancelled, Moved, Said
from localspec.tui.app import LocalspecApp
from tests.tui.helpers import until

DEADLINE_S = 20.0
MACHINE = Machine(ram_total=16_000_000_000, ram_free=12_000_000_000)

MENU = """
[files.starter-target]
name = "starter-1.5b-q4_k_m.gguf"
size = 1117320768
licence = "Apache-2.0"
quantisation = "Q4_K_M"
architecture = "qwen2"
layers = 28
kv_heads = 2
head_size = 128
vocab_size = 151936
context_length = 32768
[files.small]
name = "small-0.5b-q4_k_m.gguf"
size = 491400064
licence = "Apache-2.0"
quantisation = "Q4_K_M"
architecture = "qwen2"
layers = 24
kv_heads = 2
head_size = 64
vocab_size = 151936
context_length = 32768
[files.huge]
name = "huge-70b-q4_k_m.gguf"
size = 42520393152
licence = "Llama 3.3"
licence_url = "https://llama.com/licence"
consent = true
layers = 80
kv_heads = 8
head_size = 128
vocab_size = 128256
context_length = 131072
[files.alone]
name = "alone.gguf"
size = 98000000
licence = "MIT"

[pairs.starter]
target = "starter-target"
draft = "small"
title = "Starter 1.5B"
purpose = "Code and edits on any laptop"
compatible = "checked"
starter = true
published = [ { result = "1.9x on a laptop", source = "someone" } ]
[pairs.huge]
target = "huge"
draft = "small"
title = "Huge 70B"
purpose = "For a larger machine than this"
compatible = "family"
notes = ["[@click=app.quit]not markup[/] a[i]"]
"""


def write_menu(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str = MENU) -> Path:
    """Make `text` the shipped menu, on the known machine."""
    file = folder / "models.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(catalog, "shipped_file", lambda: file)
    monkeypatch.setattr(hardware, "read_machine", lambda cache_dir=None: MACHINE)
    return file


def own_menu(text: str) -> Path:
    """Write the person's own models.toml."""
    file = paths.config_dir() / "models.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def nothing_here(spec: str | None, draft: str | None, settings: Any) -> Any:
    """A choice of files on a disk without any."""
    raise ModelError(f"{spec or 'starter'} is not on this disk: fetch it with `localspec models pull {spec}`")


@dataclass
class ScriptedPull:
    """Stands in for `models.pull.pull`: each step of `script` is done when the test calls `step()`."""

    script: Sequence[Callable[["ScriptedPull", dict[str, Any]], None]] = ()
    asked: list[tuple[str, ...]] = field(default_factory=list)
    cancelled: int = 0
    _steps: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __call__(self, names: Sequence[str], **given: Any) -> list[Any]:
        self.asked.append(tuple(names))
        for step in self.script:
            self._wait(given["cancel"])
            step(self, given)
        self._wait(given["cancel"])
        return []

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._steps.release()

    def _wait(self, cancel: threading.Event) -> None:
        for _ in range(int(DEADLINE_S / 0.01)):
            if cancel.is_set():
                self.cancelled += 1
                raise Cancelled("cancelled; what was fetched is kept, the same command continues")
            if self._steps.acquire(timeout=0.01):
                return
        raise AssertionError("the test never let the download go on")


def said(key: str, text: str) -> Callable[[ScriptedPull, dict[str, Any]], None]:
    return lambda _, given: given["report"](Said(key, text))


def moved(key: str, done: int, total: int, *, phase: Any = "downloading") -> Callable[..., None]:
    event = Moved(key, f"{key}.gguf", "hub", phase, done, total, 12_300_000.0, (total - done) / 12_300_000)
    return lambda _, given: given["report"](event)


def fails(error: Exception) -> Callable[..., None]:
    def step(_: ScriptedPull, given: dict[str, Any]) -> None:
        raise error

    return step


def text_of(app: LocalspecApp, selector: str) -> str:
    """What a widget shows, as words with single spaces; "" before it is there."""
    if not (found := app.screen.query(selector)):
        return ""
    widget = found.first()
    lines = ("".join(segment.text for segment in widget.render_line(y)) for y in range(widget.size.height))
    return " ".join(" ".join(lines).split())


async def shows(pilot: Pilot[Any], app: LocalspecApp, selector: str, *texts: str) -> None:
    """Waits until a widget shows each of `texts`, wherever its lines break."""
    for text in texts:
        await until(pilot, lambda text=text: text in text_of(app, selector), f"{selector} shows {text!r}")
