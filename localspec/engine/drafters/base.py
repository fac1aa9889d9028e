"""What every drafter is: a small life-cycle. The loop counts and times; a drafter only drafts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from localspec.engine.events import DrafterName

if TYPE_CHECKING:
    from localspec.engine.distribution import Distribution


Ground = Literal["match", "resumed", "replaced"]
"""What a draft rests on: the text before it stood there before; a copy goes on behind an edit, at a token that stands
there too; the token just written replaces the one that stood there."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens, in order. `probs[i]` is the distribution `tokens[i]` was drawn from; `probs` None means that
    every token was proposed with certainty (argmax, lookup). `match_length` is lookup's matched context, in tokens;
    `ground` says what the guess rests on: for lookup see `lookup.py`."""

    tokens: Sequence[int]
    probs: Sequence["Distribution"] | None = None
    match_length: int = 0
    ground: Ground = "match"


class Drafter(Protocol):
    """Proposes tokens for one conversation at a time."""

    name: DrafterName

    def begin(self, tokens: Sequence[int]) -> None:
        """A new answer starts after `tokens` (the whole prompt); what is shared with the last one may be kept."""

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        """Propose at most `limit` tokens to follow `history` (prompt and all emitted tokens)."""

    def accept(self, tokens: Sequence[int]) -> None:
        """These tokens were emitted, whoever proposed them."""

    def close(self) -> None:
        """Give back native memory; the drafter is not used again."""
