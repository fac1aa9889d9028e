"""A scripted engine with the face of `EngineClient`: no process, no model, the events a test wrote down.

A script is a list of steps, one script an answer:

- `Say("text", ...)`: one cycle. The first step of an answer is its first token, cycle 0.
- `Wait()`: the engine works until it is cancelled; a test may set `release` to let it go on.
- `Tell("...")`: a `Notice`. `Reading(done, total)`: a `Prefill`.
- an exception: it is raised there.

Counts, cycles and statistics follow from the steps by the rules of the real engine, so they add up.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from localspec.engine.cost_report import CostReport
from localspec.engine.errors import Busy, EngineError
from localspec.engine.events import (
    Cycle,
    DrafterName,
    Event,
    Finished,
    Kind,
    Notice,
    Prefill,
    Reason,
    Source,
    Started,
    Stats,
    Token,
)
from localspec.engine.proof.report import Proof, ProofJob
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment, Verify
from localspec.engine.rule_report import Place, RowCost, RuleJob, RuleRates

DEADLINE_S = 20.0
TOKEN_S = 0.01
"""Pretended seconds a cycle; tokens come without any delay."""

INFO = EngineInfo(
    target="target.gguf",
    draft=None,
    context=512,
    train_context=4096,
    threads=2,
    gpu_layers=0,
    draft_gpu_layers=0,
    flash_attn="off",
    vocab_size=1000,
    chat_template=None,
    special_tokens={"bos": "<s>", "eos": "</s>"},
    rollback="unlimited",
    has_encoder=False,
    mtp_layers=0,
    fim_tokens={},
    library="fake 1.0",
    load_s=0.1,
)


COSTS = CostReport(
    widths=tuple(range(1, 34)),
    contexts=(512, 4096),
    table=(tuple(1 + 0.1 * n for n in range(33)), tuple(1 + 0.2 * n for n in range(33))),
    plain_ms=(10.0, 12.0),
    samples=(3,) + (0,) * 32,
    measured=(512,),
    draft_token=0.4,
    draft_samples=3,
    momentary=1.0,
    flash="off",
)
"""Of a machine where a further token costs a tenth of the first, a fifth at a long context."""


@dataclass(frozen=True)
class Say:
    """A cycle: the accepted tokens (from `source`), then the one that ends it. `end` is its kind and text; None when
    the run was cut (stop, limit). `proposed` counts the draft; None: just what stands, and one more when the end is
    `resampled`."""

    accepted: Sequence[str] = ()
    end: tuple[Kind, str] | None = None
    drafter: DrafterName = "lookup"
    proposed: int | None = None
    control: bool = False
    source: Source | None = None
    expected: float | None = None
    gain: float | None = None


def plain(*texts: str) -> list[Say]:
    """Cycles with nothing drafted, one token each."""
    return [Say(end=("plain", text), drafter="none") for text in texts]


@dataclass
class Wait:
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Tell:
    text: str


@dataclass(frozen=True)
class Reading:
    done: int
    total: int
    reused: int = 0


Step = Say | Wait | Tell | Reading | Exception


@dataclass
class Script:
    """An answer: its steps, and why it ends. `plain_tokens_per_s` None: no baseline."""

    steps: Sequence[Step]
    reason: Reason = "end_of_text"
    prompt_tokens: int = 10
    prompt_reused: int = 0
    plain_tokens_per_s: float | None = 50.0


class FakeEngine:
    """Answers the scripts in turn; the last one again when they run out. `requests` keeps what was asked.

    `load` is called in `start` and may raise or wait; `loads_fail` maps a substring of the draft's or target's path, or
    what drafts ("mtp"), to the error that loading it raises. It is no process, so `pid` is None.
    """

    pid = None

    def __init__(
        self,
        config: EngineConfig,
        *,
        scripts: Sequence[Script] = (Script(plain("Hello", ".")),),
        info: EngineInfo = INFO,
        load: Callable[[], None] | None = None,
        loads_fail: dict[str, EngineError] | None = None,
        curve: Callable[[], CostReport] | None = None,
        proof: Callable[[], Proof] | None = None,
        log_file: Path | None = None,
        state_dir: Path | None = None,
        host_command: Sequence[str] | None = None,
    ) -> None:
        self.config = config
        self.requests: list[Request] = []
        self.jobs: list[RuleJob] = []
        self.proofs: list[ProofJob] = []
        self._proof = proof
        self.saved: list[Path] = []
        self.restored: list[Path] = []
        self._curve = curve
        self.report = COSTS
        self.calibrated: list[float] = []
        self.closed = False
        self.alive = False
        self._scripts = list(scripts)
        draft = Path(config.draft).name if config.draft else None
        drafter = config.drafter if draft or config.drafter == "mtp" else None
        self._info = replace(info, target=Path(config.target).name, draft=draft, drafter=drafter)
        self._load = load
        self._loads_fail = loads_fail or {}
        self._cancelled = threading.Event()
        self._answering = False

    def start(self, on_progress: Callable[[float], None] | None = None) -> EngineInfo:
        for part, error in self._loads_fail.items():
            if part in (self.config.draft or "") or part in self.config.target or part == self.config.drafter:
                raise error
        if on_progress:
            on_progress(0.5)
        if self._load:
            self._load()
        self.alive = True
        return self._info

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def generate(self, request: Request) -> Iterator[Event]:
        if self._answering:
            raise Busy("An answer is being made already: wait for its end, or cancel it first.")
        self._answering = True
        self._cancelled.clear()
        self.requests.append(request)
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        return self._events(request, script)

    def cancel(self) -> None:
        self._cancelled.set()

    def count(self, prompt: tuple[Segment, ...]) -> int:
        return sum(len(segment.text.split()) for segment in prompt)

    def tokens(self, prompt: tuple[Segment, ...]) -> tuple[int, ...]:
        return tuple(range(1000, 1000 + self.count(prompt)))

    def costs(self) -> CostReport:
        return self.report

    def calibrate(self, seconds: float, on_progress: Callable[[float], None] | None = None) -> CostReport:
        """From now on every width was measured, or the script's `curve` holds, which may also raise or interrupt."""
        self.calibrated.append(seconds)
        if on_progress:
            on_progress(0.5)
        if self._curve is not None:
            self.report = self._curve()
            return self.report
        self.report = replace(self.report, samples=(3,) * len(self.report.widths))
        return self.report

    def measure(self, job: RuleJob | ProofJob, on_progress: Callable[[float], None] | None = None) -> RuleRates | Proof:
        """As many places as the job asks for; of two drafted tokens one stands, a little less where they must agree.
        A proof is what the script's `proof` gives, which may also raise or interrupt."""
        self._cancelled.clear()
        if isinstance(job, ProofJob):
            self.proofs.append(job)
            assert self._proof is not None
            return self._proof()
        self.jobs.append(job)
        if on_progress:
            on_progress(0.5)
        halves = [sum(0.5**i for i in range(1, n + 1)) for n in range(1, job.longest + 1)]
        shares: dict[Verify, float] = {"rejection": 1.0, "block": 1.1, "coupled": 0.9}
        kept = {rule: tuple(share * one for one in halves) for rule, share in shares.items()}
        places = tuple(
            Place(10 + start, job.longest, kept, 0.5, 0.45, 0.4) for start in range(1, job.text_tokens, job.stride)
        )
        costs = (RowCost(1000, "top-k 40", 0.5, {"rejection": 0.1, "block": 0.2, "coupled": 0.3}),)
        if self._cancelled.is_set():
            return RuleRates(False, places[:1])
        return RuleRates(True, places, costs if job.timed else ())

    def save(self, path: Path) -> int:
        """Notes where, and leaves a file there; `restore` notes likewise, and takes up nothing."""
        self.saved.append(path)
        path.write_bytes(b"x")
        return 1

    def restore(self, path: Path) -> int:
        self.restored.append(path)
        return 0

    def restart(self, on_progress: Callable[[float], None] | None = None) -> EngineInfo:
        self.close()
        self.closed = False
        return self.start(on_progress)

    def close(self) -> None:
        self.alive = False
        self.closed = True
        self._cancelled.set()

    def _events(self, request: Request, script: Script) -> Iterator[Event]:
        info = self._info
        try:
            seed = request.seed if request.seed is not None else 1
            yield Started(
                info.target, info.draft, request.speculate, request.verify or "rejection", False, info.context,
                info.threads, seed, script.prompt_tokens,
                drafter=info.drafter,
            )  # fmt: skip
            yield from _Answer(script).events(self._cancelled)
        finally:
            self._answering = False


class _Answer:
    """One run of a script, counting as it goes."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._text: list[str] = []
        self._kinds: list[Kind] = []
        self._cycles: list[Cycle] = []

    def events(self, cancelled: threading.Event) -> Iterator[Event]:
        reason = self._script.reason
        for step in self._script.steps:
            if cancelled.is_set():
                break
            match step:
                case Say():
                    yield from self._say(step)
                case Tell(text):
                    yield Notice(text)
                case Reading(done, total, reused):
                    yield Prefill(done, total, reused)
                case Wait(reached, release):
                    reached.set()
                    deadline = time.monotonic() + DEADLINE_S
                    while not (cancelled.wait(0.01) or release.is_set()):
                        assert time.monotonic() < deadline, "nobody cancelled or released the fake engine"
                case _:
                    raise step
        if cancelled.is_set():
            reason = "cancelled"
        yield Finished(reason, "".join(self._text), self._stats())

    def _say(self, step: Say) -> Iterator[Event]:
        first = not self._kinds
        number = 0 if first else len(self._cycles) + 1
        texts: list[tuple[Kind, str]] = [("accepted", text) for text in step.accepted]
        texts += [step.end] if step.end else []
        for kind, text in texts:
            self._text.append(text)
            self._kinds.append(kind)
            drafter: DrafterName = "none" if kind == "plain" else step.drafter
            index = len(self._kinds)
            source = step.source if kind == "accepted" else None
            yield Token(index, text, kind, drafter, number, TOKEN_S * (number + 1), step.control, source)
        if first:
            assert texts == [("plain", texts[0][1])], "the first token of an answer comes from prefill: plain, alone"
            return
        rejected = step.end is not None and step.end[0] == "resampled"
        proposed = len(step.accepted) + rejected if step.proposed is None else step.proposed
        cycle = Cycle(
            cycle=number,
            drafter=step.drafter if proposed else "none",
            proposed=proposed,
            proposed_text="".join(step.accepted) + "?" * (proposed - len(step.accepted)),
            judged=len(step.accepted) + rejected,
            accepted=len(step.accepted),
            emitted=len(texts),
            draft_ms=1.0 if proposed else 0.0,
            verify_ms=TOKEN_S * 1000 - 1,
            expected=step.expected,
            gain=step.gain,
            source=step.source if proposed else None,
        )
        self._cycles.append(cycle)
        yield cycle

    def _stats(self) -> Stats:
        script, cycles, tokens = self._script, self._cycles, len(self._kinds)
        seconds = TOKEN_S * len(cycles)
        judged = sum(cycle.judged for cycle in cycles)
        speed = (tokens - 1) / seconds if cycles else None
        base = script.plain_tokens_per_s
        counts: dict[str, Any] = {kind: self._kinds.count(kind) for kind in ("accepted", "resampled", "bonus", "plain")}
        return Stats(
            prompt_tokens=script.prompt_tokens,
            prompt_reused=script.prompt_reused,
            ttft_s=TOKEN_S if tokens else None,
            tokens=tokens,
            decode_s=seconds,
            tokens_per_s=speed,
            itl_ms_p50=TOKEN_S * 1000 if cycles else None,
            itl_ms_p95=TOKEN_S * 1000 if cycles else None,
            plain_tokens_per_s=base,
            baseline="none" if base is None else "measured",
            speedup=None if base is None or speed is None else speed / base,
            cycles=len(cycles),
            proposed=sum(cycle.proposed for cycle in cycles),
            judged=judged,
            **counts,
            acceptance_rate=counts["accepted"] / judged if judged else None,
            tokens_per_cycle=(tokens - 1) / len(cycles) if cycles else None,
            draft_s=sum(cycle.draft_ms for cycle in cycles) / 1000,
            verify_s=sum(cycle.verify_ms for cycle in cycles) / 1000,
            overhead_s=0.0,
        )
