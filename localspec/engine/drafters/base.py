"""What every drafter is: a small life-cycle. The loop counts and times; a drafter only drafts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from localspec.engine.drafters.joints import Joint
from localspec.engine.events import DrafterName

if TYPE_CHECKING:
    from localspec.engine.distribution import Distribution


Ground = Literal[
    "match", "resumed", "replaced", "renamed", "forced", "cut", "opening", "piece", "pause", "closing"
]  # fmt: skip
"""What a token of a draft rests on: the text before it stood there before; a copy goes on behind an edit, at a token
that stands there too; the token just written replaces the one that stood there; an edit made once is made again.

Under a grammar (`woven.py`): no other text may come; that too, and a token was copied that writes it; the first token
of a stretch that is free; a letter or digit copied from the prompt inside one, or something else; one that ends it.
"""


class Place(NamedTuple):
    """What speaks for one token of a lookup draft.

    `copied` tokens right before it (draft tokens counted) stand right before the place it is copied from. Of `seen`
    earlier places where the same text stood, `same` went on like this. `own`: it is copied from the model's own words.
    `joint` is how it joins on to the token before it.
    Of a closing token `copied` is 0 where a copy would go on with a letter, 2 where it would pause and 1 where there
    is none; `seen` earlier stretches were as long, and `same` of them ended here.
    """

    copied: int
    seen: int = 1
    same: int = 1
    ground: Ground = "match"
    own: bool = False
    joint: Joint = "unknown"


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens, in order. `probs[i]` is the distribution `tokens[i]` was drawn from; `probs` None means that
    every token was proposed with certainty (argmax, lookup). `match_length` is lookup's matched context, in tokens;
    `ground` says what the guess rests on, `places[i]` what speaks for `tokens[i]`, and `positions[i]` is the place in
    the indexed text it was copied from, -1 for none (see `lookup.py`). `tops[i]` is the largest probability a draft
    model saw before it drew `tokens[i]`; it made `passes`, one more than there are tokens where the last one's
    distribution was looked at and not drawn from."""

    tokens: Sequence[int]
    probs: Sequence["Distribution"] | None = None
    match_length: int = 0
    ground: Ground = "match"
    places: Sequence[Place] = field(default=(), compare=False)
    positions: Sequence[int] = field(default=(), compare=False)
    tops: Sequence[float] = field(default=(), compare=False)
    passes: int = field(default=0, compare=False)

    def cut(self, length: int) -> "Draft":
        """Its first `length` tokens. Only for a draft whose tokens were not drawn: lookup's."""
        return replace(
            self, tokens=self.tokens[:length], places=self.places[:length], positions=self.positions[:length]
        )


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
