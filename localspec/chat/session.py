"""What speculation has done: for the answer being made, and since the chat was opened. No clock, no screen.

Words as in the engine: a judged token had a verdict, a run is how many tokens of a draft were kept in one cycle.
"""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from localspec.chat.looks import DRAFTER_NAMES, MISSING
from localspec.engine.events import Baseline, Cycle, DrafterName, Finished, Kind, Prefill, Started, Stats, Token

PAUSED_AFTER = 8
"""Cycles without a draft after which drafting counts as paused: fewer come between two matches of a copied text."""

ENOUGH_PLAIN = 3
"""Plain cycles that make a baseline for the figures while an answer runs."""


Use = Literal["chat", "edits"]
"""What an answer was for: an edit mostly copies and is sped up far more than talk, so the two are told apart."""


@dataclass(slots=True)
class UseFigures:
    """What came of the answers of one use. `plain_s` is what plain decoding would have taken for those with a baseline,
    `spent_s` what they took."""

    answers: int = 0
    decoded: int = 0
    cycles: int = 0
    plain_s: float = 0.0
    spent_s: float = 0.0

    def finished(self, stats: Stats) -> None:
        """Counts one answer."""
        decoded = max(0, stats.tokens - 1)
        self.answers += 1
        self.decoded += decoded
        self.cycles += stats.cycles
        if stats.speedup is not None and stats.plain_tokens_per_s:
            self.plain_s += decoded / stats.plain_tokens_per_s
            self.spent_s += stats.decode_s

    @property
    def tokens_per_cycle(self) -> float | None:
        return self.decoded / self.cycles if self.cycles else None

    @property
    def speedup(self) -> float | None:
        return self.plain_s / self.spent_s if self.spent_s > 0 else None


@dataclass(slots=True)
class DrafterFigures:
    """What one drafter did. `draft_s` is the time it took."""

    cycles: int = 0
    proposed: int = 0
    judged: int = 0
    accepted: int = 0
    draft_s: float = 0.0


@dataclass(slots=True)
class Session:
    """Sums over answers. `speedups` has one number an answer that has one; `saved_s` is against the named baseline."""

    answers: int = 0
    tokens: int = 0
    decode_s: float = 0.0
    verify_s: float = 0.0
    draft_s: float = 0.0
    plain_s: float = 0.0
    saved_s: float = 0.0
    compared: int = 0
    compared_tokens: int = 0
    cycles: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    drafters: dict[DrafterName, DrafterFigures] = field(default_factory=dict)
    runs: Counter[int] = field(default_factory=Counter)
    speedups: list[float] = field(default_factory=list)
    uses: dict[Use, UseFigures] = field(default_factory=dict)
    baseline: Baseline = "none"

    def cycle(self, cycle: Cycle) -> None:
        """Counts one cycle, as it happens."""
        if not cycle.proposed:
            return
        figures = self.drafters.setdefault(cycle.drafter, DrafterFigures())
        figures.cycles += 1
        figures.proposed += cycle.proposed
        figures.judged += cycle.judged
        figures.accepted += cycle.accepted
        figures.draft_s += cycle.draft_ms / 1000
        self.runs[cycle.accepted] += 1

    def finished(self, stats: Stats, use: Use = "chat") -> None:
        """Counts one answer. Its cycles are counted apart."""
        self.uses.setdefault(use, UseFigures()).finished(stats)
        self.answers += 1
        self.tokens += stats.tokens
        self.decode_s += stats.decode_s
        self.verify_s += stats.verify_s
        self.draft_s += stats.draft_s
        self.cycles += stats.cycles
        counts: dict[Kind, int] = {
            "accepted": stats.accepted, "resampled": stats.resampled, "bonus": stats.bonus, "plain": stats.plain,
        }  # fmt: skip
        self.kinds.update(counts)
        if stats.speedup is not None and stats.plain_tokens_per_s:
            decoded = max(0, stats.tokens - 1)
            self.speedups.append(stats.speedup)
            self.saved_s += decoded / stats.plain_tokens_per_s - stats.decode_s
            self.plain_s += decoded / stats.plain_tokens_per_s
            self.compared += 1
            self.compared_tokens += decoded
            self.baseline = stats.baseline

    @property
    def acceptance_rate(self) -> float | None:
        judged = sum(figures.judged for figures in self.drafters.values())
        return sum(figures.accepted for figures in self.drafters.values()) / judged if judged else None

    @property
    def tokens_per_cycle(self) -> float | None:
        emitted = self.tokens - self.answers
        return emitted / self.cycles if self.cycles else None

    @property
    def speedup(self) -> float | None:
        """Over all answers that have a baseline, by their time."""
        spent = self.plain_s - self.saved_s
        return self.plain_s / spent if self.compared and spent > 0 else None

    def saved(self) -> str:
        """The time saved, in words: "41 s saved in 9 answers"."""
        if not self.compared:
            return "no baseline yet"
        count = f"{self.compared} answer" + ("s" if self.compared != 1 else "")
        seconds = abs(self.saved_s)
        if seconds < 0.05:
            return f"as fast as plain in {count}"
        return f"{_duration(seconds)} {'saved' if self.saved_s > 0 else 'lost'} in {count}"

    def why(self) -> str:
        """One sentence on why it is fast or slow."""
        if not self.answers:
            return "Nothing answered yet."
        rate, speedup = self.acceptance_rate, self.speedup
        if rate is None:
            return "Nothing was drafted: every token had a pass of its own."
        total = sum(self.kinds.values()) or 1
        kept = self.kinds["accepted"] / total
        best = max(self.drafters, key=lambda name: self.drafters[name].accepted)
        source = _SOURCES[best]
        if speedup is None:
            return f"{kept:.0%} of the tokens were guessed by {source}; no plain baseline to compare with yet."
        if speedup >= 1.15:
            return f"Faster: {kept:.0%} of the tokens were guessed right by {source} and needed no pass of their own."
        little = f"{source} found little to guess in this text ({kept:.0%} of the tokens)."
        if speedup > 0.97:
            if kept < 0.15:
                return f"As fast as plain: {little}"
            return f"As fast as plain: {rate:.0%} of the guesses were right, and checking them cost what they saved."
        slow = self.draft_s > 0.3 * self.decode_s
        if slow and self.decode_s:
            return f"Slower: {source} takes {self.draft_s / self.decode_s:.0%} of the time."
        # A few right guesses are not what made it slow.
        if rate > 0.5 and kept < 0.15:
            return f"Slower: {little}"
        return f"Slower: only {rate:.0%} of the guesses by {source} were right."


_SOURCES: dict[DrafterName, str] = {
    "lookup": "copying from the chat",
    "grammar": "what the grammar forces",
    "draft": "the draft model",
    "mtp": "the model's own guesses ahead",
    "self": "the shortened target",
    "none": "nothing",
}


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@dataclass(slots=True)
class Live:
    """The figures of the answer being made, from its events. `before` is the last answer's, for a baseline at once.
    `decided` is the last cycle, with the estimate it was chosen on (see `decisions`)."""

    before: Stats | None = None
    started: Started | None = None
    prefill: Prefill | None = None
    stats: Stats | None = None
    tokens: int = 0
    first_t: float | None = None
    last_t: float = 0.0
    cycles: int = 0
    judged: int = 0
    accepted: int = 0
    drafter: DrafterName = "none"
    length: int = 0
    undrafted: int = 0
    decided: Cycle | None = None
    _plain_ms: list[float] = field(default_factory=list)

    def take(self, event: object) -> None:
        """One event of the answer."""
        match event:
            case Started():
                self.started = event
            case Prefill():
                self.prefill = event
            case Token():
                self.tokens += 1
                self.first_t = event.t if self.first_t is None else self.first_t
                self.last_t = event.t
            case Cycle():
                self._cycle(event)
            case Finished():
                self.stats = event.stats

    def _cycle(self, cycle: Cycle) -> None:
        self.cycles += 1
        self.judged += cycle.judged
        self.accepted += cycle.accepted
        self.decided = cycle
        if cycle.proposed:
            self.drafter, self.length, self.undrafted = cycle.drafter, cycle.proposed, 0
        else:
            self.undrafted += 1
            if cycle.emitted:
                self._plain_ms.append(cycle.verify_ms)

    @property
    def reading(self) -> bool:
        """The prompt is still being read."""
        return self.stats is None and self.tokens == 0

    @property
    def ttft_s(self) -> float | None:
        return self.stats.ttft_s if self.stats else self.first_t

    @property
    def tokens_per_s(self) -> float | None:
        if self.stats:
            return self.stats.tokens_per_s
        if self.first_t is None or self.tokens < 2 or self.last_t <= self.first_t:
            return None
        return (self.tokens - 1) / (self.last_t - self.first_t)

    @property
    def itl_ms(self) -> float | None:
        """Milliseconds a token: the median once the answer is there, the mean so far before."""
        if self.stats:
            return self.stats.itl_ms_p50
        return 1000 / self.tokens_per_s if self.tokens_per_s else None

    @property
    def plain_tokens_per_s(self) -> float | None:
        if self.stats:
            return self.stats.plain_tokens_per_s
        if self.before is not None and self.before.plain_tokens_per_s:
            return self.before.plain_tokens_per_s
        return 1000 / median(self._plain_ms) if len(self._plain_ms) >= ENOUGH_PLAIN else None

    @property
    def baseline(self) -> Baseline:
        if self.stats:
            return self.stats.baseline
        if self.before is not None and self.before.plain_tokens_per_s:
            return self.before.baseline
        return "measured" if len(self._plain_ms) >= ENOUGH_PLAIN else "none"

    @property
    def speedup(self) -> float | None:
        if self.stats:
            return self.stats.speedup
        speed, plain = self.tokens_per_s, self.plain_tokens_per_s
        return speed / plain if speed is not None and plain else None

    @property
    def acceptance_rate(self) -> float | None:
        if self.stats:
            return self.stats.acceptance_rate
        return self.accepted / self.judged if self.judged else None

    @property
    def tokens_per_cycle(self) -> float | None:
        if self.stats:
            return self.stats.tokens_per_cycle
        return (self.tokens - 1) / self.cycles if self.cycles and self.tokens else None

    @property
    def context_used(self) -> int:
        """Tokens of the context that are taken: the prompt (as far as it was read) and the answer."""
        if self.started is None:
            return 0
        read = self.prefill.done if self.prefill and self.reading else self.started.prompt_tokens
        return read + self.tokens

    def drafting(self) -> str:
        """The drafter and draft length in use now, in words."""
        if self.started is None:
            return MISSING
        if self.started.speculate == "off":
            return "drafting off"
        if self.undrafted >= PAUSED_AFTER:
            return "drafting paused: does not pay here"
        if not self.length:
            return "nothing drafted yet"
        return f"{DRAFTER_NAMES[self.drafter]}, {self.length} token" + ("s" if self.length != 1 else "")
