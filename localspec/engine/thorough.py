"""The thorough calibration: the curve at a short and at a long context, with flash attention on and off.

Flash attention is fixed when a context is made, so both kinds get a context of their own, small beside the live one,
which is not touched. They take turns pass by pass: what slows the machine meanwhile slows both.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log
from statistics import fmean, median

import psutil

from localspec.engine import machine
from localspec.engine.calibrate import (
    COPIED,
    GROUPS,
    PREFIX,
    RARE,
    Calibration,
    draft_is_copy,
    filler,
    measure,
    measure_draft,
    read_up_to,
    time_pass,
)
from localspec.engine.context import Aborted, Context
from localspec.engine.cost_report import CostReport, FlashTime
from localspec.engine.costs import Costs
from localspec.engine.encoder_context import open_context
from localspec.engine.errors import DecodeError, EngineError, LoadError
from localspec.engine.llama import AbortFlag
from localspec.engine.load import Loaded
from localspec.engine.requests import EngineConfig, FlashAttention

LONG = 1024
"""Tokens of the long context: what a chat with a file in it has. Less where the model or the time has no more."""

COMPARED = (1, 4, 16)
"""Widths that the two kinds of flash attention are compared at."""

READING_SHARE = 0.45
"""Of the time, what may be gone when the long context is read: a slow machine gets a shorter one."""

LONG_SHARE = 0.75
"""Of the time, what may be gone before the rest of the short context's widths has its turn."""

SHORTEST_LONG = 256
"""Tokens from which a context is long enough to tell the kinds apart."""

TURNS = 5
"""Passes of a width that each kind makes at a context. All turns must agree: by chance they do in one case of 16."""

CLEAR = 0.03
"""A difference between the kinds that is worth a verdict: 3 %."""

BUSY = 0.75
"""Share of the cores that others may use before the numbers are called rough: the system's load just before."""

MEMORY_RESERVE = 512 << 20
"""Bytes that stay free beside the extra contexts: their compute buffers, and the person's other programs."""

Progress = Callable[[float], None]


@dataclass(slots=True)
class _Kind:
    """One kind of flash attention: its context, what was learnt with it, and what it took by width and context."""

    flash: FlashAttention
    context: Context
    costs: Costs
    took: dict[tuple[int, int], list[float]] = field(default_factory=dict)


def calibrate(
    config: EngineConfig, loaded: Loaded, known: Calibration, abort: AbortFlag, seconds: float, progress: Progress
) -> CostReport:
    """Measure for at most about `seconds`, telling the fraction done; keeps and reports what was found so far when
    `abort` is set. The report is of the kind that is faster. Raises `EngineError` when nothing can be measured."""
    if loaded.target.depth.kind == "none":
        raise EngineError(
            "this model's cache cannot be cut back, so it runs without drafting and has no curve to measure"
        )
    return _Run(config, loaded, known, abort, seconds, progress).report()


class _Run:
    def __init__(
        self,
        config: EngineConfig,
        loaded: Loaded,
        known: Calibration,
        abort: AbortFlag,
        seconds: float,
        progress: Progress,
    ) -> None:
        self._config, self._loaded, self._known, self._abort = config, loaded, known, abort
        self._begun = time.monotonic()
        self._seconds, self._progress = seconds, progress
        self._notes: list[str] = []
        self._faster: FlashAttention | None = None
        self._cuts = loaded.target.depth.kind == "unlimited"

    def report(self) -> CostReport:
        load, cores = psutil.getloadavg()[0], machine.usable_cores()
        if load > BUSY * cores:
            self._notes.append(
                f"Other programs kept the processor busy (load {load:.0f} on {cores} cores): the numbers are rough. "
                "Calibrate again when it is quiet."
            )
        if draft_is_copy(self._config, self._loaded):
            self._notes.append(COPIED)
        kinds = self._kinds()
        best = kinds[0]
        try:
            best = self._compare(kinds)
            self._complete(best)
        except Aborted:
            self._notes.append("Stopped early: what was measured until then is kept.")
        except DecodeError as error:
            self._notes.append(f"A pass failed ({error}): what was measured until then is kept.")
        finally:
            for kind in kinds:
                kind.context.close()
                self._known.learn(kind.costs, kind.flash)
        if self._faster is not None:
            self._known.store.keep_faster_flash(self._known.flash_key(), self._faster)
        report = best.costs.report(self._loaded.info.context, best.flash, draft=self._loaded.draft is not None)
        return replace(report, flash_times=_times(kinds), faster=self._faster, notes=tuple(self._notes))

    # -- the steps ---------------------------------------------------------------------------------------------------

    def _compare(self, kinds: list[_Kind]) -> _Kind:
        """Both kinds at both contexts; returns the faster one."""
        length = 0
        if self._cuts:
            for kind in kinds:
                read_up_to(kind.context, _short(kind.context, self._widest), self._never)
            self._take_turns(kinds)
            length = self._read_long(kinds)
        else:
            self._notes.append("This model's cache cannot be cut back to any point: only short passes were measured.")
        if length >= SHORTEST_LONG or not self._cuts:
            self._take_turns(kinds)
        if len(kinds) < 2:
            return kinds[0]
        on, off = kinds
        dearer, agreed = _difference(on, off)
        if length < SHORTEST_LONG:
            self._notes.append("No long context was read, so which kind of flash attention is faster stays open.")
        elif abs(dearer) < CLEAR:
            self._notes.append("Flash attention on and off take the same time here.")
        elif not agreed:
            self._notes.append("Now flash attention on was faster, now off: which one is stays open.")
        else:
            self._faster = "off" if dearer > 0 else "on"
        usual = self._loaded.info.flash_attn
        best = self._faster or (usual if usual in ("on", "off") else "on")
        if self._config.flash_attn in ("on", "off"):
            # A person's own choice stands; the curve is wanted for it.
            best = self._config.flash_attn
        return next(kind for kind in kinds if kind.flash == best)

    def _read_long(self, kinds: list[_Kind]) -> int:
        """Fill the contexts as far as the time allows; returns how long they are."""
        most = min(kind.context.size for kind in kinds) - self._widest
        length = min(PREFIX, most)
        while length < most and not self._gone(READING_SHARE):
            length = min(length + 128, most)
            for kind in kinds:
                read_up_to(kind.context, length, self._never, chunk=128)
        return length

    def _take_turns(self, kinds: list[_Kind]) -> None:
        for _ in range(TURNS):
            for width in COMPARED:
                for kind in kinds:
                    self._tell()
                    held = len(kind.context.tokens)
                    tokens = filler(kind.context, self._widest)[:width]
                    seconds = time_pass(kind.context, tokens, width)
                    kind.took.setdefault((width, held), []).append(seconds * 1000)
                    kind.costs.learn_pass(held, width, seconds, time.perf_counter())

    def _complete(self, best: _Kind) -> None:
        """All widths for the kind that will be used: at the long context, then at the short one; the draft model."""
        long = len(best.context.tokens)
        if long >= SHORTEST_LONG:
            measure(best.context, best.costs, lambda: self._gone(LONG_SHARE))
        short = _short(best.context, self._widest) if self._cuts else 0
        if best.context.truncate(short) < short:
            read_up_to(best.context, short, self._never)
        self._draft(best, long)
        measure(best.context, best.costs, lambda: self._gone(1.0), (*GROUPS, RARE))
        self._progress(1.0)

    def _draft(self, best: _Kind, long: int) -> None:
        draft = self._loaded.draft
        if draft is None or not self._cuts or draft.depth.kind != "unlimited":
            return
        options = replace(draft.options, context=best.context.options.context, flash_attn=best.flash)
        context = draft.alike(options, self._abort)
        try:
            for length in (_short(best.context, self._widest), long):
                if self._gone(0.9) or not read_up_to(context, length, lambda: self._gone(0.9), chunk=128):
                    return
                measure_draft(context, best.costs, lambda: self._gone(1.0))
        finally:
            context.close()

    # -- help --------------------------------------------------------------------------------------------------------

    def _kinds(self) -> list[_Kind]:
        """Both kinds where memory and the cache's number type allow, else the one in force."""
        target, info = self._loaded.target, self._loaded.info
        usual: FlashAttention = info.flash_attn  # type: ignore[assignment]
        wanted: list[FlashAttention] = ["on", "off"]
        if self._config.kv_type not in ("f32", "f16", "bf16"):
            self._notes.append(f"A {self._config.kv_type} cache needs flash attention: there is nothing to compare.")
            wanted = [usual]
        room = max(SHORTEST_LONG, min(LONG, (target.model.train_context or LONG) - self._widest))
        size = min(room, target.size) + self._widest
        per_token = target.model.kv_bytes_per_token(self._config.kv_type)
        if len(wanted) > 1 and machine.free_memory() < MEMORY_RESERVE + 2 * size * per_token:
            self._notes.append("There is not enough free memory to compare the kinds of flash attention.")
            wanted = [usual]
        kinds: list[_Kind] = []
        for flash in wanted:
            options = replace(target.options, context=size, flash_attn=flash)
            try:
                context = open_context(target.model, options, self._abort)
            except LoadError as error:
                self._notes.append(f"Flash attention {flash} cannot be used with this model ({error}).")
                continue
            context.depth = target.depth
            kinds.append(_Kind(flash, context, self._known.fresh(flash)))
        if not kinds:
            raise EngineError("no context to measure in could be made")
        return kinds

    @property
    def _widest(self) -> int:
        return self._loaded.target.options.outputs

    def _gone(self, share: float) -> bool:
        """So much of the time is over."""
        self._tell()
        return time.monotonic() - self._begun >= share * self._seconds

    def _tell(self) -> None:
        if self._abort.is_set:
            raise Aborted("cancelled")
        self._progress(min(1.0, (time.monotonic() - self._begun) / self._seconds))

    def _never(self) -> bool:
        self._tell()
        return False


def _short(context: Context, widest: int) -> int:
    """The length of the short context: `PREFIX`, less where the widest pass would find no room behind it."""
    return min(PREFIX, context.size - widest)


def _difference(on: _Kind, off: _Kind) -> tuple[float, bool]:
    """How much dearer passes are with flash attention on (a logarithm, over all cells), and whether each turn, taken
    alone, says that the same kind is the dearer one."""
    cells = [cell for cell in on.took if cell in off.took]
    turns = [fmean(log(on.took[cell][i] / off.took[cell][i]) for cell in cells) for i in range(TURNS)]
    medians = fmean(log(median(on.took[cell]) / median(off.took[cell])) for cell in cells)
    return medians, all(turn > 0 for turn in turns) or all(turn < 0 for turn in turns)


def _times(kinds: list[_Kind]) -> tuple[FlashTime, ...]:
    if len(kinds) < 2:
        return ()
    on, off = kinds
    cells = sorted((context, width) for width, context in on.took if (width, context) in off.took)
    return tuple(FlashTime(w, c, median(on.took[w, c]), median(off.took[w, c])) for c, w in cells)
