"""How the app feels while an answer streams: `python -m tests.tui.speed`, a few minutes at most, on a pseudo-terminal.

The app runs as a person runs it, with a scripted engine of 200 tokens/s in bursts of 16, 3,000 tokens. Measured from
outside: how long a key takes to be seen, how long the last token takes, the processor time of the app's process; and
how long the first paint, and a chat of 200 turns, take to appear.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path
from statistics import median, quantiles

import psutil

from localspec.paths import HOME_VARIABLE

TOKENS, BURST, PER_S = 3000, 16, 200
LAST = "◉"
TURNS = 200


class Terminal:
    """A child on a pseudo-terminal, and when what was seen of it."""

    def __init__(self, arguments: list[str], environment: dict[str, str], columns: int = 120, rows: int = 40) -> None:
        self.begun = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(sys.executable, [sys.executable, "-m", "tests.tui.speed", *arguments], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = psutil.Process(self.pid)
        self.written = 0

    def see(self, wanted: str, limit_s: float = 60.0) -> float:
        """When `wanted` was written to the terminal (monotonic seconds)."""
        seen = b""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if select.select([self.fd], [], [], 0.5)[0]:
                data = self._read()
                self.written += len(data)
                seen = (seen + data)[-(1 << 17) :]
                if wanted.encode() in seen:
                    return time.monotonic()
        raise TimeoutError(f"{wanted!r} was not seen in {limit_s} s: {seen[-2000:]!r}")

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, 1 << 16)
        except OSError:
            raise SystemExit("the app ended by itself") from None

    def type(self, text: str) -> float:
        os.write(self.fd, text.encode())
        return time.monotonic()

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def environment(home: str) -> dict[str, str]:
    return {**os.environ, HOME_VARIABLE: home, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def stream(home: str) -> None:
    """Key echo, last token, processor time while an answer streams."""
    stamp = Path(home) / "last"
    app = Terminal(["app", str(stamp)], environment(home))
    app.see("ready")
    app.type("go\r")
    app.see("answering")
    began, cpu = time.monotonic(), app.cpu_s()
    echoes = []
    for number in range(60):
        key = chr(0x4E00 + number)
        sent = app.type(key)
        echoes.append((app.see(key) - sent) * 1000)
        time.sleep(0.15)
    seen = app.see(LAST)
    wall, used = time.monotonic() - began, app.cpu_s() - cpu
    delay = (seen - float(stamp.read_text())) * 1000
    print(f"key echo, ms: median {median(echoes):.0f}, p95 {quantiles(echoes, n=20)[18]:.0f}, max {max(echoes):.0f}")
    print(f"last token painted after {delay:.0f} ms")
    print(f"processor: {used / wall:.3f} of a core over {wall:.1f} s; {app.written / 1e6:.1f} MB to the terminal")
    app.end()


def first_paint(home: str, runs: int = 5) -> None:
    times, cpu = [], []
    for _ in range(runs):
        app = Terminal(["plain"], environment(home))
        times.append(app.see("localspec") - app.begun)
        cpu.append(app.cpu_s())
        app.end()
    print(f"first paint, s: median {median(times):.2f}, max {max(times):.2f}; processor {median(cpu):.2f}")


def long_chat(home: str) -> None:
    app = Terminal(["chat"], environment(home))
    app.see("ready")
    sent = app.type("\x1b[15~")
    print(f"a chat of {TURNS} turns is on the screen after {(app.see('last word') - sent):.2f} s")
    app.end()


# -- in the child ------------------------------------------------------------------------------------------------------


def run_child(what: str, arguments: list[str]) -> None:
    from collections.abc import Iterator

    from localspec.chat.history import History
    from localspec.chat.pairing import Choice
    from localspec.chat.settings import Settings
    from localspec.chat.turns import Turn
    from localspec.engine.events import Event, Token
    from localspec.engine.requests import EngineConfig, Request
    from localspec.tui.app import LocalspecApp
    from tests.fake_engine import FakeEngine, Say, Script, plain

    words = ["def", " value", "(self", ",", " number", ":", " int", ")", " ->", " None", ":\n", "    ", "return", "\n"]
    steps = [*plain("```python\n")]
    made = 1
    while made < TOKENS - 1:
        run = [words[(made + at) % len(words)] for at in range(BURST)]
        steps.append(Say(run[:-1], ("resampled" if made % 3 else "bonus", run[-1]), proposed=BURST))
        made += BURST
    steps += plain(LAST)

    class Paced(FakeEngine):
        def generate(self, request: Request) -> Iterator[Event]:
            count, begun = 0, time.monotonic()
            for event in super().generate(request):
                if isinstance(event, Token):
                    count += 1
                    if count % BURST == 0:
                        time.sleep(max(0.0, begun + count / PER_S - time.monotonic()))
                    if event.text == LAST:
                        Path(arguments[0]).write_text(str(time.monotonic()))
                yield event

    def make(config: EngineConfig) -> FakeEngine:
        return Paced(config, scripts=[Script(steps)])

    def choose(spec: str | None, draft: str | None, settings: Settings) -> Choice:
        return Choice(settings.engine_config("target.gguf", draft, None), "auto", name="scripted")

    if what == "chat":
        history = History.open()
        chat = history.create(title="long").id
        parent = None
        for number in range(TURNS // 2):
            parent = history.add(chat, Turn("user", f"question {number} " * 20, reason="end_of_text"), parent)
            text = "An answer with some words in it, and a line\n" * 30 + (
                "last word" if number == TURNS // 2 - 1 else ""
            )
            parent = history.add(chat, Turn("assistant", text, reason="end_of_text"), parent)

        app = LocalspecApp(make, Settings(), history, choose=choose)
        app.action_open = lambda name: app.chat.open_chat(chat, None)  # type: ignore[method-assign]
        app.run()
    else:
        LocalspecApp(make, Settings(), History.in_memory(), choose=choose).run()


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in ("app", "chat", "plain"):
        run_child(sys.argv[1], sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as home:
        first_paint(home)
        stream(home)
        long_chat(home)


if __name__ == "__main__":
    main()
