"""Whether a chat still fits the context, and what has to go when it does not. Counting is the caller's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.chat.turns import Turn

ROOM = 256
"""Tokens an answer should find free when nothing else is asked for: shorter answers are cut in the middle too often."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`dropped` messages at the start of the chat (after the system text) stay out of the prompt, which then has
    `tokens`; `too_long_by` is how many tokens too many the rest has when even that is not enough."""

    context: int
    tokens: int
    dropped: int = 0
    dropped_tokens: int = 0
    too_long_by: int = 0

    def words(self) -> str:
        """What will happen, in a sentence; "" when everything fits."""
        if self.too_long_by:
            return (
                f"This is {self.too_long_by:,} tokens too long for the context of {self.context:,}: shorten it, or "
                "raise the context in the settings."
            )
        if self.dropped:
            return (
                f"The chat has outgrown the context of {self.context:,} tokens: its oldest {self.dropped} messages "
                f"({self.dropped_tokens:,} tokens) will not be sent."
            )
        return ""


def room_wanted(context: int, max_tokens: int | None) -> int:
    """Tokens to keep free for the answer: what is asked for, but never more than a quarter of the context."""
    return max(1, min(max_tokens or ROOM, context // 4))


def fit(turns: Sequence[Turn], count: Callable[[int], int], context: int, room: int) -> Budget:
    """What of `turns` (the newest last, a question) goes into a prompt for a context of so many tokens.

    `count(dropped)` gives the tokens of the prompt without the first `dropped` turns; it falls as `dropped` grows.
    Whole exchanges are dropped, so that a question never loses its answer; the newest question always stays.
    """
    whole = count(0)
    if whole + room <= context:
        return Budget(context, whole)
    # A prompt begins with a question: only before one can be cut.
    cuts = [at for at, turn in enumerate(turns) if turn.role == "user" and at > 0]
    # The fewest dropped turns that are enough, by halving: each count is a trip to the engine.
    low, high = 0, len(cuts)
    tokens: dict[int, int] = {}
    while low < high:
        middle = (low + high) // 2
        tokens[middle] = count(cuts[middle])
        if tokens[middle] + room <= context:
            high = middle
        else:
            low = middle + 1
    if low < len(cuts):
        return Budget(context, tokens[low], cuts[low], whole - tokens[low])
    newest = tokens.get(len(cuts) - 1, whole) if cuts else whole
    if newest < context:
        # Less room than wanted, but an answer can begin.
        dropped = cuts[-1] if cuts else 0
        return Budget(context, newest, dropped, whole - newest)
    return Budget(context, newest, too_long_by=newest + 1 - context)
