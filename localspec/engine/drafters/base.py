"""What every drafter is: a small life-cycle. The loop counts and times; a drafter only drafts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from localspec.engine.events import DrafterName

if TYPE_CHECKING:
    from localspec.engine.distribution import Distribution


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens, in order. `probs[i]` is the distribution `tokens[i]` was drawn from; `probs` None means that
    every token was proposed with certainty (argmax, lookup). `match_length` is lookup's matched context, in tokens."""

    tokens: Sequence[int]
    probs: Sequence["Distribution"] | None = None
    match_length: int = 0


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
