"""Measuring the cost curve: a few passes while the engine has nothing else to do, and a thorough run when asked.

The quiet measuring uses the live contexts, at the length the conversation has, and cuts them back to what they held: no
answer can tell that it happened. It ends within one pass when somebody wants something. The thorough run has small
contexts of its own (`flash.py`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from localspec.engine.context import Aborted, Context
from localspec.engine.cost import WINDOW
from localspec.engine.cost_store import CostStore, fingerprint, flash_key
from localspec.engine.costs import CostReport, Costs
from localspec.engine.errors import DecodeError
from localspec.engine.llama import Model
from localspec.engine.load import Loaded
from localspec.engine.priors import Prior, prior_for
from localspec.engine.requests import EngineConfig, FlashAttention

GROUPS = ((4, 16), (8, 2, 32), (12, 3, 6, 24), (5, 10, 20, 28))
"""Widths in order of importance: the ends and the middle of what is drafted, then where the steps of the known kernels
lie, then what is between."""

RARE = (7, 14, 18, 22, 26, 30, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33)
"""What is left up to the pass of the longest draft: only the thorough run has the time."""

TIMES = 3
"""Passes of a width before the next group's turn, plain ones as often at the start: a median stands."""

BUDGET_S = 5.0
"""Quiet measuring an engine does in all."""

PREFIX = 64
"""Tokens read first when a context is empty: a plain pass over nothing is not what a cycle pays."""

TOO_SHORT_MS = 1.0
"""A plain pass below this is over before Python is: its answers take no time, and their cycles measure it anyway."""

DRAWN = 4
"""Tokens drawn by the draft model at a time: a usual draft."""

SAVE_S = 30.0
"""Seconds between two writes of what the answers taught; the end of the engine writes too."""

COPIED = "The draft model runs from a copy in Q4_0: this processor computes that faster than the file as it came."

Stop = Callable[[], bool]


def plan(
    count: Callable[[int], int],
    widest: int,
    groups: Sequence[Sequence[int]] = GROUPS,
    settled: Callable[[int], bool] = lambda width: True,
) -> Iterator[int]:
    """Widths of `groups` to measure next, up to `widest`, until all are known; `count` tells how often each was.

    Plain passes come between, so that none is further than one pass from another width's: the ratio is what counts.
    Those that are not `settled` then (a noisy machine) are measured on, up to as many samples as are kept.
    """
    for _ in range(TIMES - count(1)):
        yield 1
    for group in groups:
        for _ in range(TIMES):
            yield from _between_plain([width for width in group if width <= widest and count(width) < TIMES])
    for _ in range(WINDOW - TIMES):
        yield from _between_plain([w for group in groups for w in group if w <= widest and not settled(w)])


def _between_plain(widths: Sequence[int]) -> Iterator[int]:
    for place, width in enumerate(widths):
        if place % 2 == 0:
            yield 1
        yield width


def filler(context: Context, wanted: int) -> list[int]:
    """Tokens to pass through: the conversation's own last ones, or ordinary ones of all kinds.

    Which tokens they are matters to a mixture of experts only, and there it should be a text.
    """
    held = context.tokens[-wanted:]
    return held + ordinary(context.model, 0, wanted - len(held))


def ordinary(model: Model, start: int, count: int) -> list[int]:
    """`count` tokens from all over the vocabulary but its beginning, where control tokens often lie."""
    usual = range(model.vocab_size // 4, model.vocab_size)
    return [usual[(7919 * i + 3) % len(usual)] for i in range(start, start + count)]


def time_pass(context: Context, tokens: Sequence[int], rows: int) -> float:
    """Seconds of one pass, which is cut away again. Raises `Aborted` and `DecodeError`."""
    before, held = context.busy_s, len(context.tokens)
    context.decode(tokens, rows)
    seconds = context.busy_s - before
    context.truncate(held)
    return seconds


def measure(
    target: Context, costs: Costs, stop: Stop, groups: Sequence[Sequence[int]] = GROUPS, *, shortest_ms: float = 0.0
) -> bool:
    """Measure what `costs` lacks at the context's present length; returns whether all is known now that is worth it.

    Ends before the next pass once `stop` says so, and when plain passes turn out to be shorter than `shortest_ms`.
    Raises `Aborted` and `DecodeError`.
    """
    held = len(target.tokens)
    widest = min(target.options.outputs, target.options.batch, target.room)
    tokens = filler(target, max(1, widest))
    for width in plan(lambda w: costs.count(w, held), widest, groups, lambda w: costs.settled(w, held)):
        if stop():
            return False
        costs.learn_pass(held, width, time_pass(target, tokens[:width], width), time.perf_counter(), cycle=False)
        plain = costs.plain_ms(held)
        if plain is not None and plain < shortest_ms:
            return True
    return True


def measure_draft(draft: Context, costs: Costs, stop: Stop) -> bool:
    """Time the drawing of tokens by a draft model at its context's present length; returns whether it is known now."""
    held = len(draft.tokens)
    tokens = filler(draft, DRAWN)
    while costs.draft_count(held) < TIMES:
        if stop() or draft.room <= DRAWN:
            return False
        before = draft.busy_s
        try:
            drawn = draft.rehearse(tokens)
        finally:
            draft.truncate(held)
        costs.learn_draft(held, 1, drawn, draft.busy_s - before)
        if costs.plain_ms(held) is None:
            return False
    return True


def read_up_to(context: Context, length: int, stop: Stop, chunk: int = 32) -> bool:
    """Fill the context up to `length` tokens, or as far as `stop` allows; returns whether it is that long. Where an
    encoder reads the text, it is all text: answers are short beside it, and each pass attends to it."""
    if context.encodes and len(context.tokens) < length and not stop():
        context.clear()
        context.decode(ordinary(context.model, 0, length), 0)
    while len(context.tokens) < length and not stop():
        held = len(context.tokens)
        context.decode(ordinary(context.model, held, min(chunk, length - held, context.options.batch)), 0)
    return len(context.tokens) >= length


class Calibration:
    """What one engine knows of its costs: taken up from disk, measured while idle, learnt from answers, kept again."""

    def __init__(self, config: EngineConfig, loaded: Loaded) -> None:
        self._config, self._loaded = config, loaded
        self.store = CostStore(config.cache_dir)
        self.costs = self.take_up(loaded.info.flash_attn)
        self._spent = 0.0
        self._saved = time.monotonic()

    def prior(self, flash: str) -> Prior:
        info = self._loaded.info
        gpu = info.gpu_layers != 0
        return prior_for(info.library, flash=flash, gpu=gpu, extra_bufts=self._config.extra_bufts)

    def fresh(self, flash: str) -> Costs:
        """Costs with this kind of flash attention before anything was measured."""
        target, draft = self._loaded.target, self._loaded.draft
        smaller = draft.share_of(target) if draft else 1.0
        return Costs(smaller, self.prior(flash), self._config.drafter)

    def take_up(self, flash: str) -> Costs:
        """The costs with this kind of flash attention, as far as they were kept."""
        costs = self.fresh(flash)
        rows = self.store.read(self._key(flash))
        rows.pop(costs.drafter, None)
        if self._loaded.draft is not None:
            rows[costs.drafter] = self.store.read(self._pair_key(flash)).get(costs.drafter, [])
        costs.take_up(rows)
        return costs

    def keep(self, costs: Costs | None = None, flash: str | None = None) -> None:
        """Write the costs to disk; those of the engine unless others are named."""
        costs, flash = costs or self.costs, flash or self._loaded.info.flash_attn
        self._saved = time.monotonic()
        rows = costs.rows()
        drafts = rows.pop(costs.drafter)
        # The model's file may be gone meanwhile; then nobody will ask for its curve.
        with suppress(OSError):
            if any(rows.values()):
                self.store.write(self._key(flash), rows)
            if drafts and self._loaded.draft is not None:
                self.store.write(self._pair_key(flash), {costs.drafter: drafts})

    def learn(self, measured: Costs, flash: FlashAttention) -> None:
        """What was measured apart, with one kind of flash attention, replaces what was known of it, also on disk."""
        known = self.costs if flash == self._loaded.info.flash_attn else self.take_up(flash)
        known.take_up(measured.rows())
        self.keep(known, flash)

    def idle(self, stop: Stop) -> None:
        """Measure something of what is not known, until `stop` says that somebody waits. Changes nothing that an
        answer could notice."""
        if time.monotonic() - self._saved > SAVE_S:
            self.keep()
        target, draft = self._loaded.target, self._loaded.draft
        if self._spent >= BUDGET_S or not can_be_cut(target):
            return
        begun = time.perf_counter()
        ends = begun + BUDGET_S - self._spent

        def enough() -> bool:
            return stop() or time.perf_counter() > ends

        held, draft_held = len(target.tokens), len(draft.tokens) if draft else 0
        try:
            _lengthen(target, enough)
            measure(target, self.costs, enough, GROUPS[:1], shortest_ms=TOO_SHORT_MS)
            if self._matters():
                if draft is not None and can_be_cut(draft):
                    _lengthen(draft, enough)
                    measure_draft(draft, self.costs, enough)
                measure(target, self.costs, enough, shortest_ms=TOO_SHORT_MS)
            if not stop():
                self.keep()
        except (Aborted, DecodeError):
            # Somebody waits, or the context is at its end: what was measured so far stands.
            pass
        finally:
            target.truncate(held)
            if draft is not None:
                draft.truncate(draft_held)
            self._spent += time.perf_counter() - begun

    def _matters(self) -> bool:
        plain = self.costs.plain_ms(PREFIX)
        return plain is not None and plain >= TOO_SHORT_MS

    def report(self) -> CostReport:
        """What is known now, and why it may stay at that."""
        info = self._loaded.info
        report = self.costs.report(info.context, info.flash_attn, draft=self._loaded.draft is not None)
        return replace(report, notes=tuple(self._reasons()))

    def _reasons(self) -> Iterator[str]:
        kind = self._loaded.target.depth.kind
        if kind == "none":
            yield "This model's cache cannot be cut back: it runs without drafting, and passes are not measured."
        elif kind != "unlimited":
            yield "This model's cache cannot be cut back to any point: passes are measured before answers only."
        if draft_is_copy(self._config, self._loaded):
            yield COPIED
        plain = self.costs.plain_ms(PREFIX)
        if plain is not None and plain < TOO_SHORT_MS:
            yield f"A plain pass takes less than {TOO_SHORT_MS:g} ms: only answers teach what passes cost."

    def flash_key(self) -> str:
        return flash_key(self._config, self._loaded.info.threads, self._loaded.info.gpu_layers)

    def _key(self, flash: str) -> str:
        """Names the target's curve with this kind of flash attention."""
        info = self._loaded.info
        return fingerprint(self._config, self._config.target, info.threads, info.gpu_layers, flash)

    def _pair_key(self, flash: str) -> str:
        """Names what a draft token costs beside this target."""
        info, draft = self._loaded.info, self._loaded.draft
        assert draft is not None
        beside = f"{flash} {self._key(flash)}"
        return fingerprint(self._config, draft.model.path, info.threads, info.draft_gpu_layers, beside)


def draft_is_copy(config: EngineConfig, loaded: Loaded) -> bool:
    """Whether the draft model runs from the copy that `fast_draft.py` made."""
    return loaded.draft is not None and loaded.draft.model.path != config.draft


def can_be_cut(context: Context) -> bool:
    """Measuring leaves no trace: the context can be cut back to any point, or holds nothing and is cleared."""
    return context.depth.kind == "unlimited" or (context.depth.kind != "none" and not context.tokens)


def _lengthen(context: Context, stop: Stop) -> None:
    """Read something into an empty context; one that can only be cleared stays empty: it is cleared at each pass."""
    if not context.tokens and context.depth.kind == "unlimited":
        read_up_to(context, min(PREFIX, context.size // 2), stop)
