"""The tolerant oracle (known fault C2): is every emitted token one that plain decoding could have taken?

Batch width changes the rounding of a quantised model's logits, so two widths may take different tokens where two are
nearly equal. The emitted tokens are therefore fed to a plain context one at a time, as plain decoding would, and each
must be the argmax there or within a small logit gap of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context

GAP = 0.5
"""Logits by which an emitted token may lie below the argmax."""

FLIPPED = 0.05
"""Share of positions at which another token than the argmax may stand."""

KEPT = 64
"""Best tokens remembered of each row, so that answers with the same beginning are scored once."""

CHUNK = 256

Scores = NDArray[np.floating]
Adjust = Callable[[NDArray[np.float32], Sequence[int]], Scores]
"""From the logits after some tokens to what is the largest for the token that must follow: noise is added here."""


@dataclass(frozen=True)
class Score:
    """Of one answer: how far each token lies below the argmax, in logits (inf: not among the best `KEPT`)."""

    gaps: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.gaps, default=0.0)

    @property
    def flips(self) -> int:
        return sum(gap > 0 for gap in self.gaps)

    @property
    def accepted(self) -> bool:
        return self.worst <= GAP and self.flips <= FLIPPED * len(self.gaps)


class Oracle:
    """Scores answers with `context`, which belongs to it and decodes nothing but single tokens after the prompt."""

    def __init__(self, context: Context, adjust: Adjust = lambda logits, _: logits) -> None:
        self._context = context
        self._adjust = adjust
        self._rows: dict[tuple[int, ...], dict[int, float]] = {}

    def score(self, prompt: Sequence[int], emitted: Sequence[int]) -> Score:
        """Teacher-force `emitted` after `prompt`."""
        gaps = []
        for at, token in enumerate(emitted):
            gaps.append(self._gaps_after([*prompt, *emitted[:at]], len(prompt)).get(token, float("inf")))
        return Score(tuple(gaps))

    def _gaps_after(self, tokens: list[int], prompt: int) -> dict[int, float]:
        """Below the best logit by how much each of the best tokens after `tokens` lies."""
        key = tuple(tokens)
        if key not in self._rows:
            scores = self._adjust(self._row(tokens, prompt), tokens)
            kept = min(KEPT, len(scores))
            best = np.argpartition(-scores, kept - 1)[:kept]
            top = float(scores.max())
            self._rows[key] = {int(token): top - float(scores[token]) for token in best}
        return self._rows[key]

    def _row(self, tokens: list[int], prompt: int) -> NDArray[np.float32]:
        context = self._context
        known = context.tokens
        shared = next((i for i, (a, b) in enumerate(zip(known, tokens, strict=False)) if a != b), None)
        shared = min(len(known), len(tokens) - 1) if shared is None else min(shared, len(tokens) - 1)
        # A prompt is decoded whole or not at all, so that its chunks are the same every time.
        context.truncate(shared if shared >= prompt else 0)
        while len(context.tokens) < prompt:
            start = len(context.tokens)
            end = prompt if context.encodes else min(start + CHUNK, prompt)
            row: NDArray[np.float32] = context.decode(tokens[start:end])[-1]
        for token in tokens[max(prompt, len(context.tokens)) :]:
            row = context.decode([token])[-1]
        return row
