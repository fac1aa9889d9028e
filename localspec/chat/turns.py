"""A chat as it happened: turns in order, each answer with the provenance of its tokens."""

from dataclasses import dataclass, field

from localspec.chat.splitting import Part
from localspec.chat.templates import Message, Role
from localspec.engine.events import Cycle, Reason, Started, Stats


@dataclass(slots=True)
class Turn:
    """One message of a chat. `reason` None on an answer: it is being made, or was cut off by a crash (`broken` tells).

    `parts` are the answer's tokens with their text and thoughts; their joins are `text` and `thoughts`. `id` is the
    message's number in the history, None while it has none.
    """

    role: Role
    text: str = ""
    thoughts: str = ""
    parts: list[Part] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    started: Started | None = None
    reason: Reason | None = None
    stats: Stats | None = None
    broken: bool = False
    id: int | None = None

    @property
    def message(self) -> Message:
        """What of the turn goes into a prompt."""
        return Message(self.role, self.text, self.thoughts)

    @property
    def stopped(self) -> bool:
        """An answer that did not come to its own end."""
        return self.broken or self.reason in ("cancelled", "context_full", "max_tokens")
