"""Recorded rows: what a model says of the next token at many places of one text, read in wide passes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context, stretches
from localspec.engine.prompt import common_prefix

Row = NDArray[np.float32]

READ = 256
"""Tokens of a pass that is only read."""


def recorded(context: Context, tokens: Sequence[int], start: int) -> Iterator[Row]:
    """The logits after `tokens[: i + 1]`, for each i from `start` to the last. Shape (vocabulary,), float32.

    An encoder reads all of them first, and the decoder says them. Only one pass's rows are held, for the rows of a text
    would take gigabytes. The context is cleared before. Raises `Aborted` and `DecodeError`.
    """
    context.clear()
    if context.encodes:
        context.decode(tokens, 0)
    bring(context, [*context.text, *tokens[:start]], len(context.text))
    width = min(context.options.outputs, context.options.batch)
    for at in range(start, len(tokens), width):
        piece = tokens[at : at + width]
        yield from context.decode(piece, len(piece)).copy()


def bring(context: Context, tokens: Sequence[int], text: int = 0) -> None:
    """Let the context hold `tokens`, of which an encoder reads the first `text`. Raises as `recorded`."""
    kept = context.truncate(common_prefix(context.tokens, tokens))
    for start, end in stretches(kept, len(tokens), min(READ, context.options.batch), text):
        context.decode(tokens[start:end], 0)
