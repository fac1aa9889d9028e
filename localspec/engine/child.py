"""One engine process seen from its parent: the pipes, the threads that serve them, and how it ended.

Policy (who may ask what, retries, errors in words) is `client.py`'s.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from localspec.engine import crash, waiting, wire
from localspec.engine.logfile import EngineLog, read_tail

_EXIT_S = 2.0
"""A process whose pipe has closed is as good as gone; one that lingers longer than this is killed."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The process ended; nothing more comes for any call."""


@dataclass(eq=False, slots=True)
class Call:
    """A request on its way, and the replies that came for it.

    `ended`: the child has no more to say. `abandoned`: nobody listens any more. `cancelled`: asked to end early.
    """

    number: int
    replies: SimpleQueue[wire.FromChild | Gone] = field(default_factory=SimpleQueue)
    ended: bool = False
    abandoned: bool = False
    cancelled: bool = False

    def next_reply(self) -> wire.FromChild | Gone:
        """Waits for the next reply. In slices, because Ctrl+C cannot interrupt a wait without end on Windows."""
        while True:
            with suppress(Empty):
                return self.replies.get(timeout=0.5)


def native_environment() -> dict[str, str]:
    """How threads wait, and that a failed native assertion starts no debugger: both are read when the library loads."""
    environment = dict(os.environ)
    waiting.choose(environment)
    environment["GGML_NO_BACKTRACE"] = "1"
    return environment


class Child:
    """A running engine process. `send` and `kill` take no lock: signal handlers and destructors may call them."""

    def __init__(self, command: Sequence[str], log: EngineLog, title: str) -> None:
        self.log = log.path
        self._offset = log.begin(title)
        if sys.platform == "win32":
            group, flags = False, subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        else:
            group, flags = True, 0
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.stream,
            env=native_environment(),
            start_new_session=group,
            creationflags=flags,
        )
        self._calls: dict[int, Call] = {}
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._broken: str | None = None
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write, name="engine-requests", daemon=True),
            threading.Thread(target=self._read, name="engine-replies", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._gone.is_set()

    @property
    def returncode(self) -> int:
        """`Popen`'s; only known once the process is gone."""
        code = self._process.returncode
        assert code is not None
        return int(code)

    def log_text(self) -> str:
        """The end of what this process, and no other, wrote to its standard error."""
        return read_tail(self.log, self._offset)

    def death(self, when: str) -> str:
        """How the process ended, in one line for the person."""
        why = self._broken or crash.cause(self.returncode)
        return crash.death(why, when, crash.native_lines(self.log_text()), self.log)

    def expect(self, call: Call) -> None:
        """From now on replies with the call's number go to it. With the process gone it is told so at once."""
        with self._lock:
            if not self._gone.is_set():
                self._calls[call.number] = call
                return
        self._tell_gone(call)

    def send(self, message: wire.ToChild) -> None:
        """Queues a message and returns; `SimpleQueue.put` may interrupt itself, a lock could not."""
        self._outbox.put(wire.pack(message))

    def kill(self) -> None:
        with suppress(OSError):
            self._process.kill()

    def end(self, grace_s: float) -> None:
        """Asks the process to exit, kills it when it has not after `grace_s`, and returns when it is gone."""
        if grace_s > 0:
            self.send(wire.Shutdown())
            self._gone.wait(grace_s)
        if self.alive:
            self.kill()
        for thread in self._threads:
            thread.join(2 * _EXIT_S)

    def _write(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with suppress(OSError):
            while (frame := self._outbox.get()) is not None:
                stream.write(frame)
                stream.flush()
        # Closing flushes, which fails again on a broken pipe.
        with suppress(OSError):
            stream.close()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        try:
            while (message := wire.read_message(stream)) is not None:
                self._route(message)
        except (OSError, wire.WireError) as error:
            self._broken = f"its replies make no sense: {wire.one_line(error)}"
            self.kill()
        try:
            self._process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        stream.close()
        with self._lock:
            self._gone.set()
            calls = list(self._calls.values())
            self._calls.clear()
        self._outbox.put(None)
        for call in calls:
            self._tell_gone(call)

    def _route(self, message: wire.FromChild | wire.ToChild) -> None:
        if not isinstance(message, wire.FromChild):
            raise wire.WireError(f"a {type(message).__name__} is not for the client")
        call = self._calls.get(message.number)
        if call is None:
            return
        if not isinstance(message, wire.Progress | wire.Emitted):
            with self._lock:
                del self._calls[message.number]
            call.ended = True
        call.replies.put(message)

    @staticmethod
    def _tell_gone(call: Call) -> None:
        call.ended = True
        call.replies.put(Gone())
