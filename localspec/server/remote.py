"""An engine that runs already, in `localspec serve` or in the app, with the face of `EngineClient`.

Only the standard library is used: a command that finds a running engine shall answer at once.
"""

import http.client
import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from localspec.engine import errors, events, wire
from localspec.engine.errors import Busy, EngineDied, EngineError
from localspec.engine.events import Event
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment
from localspec.server import runtime
from localspec.server.codec import CodecError, from_json, to_json
from localspec.server.runtime import RunningEngine

HELLO_S = 1.0
"""It answers in milliseconds; on a machine where everybody waits for the processor a load would take longer still than
waiting this long. What does not answer within it hangs."""

CALL_S = 10.0
"""For the short calls."""

LOOK_S = 2.0
"""After so long without a reply it is looked whether the engine's server is still there."""

SILENCE_S = 30.0
"""A server whose answer has not begun sends an empty line every five seconds: one that sends nothing for this long
hangs, or was stopped."""

PATIENCE_S = 120.0
"""A busy engine counts tokens between two passes, and the longest pass takes a fraction of this."""

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (events.Started, events.Prefill, events.Token, events.Cycle, events.Finished, events.Notice)
}


def find(config: EngineConfig | None = None, *, draft_needed: bool = False) -> "RemoteEngine | None":
    """A running engine that answers as one loaded with `config` would, or None. None as `config`: any one.

    An engine without the draft is good enough unless `draft_needed`: what is said does not depend on it.
    """
    for running in runtime.running():
        if config is not None and not (matches(running.config, config, draft_needed=draft_needed)):
            continue
        with suppress(EngineError, OSError, http.client.HTTPException, CodecError, ValueError):
            engine = RemoteEngine(running)
            if config is None or _in_force(engine.info, config):
                return engine
    return None


def matches(loaded: EngineConfig, wanted: EngineConfig, *, draft_needed: bool = False) -> bool:
    """Whether an engine that loaded `loaded` does what `wanted` asks for, by the configurations alone."""
    if not _same_file(loaded.target, wanted.target):
        return False
    if wanted.draft is not None and not _same_file(loaded.draft, wanted.draft) and (draft_needed or loaded.draft):
        return False
    if draft_needed and loaded.drafter != wanted.drafter:
        return False
    if loaded.max_draft_length < wanted.max_draft_length or loaded.swa_full != wanted.swa_full:
        return False
    if wanted.flash_attn not in ("auto", loaded.flash_attn):
        return False
    return loaded.kv_type == wanted.kv_type


def _in_force(info: EngineInfo, wanted: EngineConfig) -> bool:
    """Whether the numbers the engine chose are those that were asked for; None asked for none."""
    names = ("context", "threads", "gpu_layers", "draft_gpu_layers")
    return all(getattr(wanted, name) in (None, getattr(info, name)) for name in names)


def _same_file(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


class RemoteEngine:
    """Asks a running engine. One answer at a time; others that share the engine may make it wait.

    `busy` tells whether it was answering somebody when it was found; `on_wait` is called now and then while it lets
    one wait. Raises `EngineDied` when nothing answers, or nothing any more. `close` lets the engine go; it runs on.
    """

    def __init__(self, running: RunningEngine) -> None:
        self.running = running
        self.on_wait: Callable[[], object] = lambda: None
        self._answer: RemoteAnswer | None = None
        found = self._call("GET", "/localspec/info", None, HELLO_S)
        if found.get("down"):
            raise EngineDied(str(found["down"]))
        self.info: EngineInfo = from_json(EngineInfo, found["info"])
        self.busy = bool(found.get("answering"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it still answers."""
        try:
            return not self._call("GET", "/localspec/info", None, HELLO_S).get("down")
        except EngineError:
            return False

    def start(self, on_progress: Callable[[float], None] | None = None) -> EngineInfo:
        """It runs already."""
        return self.info

    def generate(self, request: Request) -> "RemoteAnswer":
        """Sends the request and returns its events; an answer that is dropped before its end is cancelled.

        Raises `EngineError` when the engine is gone or refuses.
        """
        return RemoteAnswer(self, request)

    def count(self, prompt: tuple[Segment, ...]) -> int:
        """How many tokens the prompt has. A busy engine is waited for."""
        body = {"prompt": to_json(prompt)}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return int(self._call("POST", "/localspec/count", body, CALL_S, until=deadline)["tokens"])
            except Busy as error:
                # It loads its model again, after a crash.
                if time.monotonic() > deadline:
                    raise EngineDied(self._gone(error)) from error
                self.on_wait()
                time.sleep(LOOK_S / 10)

    def save(self, path: Path) -> int:
        """Keeps nothing and returns 0: the caches are the owner's, and hold the last conversation anyway."""
        return 0

    def restore(self, path: Path) -> int:
        """Takes up nothing and returns 0."""
        return 0

    def cancel(self) -> None:
        """Ends the answer being made; from any thread and from a signal handler. A second time it does nothing: whoever
        stops at every event would ask a server that is through with the answer, and wait for it to begin."""
        answer = self._answer
        if answer is not None and not answer.over and not answer.cancelled:
            with suppress(EngineError):
                # The request may be on its way still.
                for _ in range(20):
                    if self._call("POST", "/localspec/cancel", {"id": answer.number}, HELLO_S)["found"] or answer.over:
                        answer.cancelled = True
                        break
                    time.sleep(0.05)

    def close(self) -> None:
        """An answer being made is cancelled."""
        if self._answer is not None:
            self._answer.close()

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=timeout)

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any) -> None:
        headers = {"authorization": f"Bearer {self.running.token}", "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body).encode("ascii"), headers)

    def _call(self, method: str, path: str, body: Any, timeout: float, *, until: float | None = None) -> dict[str, Any]:
        """The reply's object. With `until` (of the monotonic clock) it may be late, as long as the server is there."""
        connection = self._connect(timeout)
        try:
            self._send(connection, method, path, body)
            if until is not None:
                self._wait(connection.sock, until)
            reply = connection.getresponse()
            found = json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise EngineDied(self._gone(error)) from error
        finally:
            connection.close()
        if reply.status != 200:
            raise _refusal(found)
        return dict(found)

    def _wait(self, reply: socket.socket, until: float) -> None:
        """Until a reply begins. Raises `OSError` when the server hangs, and `EngineError` when it is gone."""
        while not select.select([reply], [], [], LOOK_S)[0]:
            self.on_wait()
            if time.monotonic() > until:
                raise TimeoutError("it is busy, and hangs")
            self._call("GET", "/localspec/info", None, CALL_S)

    def _gone(self, error: BaseException) -> str:
        return f"The running engine (process {self.running.pid}) does not answer: {wire.one_line(error)}."


class RemoteAnswer(Iterator[Event]):
    """The events of one answer. Not a generator: an exception in a signal handler must not end it."""

    def __init__(self, engine: RemoteEngine, request: Request) -> None:
        self.number = secrets.token_hex(8)
        self.over = False
        self.cancelled = False
        self._begun = False
        self._engine = engine
        self._lock = threading.Lock()
        self._connection = engine._connect(SILENCE_S)
        # From now on another thread, or a signal handler, can end it.
        engine._answer = self
        try:
            body = {"id": self.number, "request": to_json(request)}
            engine._send(self._connection, "POST", "/localspec/generate", body)
            self._reply = self._connection.getresponse()
            if self._reply.status != 200:
                raise _refusal(json.loads(self._reply.read()))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise EngineDied(engine._gone(error)) from error
        except BaseException:
            self.close()
            raise

    def __next__(self) -> Event:
        while not self.over:
            line = self._line()
            if not line.strip():
                if not self._begun:
                    self._engine.on_wait()
                continue
            self._begun = True
            data = json.loads(line)
            kind = data.pop("event", None)
            if kind == "Failed":
                self.close()
                raise _error(data)
            if kind not in KINDS:
                # Of a newer version: nothing this one could show.
                continue
            event: Event = from_json(KINDS[kind], data)
            if kind == "Finished":
                self.close()
            return event
        raise StopIteration

    def close(self) -> None:
        """Nobody listens any more: the server sees the connection close, and cancels the answer."""
        self.over = True
        with self._lock:
            if self._connection.sock is not None:
                # Closing alone would leave another thread waiting for the next line.
                with suppress(OSError):
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    def _line(self) -> bytes:
        try:
            line = self._reply.readline()
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            if self.over:
                raise StopIteration from None
            self.close()
            raise EngineDied(self._engine._gone(error)) from error
        if not line and self.over:
            raise StopIteration
        if not line:
            self.close()
            pid = self._engine.running.pid
            when = " in the middle of an answer" if self._begun else ""
            raise EngineDied(f"The running engine (process {pid}) ended{when}.")
        return line


def _error(data: dict[str, Any]) -> EngineError:
    kind, message = str(data.get("kind")), str(data.get("message", ""))
    known = getattr(errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, EngineError)):
        kind = "EngineError"
    return wire.unpack_error(wire.Failed(0, kind, message))


def _refusal(found: Any) -> EngineError:
    if isinstance(found, dict) and "kind" in found:
        return _error(found)
    words = found.get("error", {}).get("message") if isinstance(found, dict) else None
    return EngineError(str(words or "The running engine refused the request."))
