"""Where spare compute ends: passes of many sequences, plain and with drafts, timed in a process of their own.

A pass costs little more when it is wider as long as the processor waits for memory; speculation spends that spare
compute on one sequence, a busy server on many. With B sequences in a pass, drafts of K tokens pay only when a cycle
emits more tokens than the pass of B x (1 + K) tokens costs passes of B.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from localspec import paths
from localspec.bench.theory import acceptance_for
from localspec.engine import crash, errors, quirks
from localspec.engine.child import native_environment
from localspec.engine.logfile import EngineLog, read_tail
from localspec.engine.requests import EngineConfig, EngineInfo

COMMAND = (sys.executable, "-u", "-P", "-m", "localspec.engine.parallel")
SEQUENCES = (1, 2, 4, 8, 16)
LENGTHS = (3, 7)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to time: every number of sequences, plain and with drafts of every length, `rounds` times each. `context` is
    what every sequence holds, in tokens."""

    config: EngineConfig
    sequences: tuple[int, ...] = SEQUENCES
    lengths: tuple[int, ...] = LENGTHS
    rounds: int = 7
    context: int = 256

    @property
    def passes(self) -> int:
        return len(self.sequences) * (1 + len(self.lengths)) * self.rounds

    def job(self) -> dict[str, Any]:
        """As `localspec.engine.parallel` reads it."""
        return asdict(self) | {"lengths": (0, *self.lengths)}


@dataclass(frozen=True, slots=True)
class Pass:
    """A timed pass: `length` 0 is plain; `round` counts from 0."""

    sequences: int
    length: int
    round: int
    ms: float


@dataclass(slots=True)
class Saturation:
    """What is known so far; `info` once the target is loaded."""

    info: EngineInfo | None = None
    passes: list[Pass] = field(default_factory=list)

    def ms(self, sequences: int, length: int) -> float | None:
        """The median pass in milliseconds; None before the first."""
        seen = [one.ms for one in self.passes if (one.sequences, one.length) == (sequences, length)]
        return median(seen) if seen else None

    def cycles_per_s(self, sequences: int, length: int) -> float | None:
        """Cycles of all sequences together; for plain decoding (length 0) these are tokens/s."""
        ms = self.ms(sequences, length)
        return sequences * 1000 / ms if ms else None

    def break_even(self, sequences: int, length: int) -> float | None:
        """Tokens a cycle must emit for drafts that cost nothing to be as fast as plain decoding: the pass relative to
        the plain one of the same round, the median over the rounds."""
        plain = {one.round: one.ms for one in self.passes if (one.sequences, one.length) == (sequences, 0)}
        ratios = [
            one.ms / plain[one.round]
            for one in self.passes
            if (one.sequences, one.length) == (sequences, length) and one.round in plain
        ]
        return median(ratios) if ratios else None

    def acceptance(self, sequences: int, length: int) -> float | None:
        """The share of judged tokens that must be accepted to break even; None when none is enough."""
        tokens = self.break_even(sequences, length)
        return None if tokens is None else acceptance_for(tokens, length)


class Measurement:
    """One run of the child. `stop`, from any thread or a signal handler, ends it; what was told stays."""

    def __init__(self, plan: Plan, *, state_dir: Path | None = None, command: Sequence[str] = COMMAND) -> None:
        self._plan = plan
        self._state_dir = state_dir or paths.state_dir()
        self._command = list(command)
        self._child: subprocess.Popen[str] | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        child = self._child
        if child is not None:
            with suppress(OSError):
                child.kill()

    def run(self, found: Saturation) -> Iterator[Pass]:
        """Measure into `found`; every pass also comes out. Ends early, without an error, once `stop` was called.

        A library build that dies of an illegal instruction with the repacked kernels is started once more without them.
        Raises the engine's errors.
        """
        plan = self._plan
        if plan.config.extra_bufts and quirks.needs_plain_buffers(self._state_dir):
            plan = replace(plan, config=replace(plan.config, extra_bufts=False))
        log = EngineLog(self._state_dir / paths.log_file().name)
        try:
            died = yield from self._child_run(plan, found, log)
            if died:
                # What came before the illegal instruction was measured with other kernels.
                found.passes.clear()
                plan = replace(plan, config=replace(plan.config, extra_bufts=False))
                yield from self._child_run(plan, found, log)
                if found.passes:
                    quirks.remember_plain_buffers(self._state_dir)
        finally:
            log.close()

    def _child_run(self, plan: Plan, found: Saturation, log: EngineLog) -> Generator[Pass, None, bool]:
        """One child from start to end. Returns (as a generator) whether safer settings may help."""
        offset = log.begin(f"parallel sequences of {Path(plan.config.target).name}")
        if self._stopped.is_set():
            return False
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.stream, text=True,
            encoding="utf-8", env=native_environment(), start_new_session=sys.platform != "win32",
        ) as child:  # fmt: skip
            self._child = child
            if self._stopped.is_set():
                child.kill()
            try:
                ended = yield from self._listen(child, plan, found)
            finally:
                child.kill()
        if ended or self._stopped.is_set():
            return False
        if crash.is_illegal_instruction(child.returncode) and plan.config.extra_bufts:
            return True
        lines = crash.native_lines(read_tail(log.path, offset))
        raise errors.EngineDied(crash.death(crash.cause(child.returncode), "while measuring", lines, log.path))

    def _listen(self, child: "subprocess.Popen[str]", plan: Plan, found: Saturation) -> Generator[Pass, None, bool]:
        """Reads the child's lines to their end; returns whether it said that it was done."""
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(OSError):
            child.stdin.write(json.dumps(plan.job()) + "\n")
            child.stdin.flush()
        for text in child.stdout:
            if not text.endswith("\n"):
                break  # cut off by the end of the process
            line = json.loads(text)
            match line.pop("type"):
                case "loaded":
                    found.info = EngineInfo(**line)
                case "pass":
                    one = Pass(**line)
                    found.passes.append(one)
                    yield one
                case "error":
                    kind = getattr(errors, line["kind"], errors.EngineError)
                    raise kind(line["message"])
                case "end":
                    return True
        child.wait()
        return False
