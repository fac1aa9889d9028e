"""What drafting costs here, as the controller asks for it: everything relative to a plain pass of the target.

Passes are learnt as ratios to plain passes beside them in time, so that heat, battery and neighbours, which slow both,
leave the ratios alone. One momentary factor, from the latest passes of any width, says how fast the machine is now: a
plain speed is known by it also where no plain pass was made lately. Pure: the clock's time is told.
"""

from collections import deque
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median

from localspec.engine.baseline import PlainSpeed
from localspec.engine.cost import ENOUGH, WINDOW, Curve, between, doubted
from localspec.engine.cost_report import CostReport as CostReport
from localspec.engine.events import Baseline, ModelDrafterName
from localspec.engine.priors import Prior

AGREE = 0.05
"""Samples that lie so near to each other agree: on a quiet machine three do, and no more are needed."""

ROUGH = 0.1
"""Samples further from each other than this come from a machine with other work: not to be relied on next time."""

READING = 0.2
"""A token read in a wide pass relative to one drawn, before any was read: 0.14 to 0.28 on every curve measured."""

LONG_READING = 32
"""Tokens a draft model read from which on the time says what one of them takes."""

IN_STEP = 2
"""Tokens a draft model reads before it draws, when it drafted in the cycle before and all of its draft stood."""

BESIDE = 2
"""Passes from a wide one to a plain one that still count as beside each other: when the machine's speed changes between
the two, so few ratios are wrong that the median does not notice."""

BESIDE_S = 3.0
"""And seconds between them, at most; for slow models as many plain passes as `BESIDE` allows."""

RECENT = 9
"""Passes that the momentary factor is the median of: four stalls in a row do not move it, five are the machine."""

RECENT_S = 30.0
"""Passes older than this say nothing of the machine's speed now, once there are `ENOUGH` newer ones."""

STALE_S = 5.0
"""A plain pass older than this is measured again: heat, battery and neighbours change a laptop's speed."""

SHARE = 100
"""But never more than one plain pass in the time of so many: the baseline may cost 1 % of an answer."""

HASTE = 10
"""The same while the band of this context has too few plain passes to be measured: three are soon there."""

DRAFT_WIDTH = 1
"""A draft model's curve knows one width: a token drawn."""

REPORT_WIDTHS = tuple(range(1, 34))
"""A verify pass of the longest draft there is by default; wider passes are scaled from the last."""

REPORT_CONTEXTS = (64, 512, 1024, 2048, 4096, 8192, 16384, 32768)

Rows = list[list[float]]
"""What is kept of a curve: width, context, cost and number of samples a row."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """A target pass, number `order`: `width` tokens at `context` took `ms`, until `now` (seconds)."""

    order: int
    width: int
    context: int
    ms: float
    now: float


class Costs:
    """What this machine was seen to cost with these models: kept over the answers of an engine, and on disk between.

    `draft_prior` is a draft token relative to a plain pass before one was seen (the ratio of the models' sizes);
    `drafter` is who draws it, and names its curve.
    """

    def __init__(self, draft_prior: float, prior: Prior | None = None, drafter: ModelDrafterName = "draft") -> None:
        self.drafter: ModelDrafterName = drafter
        self._cycles = PlainSpeed()
        self._latest_plain: float | None = None
        self._prior = prior or Prior()
        self._plain_curve = Curve(self._prior)
        self._wide = Curve(self._prior)
        self._draft = Curve(Prior(((1, 1.0),), growth=0.0))
        self._draft_prior = draft_prior
        self._reading: deque[float] = deque(maxlen=RECENT)
        self._orders = 0
        self._waiting: deque[_Pass] = deque(maxlen=BESIDE)
        self._plains: deque[_Pass] = deque(maxlen=BESIDE)
        self._speeds: deque[tuple[float, float]] = deque(maxlen=RECENT)
        self._factor = 0.0
        self._known: tuple[int, dict[int, float]] | None = None

    # -- what the controller asks --------------------------------------------------------------------------------------

    def relative(self, width: int, context: int) -> float:
        """A target pass of `width` tokens at `context` tokens relative to a plain pass there; at least 1.

        A step is kept as it was measured: 4 tokens may cost less than 3.
        """
        if width <= 1:
            return 1.0
        return max(1.0, self._at(width, context) / self._unit(context))

    def draft_token(self, context: int) -> float:
        """A drawn draft token relative to a plain pass at `context` tokens: measured, before that by the sizes."""
        measured = self._draft.measured(DRAFT_WIDTH, context)
        if measured is not None:
            return measured
        return exp(doubted(log(self._draft_prior), self._draft.weak(DRAFT_WIDTH)))

    def catching_up(self, behind: int, context: int) -> float:
        """What it costs a draft model that is `behind` tokens behind to be in step again, in plain passes."""
        reading = median(self._reading) if self._reading else READING
        return max(0, behind - IN_STEP) * reading * self.draft_token(context)

    def plain_ms(self, context: int) -> float | None:
        """Milliseconds of a plain pass at `context` tokens now; None when no plain pass was ever seen."""
        usual = self._usual_ms(context)
        return None if usual is None else usual * exp(self._factor)

    def plain_wanted(self, context: int, now: float) -> bool:
        """A plain pass now would be worth its time: none is known yet, or the latest is old."""
        ms, latest = self.plain_ms(context), self._latest_plain
        if ms is None or latest is None:
            return True
        if self._plain_curve.solid(1, context):
            return now - latest > max(STALE_S, SHARE * ms / 1000)
        return now - latest > HASTE * ms / 1000

    def baseline(self, context: int, since_s: float) -> tuple[float | None, Baseline]:
        """A plain pass during an answer that began at `since_s` and is `context` tokens long at its middle, in
        milliseconds, and where that is from.

        The answer's own plain passes when there are enough, else what the curve says at the machine's speed now; that
        counts as measured when plain cycles of this session stand behind it.
        """
        own = self._cycles.own_ms(context, since_s)
        if own is not None:
            return own, "measured"
        ms = self.plain_ms(context)
        if ms is None:
            return None, "none"
        return ms, "measured" if self._cycles.ms(context) is not None else "calibrated"

    # -- learning ------------------------------------------------------------------------------------------------------

    def learn_pass(self, context: int, width: int, seconds: float, now: float, *, cycle: bool = True) -> None:
        """A target pass of `width` tokens at `context` tokens took `seconds`, until the clock's `now`.

        `cycle` off: it was made to measure, and is no part of an answer.
        """
        if seconds <= 0:
            return
        self._orders += 1
        seen = _Pass(self._orders, width, context, seconds * 1000, now)
        if width == 1:
            if cycle:
                self._cycles.learn(context, seen.ms, now)
            self._learn_plain(seen)
        else:
            self._learn_wide(seen)

    def learn_draft(self, context: int, behind: int, tokens: int, seconds: float) -> None:
        """Reading `behind` tokens and drawing `tokens` took `seconds`: what reading costs is no price of a token."""
        plain = self.plain_ms(context)
        if not tokens or seconds <= 0 or not plain:
            return
        spent = seconds * 1000 / plain
        if behind <= IN_STEP:
            self._draft.learn(DRAFT_WIDTH, context, spent / tokens)
        elif behind >= LONG_READING:
            drawn = self.draft_token(context)
            self._reading.append(min(max(spent - tokens * drawn, 0.0) / behind / drawn, 1.0))

    def _learn_plain(self, seen: _Pass) -> None:
        self._latest_plain = seen.now
        if self._plain_curve.solid(1, seen.context):
            self._notice_speed(seen, 1.0)
        self._plain_curve.learn(1, seen.context, seen.ms / exp(self._factor))
        self._plains.append(seen)
        # Wide passes before it that had no plain one beside them.
        for wide in [wide for wide in self._waiting if self._beside(wide, seen)]:
            self._learn_ratio(wide, [seen])
        self._waiting.clear()

    def _learn_wide(self, seen: _Pass) -> None:
        solid = self._wide.solid(seen.width, seen.context)
        if solid:
            self._notice_speed(seen, self.relative(seen.width, seen.context))
        beside = [plain for plain in self._plains if self._beside(plain, seen)]
        if beside:
            self._learn_ratio(seen, beside)
        elif solid:
            self._waiting.append(seen)
        elif plain := self.plain_ms(seen.context):
            # Better than the prior, though machine and curve cannot be told apart in it.
            self._wide.learn(seen.width, seen.context, seen.ms / plain * self._unit(seen.context))
            self._known = None

    def _beside(self, one: _Pass, other: _Pass) -> bool:
        near = abs(one.order - other.order) <= BESIDE
        return near and abs(one.now - other.now) <= max(BESIDE_S, BESIDE * (one.ms + other.ms) / 1000)

    def _ratio(self, wide: _Pass, plains: list[_Pass]) -> float:
        """A wide pass relative to the plain ones beside it, brought to its own context."""
        unit = self._prior
        return wide.ms / fmean(p.ms * unit.cost(1, wide.context) / unit.cost(1, p.context) for p in plains)

    def _notice_speed(self, seen: _Pass, relative: float) -> None:
        """A pass whose usual cost is known tells how fast the machine is now."""
        usual = self._usual_ms(seen.context)
        if usual is None:
            return
        self._speeds.append((log(seen.ms / (usual * relative)), seen.now))
        recent = [speed for speed, at in self._speeds if seen.now - at <= RECENT_S]
        if len(recent) < ENOUGH:
            recent = [speed for speed, _ in self._speeds][-ENOUGH:]
        # The first ones have the factor so far beside them: one stall must not set the speed of the machine.
        self._factor = median(recent if len(recent) >= ENOUGH else [*recent, self._factor])

    # -- what is known, to keep and to show ----------------------------------------------------------------------------

    def count(self, width: int, context: int) -> int:
        """Passes of `width` tokens that were seen near `context`."""
        return (self._plain_curve if width == 1 else self._wide).count(width, context)

    def settled(self, width: int, context: int) -> bool:
        """Whether further passes of `width` tokens near `context` would tell little: they agree, or there are many."""
        curve = self._plain_curve if width == 1 else self._wide
        return curve.count(width, context) >= WINDOW or curve.spread(width, context) <= AGREE

    def draft_count(self, context: int) -> int:
        """Drafts that were timed near `context`."""
        return self._draft.count(DRAFT_WIDTH, context)

    def rows(self) -> dict[str, Rows]:
        """Everything worth keeping; `take_up` reads it.

        What a busy machine gave counts as too few samples: whoever takes it up measures again, and until then the
        neighbours have a say.
        """
        curves = {"plain": self._plain_curve, "wide": self._wide, self.drafter: self._draft}
        return {
            name: [
                [
                    width,
                    context,
                    float(f"{cost:.4g}"),
                    n if curve.spread(width, context) <= ROUGH else min(n, ENOUGH - 1),
                ]
                for width, context, cost, n in curve.samples()
            ]
            for name, curve in curves.items()
        }

    def take_up(self, rows: dict[str, Rows]) -> None:
        """Believe what was kept or measured apart: it counts like a few passes seen, so real ones soon outvote it."""
        for name, curve in (("plain", self._plain_curve), ("wide", self._wide), (self.drafter, self._draft)):
            for width, context, cost, samples in rows.get(name, []):
                curve.restore(int(width), int(context), cost, int(samples))
        self._known = None

    def report(self, size: int, flash: str, *, draft: bool) -> CostReport:
        """The curve for contexts up to `size` tokens; `draft`: there is a draft model."""
        measured = sorted({context for width, context, _, _ in self._plain_curve.samples()})
        contexts = tuple(sorted({c for c in (*REPORT_CONTEXTS, *measured) if c <= size})) or (size,)
        usual = [self._usual_ms(c) for c in contexts]
        return CostReport(
            widths=REPORT_WIDTHS,
            contexts=contexts,
            table=tuple(tuple(self.relative(w, c) for w in REPORT_WIDTHS) for c in contexts),
            plain_ms=tuple(usual),
            samples=tuple((self._plain_curve if w == 1 else self._wide).count(w) for w in REPORT_WIDTHS),
            measured=tuple(measured),
            draft_token=self.draft_token(contexts[0]) if draft else None,
            draft_samples=self._draft.count(DRAFT_WIDTH),
            momentary=exp(self._factor),
            flash=flash,
        )

    # -- the curve -----------------------------------------------------------------------------------------------------

    def _unit(self, context: int) -> float:
        """A plain pass at `context` in plain passes at an empty context: what the wide curve's numbers count in."""
        return self._prior.cost(1, context)

    def _usual_ms(self, context: int) -> float | None:
        """A plain pass at the machine's usual speed: the one its samples were brought to."""
        known = self._plain_curve.measured(1, context)
        if known is not None:
            return known
        weak = self._plain_curve.weak(1)
        return exp(median(weak)) * self._prior.cost(1, context) if len(weak) >= ENOUGH else None

    def _at(self, width: int, context: int) -> float:
        """A pass in the units of `_unit`."""
        measured = self._wide.measured(width, context)
        if measured is not None:
            return measured
        guess = between(width, self._deviations(context))
        return self._prior.cost(width, context) * exp(doubted(guess, self._wide.weak(width)))

    def _deviations(self, context: int) -> dict[int, float]:
        """How far each measured width is from the prior at `context`, as a logarithm; 1 is at it by definition."""
        if self._known is None or self._known[0] != context:
            known = {1: 0.0}
            for width in self._wide.widths():
                cost = self._wide.measured(width, context)
                if cost is not None:
                    known[width] = log(cost / self._prior.cost(width, context))
            self._known = context, known
        return self._known[1]

    def _learn_ratio(self, wide: _Pass, plains: list[_Pass]) -> None:
        ratio = self._ratio(wide, plains)
        self._wide.learn(wide.width, wide.context, ratio * self._unit(wide.context))
        self._known = None
