"""Recorded answers replayed through the shipped lookup and controller, in virtual time.

A greedy answer does not depend on what is drafted. So its tokens, recorded once, tell for any cost curve and any
controller how many cycles it would have taken and what they would have cost, to the per mille and without a model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from localspec.engine.blocks import Vocabulary
from localspec.engine.controller import Drawing
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.events import MODEL_DRAFTERS, DrafterName, ModelDrafterName
from localspec.engine.requests import Speculate
from localspec.engine.strategy import Experience, Pricing, Proposal, Strategy

Relative = Callable[[int], float]
"""A pass by its width in tokens, in plain passes."""

LONGEST = 31


@dataclass(frozen=True, slots=True)
class Recording:
    """A greedy answer. `tokens` ends with the end token when the answer did, else at the number of tokens wanted.

    `guesses[i]` is a draft model's argmax where `tokens[i]` came, `tops[i]` the probability it gave it, and
    `confidence[i]` the target's largest there.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    guesses: Sequence[int] = ()
    tops: Sequence[float] = ()
    confidence: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One cycle: `spent` is its cost in plain passes."""

    drafter: DrafterName
    proposed: int
    accepted: int
    emitted: int
    spent: float


@dataclass(slots=True)
class Replayed:
    """The cycles of an answer; its first token comes from the prompt and is in none of them."""

    steps: list[Step] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(step.emitted for step in self.steps)

    @property
    def spent(self) -> float:
        return sum(step.spent for step in self.steps)

    @property
    def speedup(self) -> float:
        """Decoded tokens over plain passes."""
        return self.tokens / self.spent if self.spent else 1.0


class _Recorded:
    """A draft model that guesses what was recorded."""

    name: ModelDrafterName = "draft"

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._start = len(recording.prompt)
        self._read = 0
        self.passes = 0

    def begin(self, tokens: Sequence[int]) -> None:
        self._read = 0

    def prefill(self, tokens: Sequence[int]) -> None:
        self._read = len(tokens) - 1

    def behind(self, history: Sequence[int]) -> int:
        return len(history) - min(self._read, len(history) - 1)

    def draft(
        self, history: Sequence[int], limit: int, drawing: Drawing | None = None, sure: Callable[[float], float] = float
    ) -> Draft:
        known = self._recording
        at = len(history) - self._start
        self._read = len(history)
        self.passes = 1
        tokens: list[int] = []
        tops: list[float] = []
        while at < len(known.guesses) and len(tokens) < limit:
            if drawing is not None and not drawing.draw(sure(known.tops[at])):
                break
            tokens.append(known.guesses[at])
            tops.append(known.tops[at])
            at += 1
            if len(tokens) == limit or (drawing is not None and not drawing.go_on()):
                break
            self.passes += 1
        return Draft(tokens, tops=tops)


def replay(
    recording: Recording,
    costs: Pricing,
    mode: Speculate = "auto",
    fixed: int | None = None,
    experience: Experience | None = None,
    ends: frozenset[int] = frozenset(),
    longest: int = LONGEST,
    vocabulary: Vocabulary | None = None,
    forecast: int | None = None,
) -> Replayed:
    """The cycles in which `mode` makes the answer; texts are those of `vocabulary`, and at most `forecast` tokens were
    asked for. Raises nothing."""
    lookup = Lookup(ends=ends, vocabulary=vocabulary)
    model = _Recorded(recording) if recording.guesses else None
    strategy = Strategy(mode, fixed, costs, lookup, model, experience, forecast)
    history = list(recording.prompt)
    strategy.begin(history)
    answer = list(recording.tokens)
    history += answer[:1]
    lookup.accept(answer[:1])
    replayed = Replayed()
    now = 0.0
    while (at := len(history) - len(recording.prompt)) < len(answer):
        context = len(history)
        behind = model.behind(history) if model is not None else 0
        # The engine knows where the wanted number of tokens ends, but not where the text does.
        limit = longest if answer[-1] in ends else min(longest, len(answer) - at - 1)
        proposal = strategy.propose(history, limit, now)
        accepted = _agreeing(proposal.draft.tokens, answer[at:])
        emitted = answer[at : at + accepted + 1]
        spent = costs.relative(1 + len(proposal.draft.tokens), context)
        if model is not None and _asked(proposal):
            spent += model.passes * costs.draft_token(context) + costs.catching_up(behind, context)
        judged = min(len(proposal.draft.tokens), accepted + 1)
        if recording.confidence and strategy.listens:
            strategy.heard(recording.confidence[at + len(emitted) - 1])
        strategy.learn(proposal, judged, min(accepted, len(emitted)), emitted)
        history += emitted
        now += spent
        # The pass that only finds the end is outside the figures, as in the engine.
        shown = len(emitted) - (emitted[-1] in ends)
        if shown:
            replayed.steps.append(
                Step(proposal.drafter, len(proposal.draft.tokens), min(accepted, shown), shown, spent)
            )
    return replayed


def _asked(proposal: Proposal) -> bool:
    return proposal.drafter in MODEL_DRAFTERS or proposal.behind > 0


def bound(
    recording: Recording,
    relative: Relative,
    ends: frozenset[int] = frozenset(),
    longest: int = LONGEST,
    vocabulary: Vocabulary | None = None,
) -> float:
    """The speed-up of lookup's guesses on this text if every draft had the best length: by dynamic programming from the
    end of the answer, over how many of the right tokens at each place are drafted."""
    lookup = Lookup(ends=ends, vocabulary=vocabulary)
    lookup.begin(recording.prompt)
    answer = list(recording.tokens)
    right = [0] * len(answer)
    for at in range(1, len(answer)):
        lookup.accept(answer[at - 1 : at])
        right[at] = _agreeing(lookup.draft((), min(longest, len(answer) - at)).tokens, answer[at:])
    best = [0.0] * (len(answer) + longest + 2)
    for at in range(len(answer) - 1, 0, -1):
        best[at] = min(relative(1 + length) + best[at + length + 1] for length in range(right[at] + 1))
    return (len(answer) - 1) / best[1] if len(answer) > 1 else 1.0


def _agreeing(draft: Sequence[int], text: Sequence[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(draft, text, strict=False)) if a != b), min(len(draft), len(text)))
