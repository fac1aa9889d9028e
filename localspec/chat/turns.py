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


@dataclass(frozen=True, slots=True)
class TokenCycle:
    """What the cycle of a token did: `kept` and `refused` are texts of the proposal, `ended_by` the token that came
    after the kept ones (the target's own choice), None when the run was cut before it."""

    cycle: Cycle
    kept: str
    refused: str
    ended_by: Part | None


def cycle_of(turn: Turn, index: int) -> TokenCycle | None:
    """The cycle of the answer's token number `index`; None for the first token, which comes from the prompt's pass."""
    number = turn.parts[index].token.cycle
    cycle = next((cycle for cycle in _near(turn.cycles, number) if cycle.cycle == number), None)
    if number == 0 or cycle is None:
        return None
    first = last = index
    while first > 0 and turn.parts[first - 1].token.cycle == number:
        first -= 1
    while last + 1 < len(turn.parts) and turn.parts[last + 1].token.cycle == number:
        last += 1
    run = turn.parts[first : last + 1]
    kept = "".join(part.token.text for part in run if part.token.kind == "accepted")
    ended_by = run[-1] if run[-1].token.kind != "accepted" else None
    # Tokens held back as an unfinished character or stop string have their text in a later one.
    refused = cycle.proposed_text.removeprefix(kept) if cycle.accepted < cycle.proposed else ""
    return TokenCycle(cycle, kept, refused, ended_by)


def _near(cycles: list[Cycle], number: int) -> list[Cycle]:
    """The place where cycle `number` stands unless some are missing: there alone, else all of them."""
    if 0 < number <= len(cycles) and cycles[number - 1].cycle == number:
        return cycles[number - 1 : number]
    return cycles
