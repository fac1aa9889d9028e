"""How far a context can really be cut back, found by behaviour: the library's answer alone is not the truth.

The loop decodes a pass of 1 + K tokens, keeps some and removes the rest. The probe does that twice with identical
shapes and different removed tokens, then decodes the same continuation: when the removal worked, nothing of the removed
tokens is left and the logits are equal to the last bit; a state left behind, or a removal that does nothing, shows.
"""

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context, RollbackDepth
from localspec.engine.errors import DecodeError

PREFIX = 4
_GPU_NOISE = 1e-2
"""Logit difference allowed when a GPU computes: its reductions may run in another order each time."""


def probe_rollback(context: Context, *, exact: bool = True) -> RollbackDepth:
    """The rollback depth of an empty context, which is cleared again. `exact` off allows GPU noise.

    Costs a handful of short passes. A context too small to probe is judged by its architecture.
    """
    model = context.model
    width = 1 + (context.rollback_slots or 3)
    if context.size < PREFIX * (2 if context.encodes else 1) + 2 * width:
        return RollbackDepth("none" if model.is_recurrent else "unlimited")
    width = min(width, context.options.outputs, context.options.batch)
    tolerance = 0.0 if exact else _GPU_NOISE
    try:
        if _clean_after(context, width, removed=width + 2, tolerance=tolerance):
            # A sliding window that fits the prefix passes here; longer texts are judged at every cut.
            if model.sliding_window and not context.options.swa_full:
                return RollbackDepth("window", model.sliding_window)
            return RollbackDepth("unlimited")
        for depth in range(width - 1, 0, -1):
            if _clean_after(context, width, removed=depth, tolerance=tolerance):
                return RollbackDepth("last_pass", depth)
        return RollbackDepth("none")
    finally:
        context.clear()


def _clean_after(context: Context, width: int, *, removed: int, tolerance: float) -> bool:
    first, second = (_continue_after(context, width, removed, variant) for variant in (0, 1))
    return first is not None and second is not None and bool(np.abs(first - second).max() <= tolerance)


def _continue_after(context: Context, width: int, removed: int, variant: int) -> NDArray[np.float32] | None:
    """Logits of a fixed continuation after `removed` tokens, which depend on `variant`, were taken back."""
    ordinary = range(context.model.vocab_size // 4, context.model.vocab_size)
    keep = PREFIX + width - removed
    tokens = [ordinary[(7 * i + 3) % len(ordinary)] for i in range(PREFIX + width)]
    for i in range(keep, PREFIX + width):
        tokens[i] = ordinary[(7 * i + 3 + 5 * (variant + 1)) % len(ordinary)]
    context.clear()
    context.depth = RollbackDepth("unlimited")
    try:
        if context.encodes:
            # The decoder needs a text to attend to, and is what is cut back.
            context.decode(ordinary[:PREFIX], 0)
        behind = len(context.tokens)
        context.decode(tokens[:PREFIX], 0)
        context.decode(tokens[PREFIX:], width)
        if context.truncate(behind + keep) != behind + keep:
            return None
        continuation = [ordinary[(3 * i + 1) % len(ordinary)] for i in range(width)]
        return context.decode(continuation, width).copy()
    except DecodeError:
        return None
