"""Several programs' answers to the same prompts, compared round by round, and a choice that cannot flatter itself.

Somebody who tries every setting of a peer and keeps the best sees the best of the noise, too. Here a setting is chosen
on one half of the rounds and compared on the other half, then the other way round; the two ratios are averaged as
ratios. So what the choice gained by luck is not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from localspec.bench.stats import geometric_mean
from localspec.bench.workloads import Task

OURS, PLAIN = "ours", "plain"
"""Names of our own two ways; a peer's begins with `@`, so that it can be neither."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: `tokens` decoded in `seconds`. The first token comes from the prompt and an end token is not text:
    neither is counted. `proposed` and `accepted` are draft tokens, None where nobody said; `ids` is the text."""

    task: Task
    way: str
    round: int
    tokens: int
    seconds: float
    proposed: int | None = None
    accepted: int | None = None
    ids: tuple[int, ...] = ()

    @property
    def speed(self) -> float | None:
        """Tokens/s; None of an answer that ended with its first token."""
        return self.tokens / self.seconds if self.tokens > 0 and self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ratio`: our speed over that of the settings named, each judged on rounds it was not chosen on."""

    ratio: float
    chosen: tuple[str, str]


@dataclass(slots=True)
class Contest:
    """The answers so far. `peers` are the names of the peers' settings."""

    peers: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(answer.task.category for answer in self.answers))

    @property
    def rounds(self) -> list[int]:
        return sorted({answer.round for answer in self.answers})

    def tasks(self, category: str) -> list[Task]:
        return [task for task in dict.fromkeys(one.task for one in self.answers) if task.category == category]

    def ratio(self, way: str, to: str, task: Task, rounds: Sequence[int]) -> float | None:
        """How many times as fast `way` is as `to` on one prompt: the median of the ratios within `rounds`."""
        base = self._speeds(to, task)
        ratios = [speed / base[at] for at, speed in self._speeds(way, task).items() if at in base and at in rounds]
        return median(ratios) if ratios else None

    def category_ratio(self, way: str, to: str, category: str, rounds: Sequence[int] | None = None) -> float | None:
        """The geometric mean over a category's prompts; all rounds unless said otherwise."""
        chosen = self.rounds if rounds is None else rounds
        known = [self.ratio(way, to, task, chosen) for task in self.tasks(category)]
        return geometric_mean([ratio for ratio in known if ratio is not None])

    def overall(self, way: str, to: str, rounds: Sequence[int] | None = None) -> float | None:
        """The geometric mean over the categories; None for a way that lacks one which we have, as a peer does that
        failed on the way: the means beside each other must be of the same."""
        ours = [one for one in self.categories if self.category_ratio(OURS, PLAIN, one, rounds) is not None]
        known = [self.category_ratio(way, to, category, rounds) for category in ours]
        return geometric_mean([ratio for ratio in known if ratio is not None]) if None not in known else None

    def against_best(self, category: str) -> Verdict | None:
        """We against the peer's best setting for this category."""
        return self._held_out([category])

    def against_best_single(self) -> Verdict | None:
        """We against the peer's best one setting for all categories, as the geometric mean over them."""
        return self._held_out(self.categories)

    def mean_against_best(self) -> float | None:
        """The geometric mean of `against_best` over the categories."""
        known = [self.against_best(category) for category in self.categories]
        return geometric_mean([verdict.ratio for verdict in known if verdict is not None])

    def accepted_share(self, way: str) -> float | None:
        """Accepted over proposed draft tokens of all answers (not over judged ones: a server does not tell those)."""
        drafted = [one for one in self.answers if one.way == way and one.proposed and one.accepted is not None]
        proposed = sum(one.proposed or 0 for one in drafted)
        return sum(one.accepted or 0 for one in drafted) / proposed if proposed else None

    def same_text(self, peer: str) -> tuple[int, int]:
        """How many of a peer's answers are ours as far as both go, and how many were compared."""
        ours = {(one.task, one.round): one.ids for one in self.answers if one.way == OURS}
        pairs = [
            (one.ids, ours[one.task, one.round])
            for one in self.answers
            if one.way == peer and (one.task, one.round) in ours
        ]
        same = sum(all(a == b for a, b in zip(theirs, own, strict=False)) for theirs, own in pairs)
        return same, len(pairs)

    def _held_out(self, categories: Sequence[str]) -> Verdict | None:
        halves = self.rounds[0::2], self.rounds[1::2]
        ratios, chosen = [], []
        for choosing, judging in (halves, halves[::-1]):
            best = self._fastest_peer(categories, choosing)
            ratio = None if best is None else self._mean(OURS, best, categories, judging)
            if best is None or ratio is None:
                return None
            ratios.append(ratio)
            chosen.append(best)
        mean = geometric_mean(ratios)
        return None if mean is None else Verdict(mean, (chosen[0], chosen[1]))

    def _fastest_peer(self, categories: Sequence[str], rounds: Sequence[int]) -> str | None:
        known = [(ratio, peer) for peer in self.peers if (ratio := self._mean(peer, OURS, categories, rounds))]
        return max(known)[1] if known else None

    def _mean(self, way: str, to: str, categories: Sequence[str], rounds: Sequence[int]) -> float | None:
        """None as well when one of the categories is missing: a mean over fewer is another figure."""
        known = [self.category_ratio(way, to, category, rounds) for category in categories]
        return geometric_mean([ratio for ratio in known if ratio is not None]) if None not in known else None

    def _speeds(self, way: str, task: Task) -> dict[int, float]:
        return {
            one.round: one.speed
            for one in self.answers
            if one.way == way and one.task == task and one.speed is not None
        }
