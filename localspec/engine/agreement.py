"""How far the library's passes agree to the bit, whatever their width: found by trying, for no table holds everywhere.

A pass of several tokens may run through other kernels than one of a single token, with other rounding: then a near tie
can fall either way, and a text depends on how its tokens shared passes. Kernels go by width, build, flash attention and
length of the context, so widths are tried at a short context and at a long one, each against single tokens.
"""

import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Aborted, Context
from localspec.engine.errors import DecodeError
from localspec.engine.llama import start_library
from localspec.engine.memo import Memo
from localspec.engine.requests import EngineConfig

WIDEST = 16
"""Tokens of the widest pass that is tried: longer drafts are rare, and each width costs a pass."""

SHORT, LONG = 8, 576
"""Tokens of context: flash attention has a way of its own for single tokens from 512 on."""

SECONDS = 10.0
"""What trying may take, once for a model here; widths not come to are taken as not agreeing."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Passes of 1 to `widths` tokens give the same logits to the last bit; `prompt`: those that read a prompt too."""

    widths: int = 1
    prompt: bool = False

    def holds(self, widest: int, reused: int) -> bool:
        """Whether an answer comes out the same to the bit: its passes have at most `widest` tokens, and `reused` tokens
        of its prompt were read in earlier ones."""
        return widest <= self.widths and (reused == 0 or self.prompt)


class Agreements:
    """The agreement of one loaded target, tried when it is first wanted and remembered for file, settings and build."""

    def __init__(self, config: EngineConfig, gpu_layers: int, target: Context, chunk: int) -> None:
        self._target, self._chunk = target, chunk
        self._memo = Memo(Path(config.cache_dir) / "agreement.json" if config.cache_dir else None)
        file, options = Path(target.model.path), target.options
        facts = (
            start_library(), file.name, file.stat().st_size, file.stat().st_mtime_ns, options.flash_attn,
            options.threads, config.kv_type, gpu_layers, config.extra_bufts, options.batch, options.outputs,
            min(target.size, LONG + WIDEST), chunk,
        )  # fmt: skip
        self._key = sha256(repr(facts).encode()).hexdigest()[:24]
        self.known = self._remembered()

    def find(self) -> Agreement:
        """What is known, else what a try says, which clears the target. Raises `Aborted`."""
        if self.known is None:
            self.known = measured(self._target, self._chunk)
            self._memo.put(self._key, [self.known.widths, self.known.prompt])
        return self.known

    def at_hand(self, *, promised: bool) -> Agreement:
        """What is known for an answer; a try, which clears the target, only where the same text is `promised`."""
        if promised and self.known is None:
            try:
                return self.find()
            except Aborted:
                # The answer will end at its first pass.
                return Agreement()
        return self.known or Agreement()

    def _remembered(self) -> Agreement | None:
        known = self._memo.get(self._key)
        if isinstance(known, list) and len(known) == 2 and isinstance(known[0], int):
            return Agreement(known[0], bool(known[1]))
        return None


def measured(context: Context, chunk: int, seconds: float = SECONDS) -> Agreement:
    """Try the widths; `chunk` is the tokens of a pass that reads a prompt. Clears the context, before and after.

    A context that cannot be cut back anywhere is not tried: its passes are shaped by its rollbacks too. An encoder
    reads a text in the same pass whenever it does.
    """
    widest = min(WIDEST, context.options.outputs, context.options.batch)
    if context.depth.kind != "unlimited" or context.size < SHORT + 2 * widest or widest < 2:
        return Agreement()
    deadline = time.monotonic() + seconds
    start = min(LONG, context.size - widest)
    chunk = min(chunk, context.options.batch)
    context.clear()
    try:
        context.decode(_tokens(context, 0, SHORT), 0)
        widths = _agreeing(context, SHORT, widest, deadline)
        if widths < 2:
            return Agreement()
        context.clear()
        if context.encodes:
            context.decode(_tokens(context, 0, start - widest), 0)
            return Agreement(_agreeing(context, start - widest, widths, deadline), True)
        rows = _read(context, start, chunk, widest, deadline)
        if rows is None:
            return Agreement()
        context.truncate(start - len(rows))
        singly = [row for at in range(start - len(rows), start) for row in _decoded(context, at, 1)]
        reads_alike = all(map(np.array_equal, rows, singly))
        widths = _agreeing(context, start, widths, deadline)
        return Agreement(widths, reads_alike and widths == WIDEST)
    except DecodeError:
        return Agreement()
    finally:
        context.clear()


def _agreeing(context: Context, start: int, widest: int, deadline: float) -> int:
    """The largest n so that passes of 2 to n tokens behind the first `start` give what single tokens give."""
    agreeing = 1
    # Two tokens tell most disagreements, before the price of all single tokens is paid.
    for reach in sorted({min(2, widest), widest}):
        context.truncate(start)
        singly = [row for at in range(start, start + reach) for row in _decoded(context, at, 1)]
        for width in range(agreeing + 1, reach + 1):
            if time.monotonic() > deadline or context.truncate(start) != start:
                return agreeing
            if not all(map(np.array_equal, _decoded(context, start, width), singly)):
                return agreeing
            agreeing = width
    return agreeing


def _read(context: Context, length: int, chunk: int, rows: int, deadline: float) -> NDArray[np.float32] | None:
    """Read `length` tokens as a prompt; the last pass is a whole chunk where that fits. Its last rows, at most `rows`;
    None when time is up."""
    first = length % chunk or min(chunk, length)
    ends = [first, *range(first + chunk, length + 1, chunk)]
    found = np.empty((0, 0), np.float32)
    at = 0
    for end in ends:
        if time.monotonic() > deadline:
            return None
        found = context.decode(_tokens(context, at, end), min(rows, end - at))
        at = end
    return found.copy()


def _decoded(context: Context, start: int, width: int) -> NDArray[np.float32]:
    return context.decode(_tokens(context, start, start + width), width).copy()


def _tokens(context: Context, start: int, end: int) -> list[int]:
    """Ordinary tokens in no order, the same for each place."""
    low, high = context.model.vocab_size // 4, context.model.vocab_size
    return [low + (7919 * at + 104729) % (high - low) for at in range(start, end)]
