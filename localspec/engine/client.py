"""The engine as the rest of the program sees it: a process that loads, answers, is cancelled, dies and comes back.

Nothing native is loaded here, and nothing native can hurt here. One answer is made at a time. `cancel` may be called
from any thread and from a signal handler; `close` from any thread, also while another one loads.
"""

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, overload

from localspec import paths
from localspec.engine import crash, quirks, wire
from localspec.engine.answer import Answer
from localspec.engine.child import Call, Child, Gone
from localspec.engine.cost_report import CostReport
from localspec.engine.errors import Busy, EngineDied, EngineError
from localspec.engine.logfile import EngineLog
from localspec.engine.proof.report import Proof, ProofJob
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment
from localspec.engine.rule_report import RuleJob, RuleRates

HOST_COMMAND = (sys.executable, "-u", "-P", "-m", "localspec.engine.host")
"""Unbuffered, so that the log has the last words; without the current folder on the import path."""

GRACE_S = 0.5
"""How long a process may take to end its answer and exit: a decode is aborted within a tenth of it, and quitting must
feel instant."""

LoadProgress = Callable[[float], None]
Reply = TypeVar("Reply", bound=wire.FromChild)


class EngineClient:
    """Runs one engine in a process of its own. `start` it, or use it as a context manager.

    A build of the native library that dies of an illegal instruction with the repacked kernels is started once more
    without them (`EngineConfig.extra_bufts` off), which is remembered in `state_dir` and told in `EngineInfo.notices`,
    or in a `Notice` when it happens in the middle of an answer.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        log_file: Path | None = None,
        state_dir: Path | None = None,
        host_command: Sequence[str] | None = None,
    ) -> None:
        self._config = config
        self._state_dir = state_dir or paths.state_dir()
        self._log_file = log_file or (self._state_dir / paths.log_file().name)
        self._command = tuple(host_command or HOST_COMMAND)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._epoch = 0
        self._loading = False
        self._load_cancelled = False
        self._safer = False
        self._doubtful = False
        self._log: EngineLog | None = None
        self._log_announced = False
        self._child: Child | None = None
        self._call: Call | None = None
        self._info: EngineInfo | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether a model is loaded and its process runs."""
        child = self._child
        return self._info is not None and child is not None and child.alive

    @property
    def pid(self) -> int | None:
        """The engine process, also while it loads; None when there is none."""
        child = self._child
        return child.pid if child is not None and child.alive else None

    @property
    def info(self) -> EngineInfo | None:
        """What was loaded last; None before the first load and after `close`."""
        return self._info

    @property
    def log_path(self) -> Path | None:
        """The file the current process logs to."""
        log = self._log
        return log.path if log is not None else None

    def log_tail(self, count: int = 8) -> list[str]:
        """The last `count` lines the current or last process wrote, oldest first, without control characters."""
        child = self._child
        return crash.native_lines(child.log_text(), count) if child is not None else []

    def start(self, on_progress: LoadProgress | None = None) -> EngineInfo:
        """Loads the model, reporting the fraction done; answers at once when it is loaded already.

        Raises the engine's own errors, `EngineDied` when the process ended, `Busy` while another thread loads, and
        `EngineError` when `cancel` or `close` came in between. On any error no process is left.
        """
        with self._lock:
            if self._loading:
                raise Busy("The engine is loading already: wait for it, or cancel it.")
            if self._info is not None and self.alive:
                return self._info
            self._loading = True
            self._load_cancelled = False
            epoch = self._epoch
        try:
            return self._load(on_progress, epoch)
        except BaseException:
            self._close_log()
            raise
        finally:
            self._loading = False

    def generate(self, request: Request) -> Answer:
        """Sends the request and returns its events. An answer that is closed or dropped before its end is cancelled.

        Raises `Busy` while another answer is being made or the model loads, `EngineDied` when the process has ended.
        """
        with self._lock:
            self._refuse_if_answering()
            child, call = self._ask(lambda number: wire.Generate(number, request))
            self._call = call
        return Answer(child, call, request, self._rescue, self._spoken)

    def count(self, prompt: tuple[Segment, ...]) -> int:
        """How many tokens the prompt has. During an answer it is answered between two of its events."""
        return self._told(lambda n: wire.Count(n, prompt), wire.Counted, "while counting tokens").tokens

    def tokens(self, prompt: tuple[Segment, ...]) -> tuple[int, ...]:
        """The prompt's token ids, the begin token included; answered like `count`."""
        return self._told(lambda n: wire.Count(n, prompt, ids=True), wire.Counted, "while reading tokens").ids

    def save(self, path: Path) -> int:
        """Keeps the conversation's caches in files at `path` and beside it (see `state.py`); returns bytes on disk, 0
        when there was nothing to keep. Raises `Busy` while an answer is being made, and `EngineError`."""
        when = "while saving the conversation's cache"
        return self._told(lambda n: wire.Save(n, str(path)), wire.Saved, when, alone=True).size

    def restore(self, path: Path) -> int:
        """Takes up what `save` kept at `path`; returns the tokens that need no reading now, 0 when nothing there fits
        this model and these settings. Raises `Busy` while an answer is being made, and `EngineDied`."""
        when = "while loading a conversation's cache"
        return self._told(lambda n: wire.Restore(n, str(path)), wire.Restored, when, alone=True).tokens

    def costs(self) -> CostReport:
        """What the engine knows of the cost of passes now. During an answer it is answered between two of its events.

        Raises `EngineError` when no engine runs, and `EngineDied`.
        """
        return self._told(wire.Costs, wire.Priced, "while telling its costs").report

    def calibrate(self, seconds: float, on_progress: LoadProgress | None = None) -> CostReport:
        """Measures what passes cost, for about `seconds`, reporting the fraction of them that is over; both kinds of
        flash attention, at a short and a long context. `cancel` ends it with what there is.

        Raises `Busy` while an answer is being made, `EngineError` when nothing can be measured, and `EngineDied`.
        """
        return self._measured(lambda n: wire.Calibrate(n, seconds), wire.Priced, on_progress).report

    @overload
    def measure(self, job: RuleJob, on_progress: LoadProgress | None = None) -> RuleRates: ...

    @overload
    def measure(self, job: ProofJob, on_progress: LoadProgress | None = None) -> Proof: ...

    def measure(self, job: wire.Job, on_progress: LoadProgress | None = None) -> wire.Found:
        """Does a job that takes a while, reporting the fraction done; `cancel` ends it with what there is.

        Raises as `calibrate` does.
        """
        return self._measured(lambda n: wire.Measure(n, job), wire.Measured, on_progress).found

    def _measured(
        self, message: Callable[[int], wire.ToChild], kind: type[Reply], on_progress: LoadProgress | None
    ) -> Reply:
        with self._lock:
            self._refuse_if_answering()
            child, call = self._ask(message)
            self._call = call
        while isinstance(reply := self._reply(child, call, "while measuring"), wire.Progress):
            if on_progress is not None:
                on_progress(reply.fraction)
        assert isinstance(reply, kind)
        return reply

    def cancel(self) -> None:
        """Ends the answer being made (its last event is then a `Finished` with reason `cancelled`), the measuring, or
        the load.

        Returns at once and takes no lock, so that a signal handler may call it.
        """
        call, child = self._call, self._child
        if call is not None and not call.ended and child is not None:
            call.cancelled = True
            child.send(wire.Cancel(call.number))
        elif self._loading:
            self._load_cancelled = True
            if child is not None:
                child.kill()

    def restart(self, on_progress: LoadProgress | None = None) -> EngineInfo:
        """Ends the process, if there is one, and loads anew."""
        self.close()
        return self.start(on_progress)

    def close(self) -> None:
        """Ends the process; its memory is free when this returns. May be called again, and at any time."""
        with self._lock:
            self._epoch += 1
            child, self._child, self._info = self._child, None, None
            loading = self._loading
        if child is not None:
            child.end(0.0 if loading else GRACE_S)
        self._close_log()

    def _close_log(self) -> None:
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()

    def _refuse_if_answering(self) -> None:
        call = self._call
        if call is not None and not call.ended and not call.abandoned:
            raise Busy("An answer is being made already: wait for its end, or cancel it first.")

    def _ask(self, message: Callable[[int], wire.ToChild]) -> tuple[Child, Call]:
        """Sends the message that `message` makes for a call's number; the caller holds the lock."""
        child = self._ready()
        call = Call(next(self._numbers))
        child.expect(call)
        child.send(message(call.number))
        return child, call

    def _told(
        self, message: Callable[[int], wire.ToChild], kind: type[Reply], when: str, *, alone: bool = False
    ) -> Reply:
        """The reply to a short call; `alone`: not beside an answer. `when` is for the words of a death."""
        with self._lock:
            if alone:
                self._refuse_if_answering()
            child, call = self._ask(message)
        reply = self._reply(child, call, when)
        assert isinstance(reply, kind)
        return reply

    def _reply(self, child: Child, call: Call, when: str) -> wire.FromChild:
        """The one reply of a short call."""
        match call.next_reply():
            case wire.Failed() as failed:
                raise wire.unpack_error(failed)
            case Gone():
                raise self._death(child, when)
            case reply:
                return reply

    def _ready(self) -> Child:
        if self._loading:
            raise Busy("The model is still loading: wait for it, or cancel it.")
        child = self._child
        if child is None or self._info is None:
            raise EngineError("The engine is not running: start it first.")
        if not child.alive:
            raise self._death(child, "while it was waiting")
        return child

    def _load(self, on_progress: LoadProgress | None, epoch: int) -> EngineInfo:
        if self._config.extra_bufts and not self._safer:
            self._safer = quirks.needs_plain_buffers(self._state_dir)
        died_loading = False
        while True:
            child = self._spawn(epoch)
            call = Call(next(self._numbers))
            child.expect(call)
            config = replace(self._config, extra_bufts=False) if self._safer else self._config
            child.send(wire.Load(call.number, config))
            try:
                while isinstance(reply := call.next_reply(), wire.Progress):
                    if on_progress is not None:
                        on_progress(reply.fraction)
                match reply:
                    case wire.Loaded(info=info):
                        info = self._loaded(info, epoch)
                        if died_loading:
                            self._prove()
                        return info
                    case wire.Failed() as failed:
                        raise wire.unpack_error(failed)
                self._refuse_if_stopped(epoch)
                if self._safer or not self._may_be_safer(child):
                    raise self._death(child, "while loading the model")
                self._safer = died_loading = True
            except BaseException:
                child.end(0.0)
                raise
            child.end(0.0)

    def _spawn(self, epoch: int) -> Child:
        with self._lock:
            self._refuse_if_stopped(epoch)
            self._info = None
            if self._log is None:
                self._log = EngineLog(self._log_file)
            title = f"engine for {Path(self._config.target).name}"
            try:
                self._child = child = Child(self._command, self._log, title)
            except OSError as error:
                raise EngineError(f"The engine's process cannot be started ({error.strerror or error}).") from error
        if self._load_cancelled:
            child.kill()
        return child

    def _refuse_if_stopped(self, epoch: int) -> None:
        if epoch != self._epoch:
            raise EngineError("The engine was closed while it was loading.")
        if self._load_cancelled:
            raise EngineError("Loading was cancelled.")

    def _loaded(self, info: EngineInfo, epoch: int) -> EngineInfo:
        notices = list(info.notices)
        if self._safer:
            notices.append(crash.safer_settings())
        with self._lock:
            self._refuse_if_stopped(epoch)
            if self._log is not None and self._log.notice and not self._log_announced:
                self._log_announced = True
                notices.append(self._log.notice)
            self._info = info = replace(info, notices=tuple(notices))
        return info

    def _may_be_safer(self, child: Child) -> bool:
        return self._config.extra_bufts and crash.is_illegal_instruction(child.returncode)

    def _prove(self) -> None:
        """The safer settings got past the point where the others died: that is the verdict."""
        self._doubtful = False
        quirks.remember_plain_buffers(self._state_dir)

    def _death(self, child: Child, when: str) -> EngineError:
        """Why a call got no reply. After an illegal instruction the next start uses the safer settings."""
        if self._child is not child:
            return EngineError("The engine was closed.")
        if crash.is_illegal_instruction(child.returncode):
            if self._safer or not self._config.extra_bufts:
                return EngineDied(crash.wrong_build(child.returncode, when))
            self._safer = self._doubtful = True
            return EngineDied(f"{child.death(when)} The next start uses safer settings.")
        return EngineDied(child.death(when))

    def _spoken(self) -> None:
        """An answer's first token came: the settings in use decode."""
        if self._doubtful:
            self._prove()

    def _rescue(self, child: Child, call: Call, request: Request, spoken: bool) -> Child:
        """The child died during an answer: loads again with safer settings and asks again when that can help, which it
        cannot once text was shown. Returns the child that answers now; raises the death otherwise."""
        with self._lock:
            hopeless = self._child is not child or self._loading or self._safer or not self._may_be_safer(child)
            if not spoken and not hopeless:
                self._loading, self._load_cancelled = True, False
                self._safer = self._doubtful = True
                call.ended = False
            epoch = self._epoch
        if spoken or hopeless:
            raise self._death(child, "in the middle of an answer" if spoken else "before the first token")
        try:
            self._load(None, epoch)
            with self._lock:
                self._refuse_if_stopped(epoch)
                fresh = self._child
                assert fresh is not None
                fresh.expect(call)
                fresh.send(wire.Generate(call.number, request))
            # A cancel meanwhile may have gone to the process that died.
            if call.cancelled:
                fresh.send(wire.Cancel(call.number))
            return fresh
        except BaseException:
            call.ended = True
            self._close_log()
            raise
        finally:
            self._loading = False
