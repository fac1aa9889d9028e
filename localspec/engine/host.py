"""The engine's process: owns the model and answers over two pipes. Started by `client.py`, never by hand.

Three rules hold from the first line. The wire is private: file descriptor 1 becomes the log before anything native
loads, so nothing printed there can end up between two messages. The pipe is the life line: when it closes, the process
ends at once, also in the middle of a decode or a load, because a thread of its own reads it. The main thread alone
touches native handles; the reading thread only ever sets the engine's cancel flag.
"""

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import BinaryIO, NoReturn, Protocol

from localspec.engine import advice, wire
from localspec.engine.cost_report import CostReport
from localspec.engine.errors import EngineError
from localspec.engine.events import Event
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment

LoadProgress = Callable[[float], None]


class EngineLike(Protocol):
    """What the host needs of an engine. `cancel` may be called from any thread; the rest stays on the main thread.

    `generate`, `calibrate`, `measure` and `idle` forget an earlier cancel when they begin; `generate` yields its first
    event, and the measuring ones tell their first progress, before anything is decoded. `idle` does something useful
    until `waiting` is true or it is cancelled, and looks at `waiting` after it forgot. `keep` writes down what was
    learnt.
    """

    @property
    def info(self) -> EngineInfo: ...
    def generate(self, request: Request) -> Iterator[Event]: ...
    def cancel(self) -> None: ...
    def count(self, prompt: tuple[Segment, ...]) -> int: ...
    def encode(self, prompt: tuple[Segment, ...]) -> Sequence[int]: ...
    def save(self, path: str) -> int: ...
    def restore(self, path: str) -> int: ...
    def costs(self) -> CostReport: ...
    def calibrate(self, seconds: float, progress: LoadProgress) -> CostReport: ...
    def measure(self, job: wire.Job, progress: LoadProgress) -> wire.Found: ...
    def idle(self, waiting: Callable[[], bool]) -> None: ...
    def keep(self) -> None: ...


MakeEngine = Callable[[EngineConfig, LoadProgress], EngineLike]


def _load_engine(config: EngineConfig, progress: LoadProgress) -> EngineLike:
    from localspec.engine.engine import Engine

    return Engine(config, progress)


def _leave(status: int = 0) -> NoReturn:
    """Ends the process as it stands: native clean-up may hang, and the system frees gigabytes faster than it does."""
    os._exit(status)


class Host:
    """Serves one client until it says so or its pipe closes."""

    def __init__(self, requests: BinaryIO, replies: BinaryIO, make_engine: MakeEngine) -> None:
        self._requests = requests
        self._replies = replies
        self._make_engine = make_engine
        self._engine: EngineLike | None = None
        self._inbox: SimpleQueue[wire.ToChild] = SimpleQueue()
        self._postponed: deque[wire.ToChild] = deque()
        self._lock = threading.Lock()
        self._running = False
        self._idling = False
        self._cancelled = 0

    def serve(self) -> NoReturn:
        threading.Thread(target=self._read, name="requests", daemon=True).start()
        while True:
            message = self._next()
            match message:
                case wire.Load():
                    self._load(message)
                case wire.Generate():
                    self._answer(message)
                case wire.Count():
                    self._count(message)
                case wire.Save() | wire.Restore():
                    self._keep(message)
                case wire.Calibrate() | wire.Measure():
                    self._measure(message)
                case wire.Costs():
                    self._tell_costs(message)
                case wire.Shutdown():
                    self._end()

    def _next(self) -> wire.ToChild:
        """The next message. The engine may use the time until it comes; what it does then ends when one does."""
        if self._postponed:
            return self._postponed.popleft()
        with self._lock:
            self._idling = self._engine is not None and self._inbox.empty()
        if self._idling:
            assert self._engine is not None
            try:
                self._engine.idle(lambda: not self._inbox.empty())
            except Exception as error:
                # Nobody asked for it, so nobody is told; the log is.
                with suppress(OSError):
                    traceback.print_exception(error)
            finally:
                with self._lock:
                    self._idling = False
        return self._inbox.get()

    def _put(self, message: wire.ToChild) -> None:
        """From the reading thread: a message for the main one, which leaves its idle work for it."""
        self._inbox.put(message)
        with self._lock:
            if self._idling and self._engine is not None:
                self._engine.cancel()

    def _end(self) -> NoReturn:
        if self._engine is not None:
            with suppress(Exception):
                self._engine.keep()
        _leave()

    def _read(self) -> None:
        """The reading thread. Whatever goes wrong here leaves nobody to listen to, so the process ends."""
        try:
            while (message := wire.read_message(self._requests)) is not None:
                match message:
                    case wire.Cancel():
                        self._cancel(message.number)
                    case wire.Shutdown():
                        if self._engine is None:
                            _leave()
                        self._cancel(sys.maxsize)
                        self._put(message)
                    case wire.Load() | wire.Generate() | wire.Count() | wire.Save() | wire.Restore():
                        self._put(message)
                    case wire.Calibrate() | wire.Measure() | wire.Costs():
                        self._put(message)
                    case _:
                        raise wire.WireError(f"a {type(message).__name__} is not for the engine")
        except BaseException:
            with suppress(OSError):
                traceback.print_exc()
            _leave(70)
        _leave()

    def _cancel(self, number: int) -> None:
        with self._lock:
            self._cancelled = max(self._cancelled, number)
            if self._running and self._engine is not None:
                self._engine.cancel()

    def _send(self, message: wire.FromChild) -> None:
        frame = wire.pack(message)
        try:
            self._replies.write(frame)
            self._replies.flush()
        except OSError:
            _leave()

    def _load(self, message: wire.Load) -> None:
        def progress(fraction: float) -> None:
            self._send(wire.Progress(message.number, float(fraction)))

        try:
            self._engine = self._make_engine(message.config, progress)
            self._send(wire.Loaded(message.number, self._engine.info))
        except Exception as error:
            missing = advice.cannot_import(error)
            self._fail(message.number, error if missing is None else missing)

    def _answer(self, message: wire.Generate) -> None:
        assert self._engine is not None
        number = message.number
        with self._lock:
            self._running = True
        events: Iterator[Event] | None = None
        try:
            events = self._engine.generate(message.request)
            for event in events:
                self._send(wire.Emitted(number, event))
                # The cancel may have come before this answer began, and the engine forgets it when it begins.
                if number <= self._cancelled:
                    self._engine.cancel()
                self._answer_waiting()
        except Exception as error:
            self._fail(number, error)
        else:
            self._send(wire.Done(number))
        finally:
            with self._lock:
                self._running = False
            close = getattr(events, "close", None)
            if close is not None:
                close()

    def _answer_waiting(self) -> None:
        """Answers short questions that came during an answer, between two of its events; the rest keeps its turn."""
        while True:
            try:
                message = self._inbox.get_nowait()
            except Empty:
                return
            if isinstance(message, wire.Count):
                self._count(message)
            elif isinstance(message, wire.Costs):
                self._tell_costs(message)
            else:
                self._postponed.append(message)

    def _count(self, message: wire.Count) -> None:
        assert self._engine is not None
        try:
            if message.ids:
                ids = tuple(self._engine.encode(message.prompt))
                self._send(wire.Counted(message.number, len(ids), ids))
            else:
                self._send(wire.Counted(message.number, int(self._engine.count(message.prompt))))
        except Exception as error:
            self._fail(message.number, error)

    def _keep(self, message: wire.Save | wire.Restore) -> None:
        assert self._engine is not None
        try:
            if isinstance(message, wire.Save):
                self._send(wire.Saved(message.number, self._engine.save(message.path)))
            else:
                self._send(wire.Restored(message.number, self._engine.restore(message.path)))
        except Exception as error:
            self._fail(message.number, error)

    def _tell_costs(self, message: wire.Costs) -> None:
        assert self._engine is not None
        try:
            self._send(wire.Priced(message.number, self._engine.costs()))
        except Exception as error:
            self._fail(message.number, error)

    def _measure(self, message: wire.Calibrate | wire.Measure) -> None:
        assert self._engine is not None
        engine, number = self._engine, message.number

        def progress(fraction: float) -> None:
            self._send(wire.Progress(number, fraction))
            if number <= self._cancelled:
                engine.cancel()

        with self._lock:
            self._running = True
        try:
            if isinstance(message, wire.Calibrate):
                self._send(wire.Priced(number, engine.calibrate(message.seconds, progress)))
            else:
                self._send(wire.Measured(number, engine.measure(message.job, progress)))
        except Exception as error:
            self._fail(number, error)
        finally:
            with self._lock:
                self._running = False

    def _fail(self, number: int, error: Exception) -> None:
        if not isinstance(error, EngineError):
            # On a full disk the log takes nothing, and the client still wants its answer.
            with suppress(OSError):
                traceback.print_exception(error)
        self._send(wire.pack_error(number, error))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Moves the two pipes to private descriptors; 0 then reads nothing, and 1 writes where 2 does: into the log."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "wb")


def main(make_engine: MakeEngine = _load_engine) -> NoReturn:
    """Takes over the process: its standard input and output are the wire, its standard error the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = _take_pipes()
    faulthandler.enable(sys.stderr)
    Host(requests, replies, make_engine).serve()


if __name__ == "__main__":
    main()
