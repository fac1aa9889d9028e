"""The real program in tmux: what a person sees, and what is left when it ends."""

import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pytest

DEADLINE_S = 60.0

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def until(fact: Callable[[], object], what: str, limit_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + limit_s
    while not fact():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.02)


class Tmux:
    """One tmux server of its own with the app in it."""

    def __init__(
        self,
        home: Path,
        *,
        columns: int = 80,
        rows: int = 24,
        environment: dict[str, str] | None = None,
        module: str = "localspec",
        folder: Path | None = None,
    ) -> None:
        """Runs `module` in `folder` (None: where the tests run)."""
        self._module = module
        self._socket = f"localspec-{uuid.uuid4().hex[:12]}"
        settings = {
            "LOCALSPEC_HOME": str(home), "OMP_WAIT_POLICY": "passive", "TERM": "xterm-256color",
            "COLORTERM": "truecolor", **(environment or {}),
        }  # fmt: skip
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        # pytest may set the size of a terminal for its own purposes.
        program = f"env -u COLUMNS -u LINES {words} {shlex.quote(sys.executable)} -m {module}"
        command = f"{program}; echo left with $?; exec sleep 1000"
        self._tmux(
            "-f",
            os.devnull,
            "new-session",
            "-d",
            "-x",
            str(columns),
            "-y",
            str(rows),
            "-c",
            str(folder or Path.cwd()),
            command,
        )
        until(lambda: self.app is not None, "the app runs")
        app = self.app
        assert app is not None
        self.process = app

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.screen)
        self._tmux("kill-server")
        for child in self.children():
            child.kill()

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, check=False)
        return done.stdout

    @property
    def app(self) -> psutil.Process | None:
        pid = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        if not pid:
            return None
        shell = psutil.Process(int(pid))
        return next((p for p in shell.children() if self._module in p.cmdline()), None)

    def children(self) -> list[psutil.Process]:
        """The engine's processes."""
        try:
            return self.process.children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def paste(self, file: Path) -> None:
        """A bracketed paste of a file's bytes."""
        self._tmux("load-buffer", str(file))
        self._tmux("paste-buffer", "-p", "-r")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def see(self, text: str, limit_s: float = DEADLINE_S) -> None:
        until(lambda: text in self.screen, f"{text!r} on the screen", limit_s)
