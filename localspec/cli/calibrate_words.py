"""What a cost curve means, in numbers and sentences. Pure: a report goes in, text comes out.

With each guess right with probability a, a draft of K tokens and its pass yield (1 - a^(K+1)) / (1 - a) tokens
(Leviathan et al. 2023, eq. 1); the cycle costs the pass of K + 1 tokens and what drawing K tokens costs.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import exp, log
from statistics import fmean

from localspec.bench import theory
from localspec.engine.costs import CostReport

SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32)
"""Widths in the table: where the known kernels have their steps, and the ends of what is drafted."""

BAR = 24
"""Characters of the longest bar."""

STEPS = 3
"""Steps of the curve that are spoken of: the largest ones."""

FALLS = 0.97
"""A wider pass that costs less than this share of the next narrower one is a step, and no noise."""

USUAL_LOOKUP = 15
"""Draft length of the lookup that is spoken of: the best fixed one on edits."""

USUAL_RATES = (0.6, 0.8, 0.9)
"""Acceptance rates that draft models reach on chat, on code and on edits."""


def pays_from(cost: float, length: int) -> float | None:
    """The acceptance rate from which a cycle of `cost` plain passes beats plain decoding; None: not even at 100 %."""
    return theory.acceptance_for(cost, length) if cost < length + 1 else None


def best_length(report: CostReport, context: int, rate: float, token: float) -> tuple[int, float]:
    """The draft length that gains most at an acceptance rate, each token costing `token` plain passes, and its speed
    relative to plain decoding."""
    return theory.best_length(rate, token, lambda width: report.relative(width, context), report.widths[-1] - 1)


def contexts(report: CostReport) -> tuple[int, int | None]:
    """The short and the long context that the report is about; None when no long one was measured."""
    short = min((c for c in report.measured if c in report.contexts), default=report.contexts[0])
    return short, max((c for c in report.measured if c in report.contexts and c >= 4 * max(short, 64)), default=None)


def rows(report: CostReport) -> list[list[str]]:
    """The table: tokens, milliseconds, relative, bar, share that must be right, and the same at the long context."""
    short, long = contexts(report)
    shown = [w for w in SHOWN if w in report.widths]
    most = max(report.relative(w, short) for w in shown)
    table = []
    for width in shown:
        relative = report.relative(width, short)
        guess = "" if report.samples[report.widths.index(width)] else "~"
        cells = [
            str(width),
            _ms(report.ms(width, short)),
            f"{guess}{relative:.2f}",
            "█" * max(1, round(BAR * relative / most)),
            _needed(relative, width),
        ]
        if long is not None:
            cells += [_ms(report.ms(width, long)), f"{guess}{report.relative(width, long):.2f}"]
        table.append(cells)
    return table


def headings(report: CostReport) -> list[str]:
    _, long = contexts(report)
    first = ["tokens", "ms", "relative", "", "lookup pays from"]
    return first if long is None else [*first, f"ms at {long:,}", f"relative at {long:,}"]


def sentences(report: CostReport) -> Iterator[str]:
    """What the curve means on this machine."""
    short, long = contexts(report)
    if report.plain_ms[0] is None:
        yield "No pass was measured."
        yield from report.notes
        return
    yield from _checking(report, short)
    if long is not None:
        yield _growing(report, short, long)
    if report.draft_token is not None:
        yield from _drafting(report, short, report.draft_token)
    yield from _flash(report)
    if report.momentary > 1.25:
        yield f"Right now the machine is {report.momentary:.1f} times slower than usual; the ratios hold all the same."


def _checking(report: CostReport, context: int) -> Iterator[str]:
    usual = USUAL_LOOKUP + 1
    relative = report.relative(usual, context)
    rate = pays_from(relative, USUAL_LOOKUP)
    pays = "never pays" if rate is None else f"pays from {rate:.0%} right"
    yield (
        f"Checking {usual} tokens at once costs as much as {relative:.1f} single ones: a lookup of {USUAL_LOOKUP} "
        f"tokens {pays}, and is at most {usual / relative:.1f} times as fast."
    )
    cheap = max(w for w in report.widths if report.relative(w, context) < 2)
    if cheap > 1:
        yield f"Up to {cheap} tokens are checked in less time than two plain passes take."
    else:
        yield "Checking 2 tokens already takes as long as two plain passes: only longer drafts can pay, if any."
    known = [w for w in SHOWN if w > 1 and w in report.widths and report.samples[report.widths.index(w)]]
    falls = {(a, b): report.relative(b, context) / report.relative(a, context) for a, b in pairwise(known)}
    steps = sorted(pair for pair in sorted(falls, key=lambda pair: falls[pair])[:STEPS] if falls[pair] < FALLS)
    if steps:
        told = ", ".join(f"{b} tokens cost less than {a}" for a, b in steps)
        yield f"The curve has steps: {told}."


def _growing(report: CostReport, short: int, long: int) -> str:
    usual = USUAL_LOOKUP + 1
    single, before = report.ms(1, long), report.ms(1, short)
    growth = single / before - 1 if single is not None and before else 0.0
    slower = f"{growth:.0%} longer" if growth >= 0.005 else "no longer"
    return (
        f"At {long:,} tokens of context a plain pass takes {slower}, and {usual} tokens cost as much as "
        f"{report.relative(usual, long):.1f} single ones there."
    )


def _drafting(report: CostReport, context: int, token: float) -> Iterator[str]:
    parts = []
    for rate in USUAL_RATES:
        length, gain = best_length(report, context, rate, token)
        if gain > 1:
            parts.append(f"at {rate:.0%} acceptance the best length is {length} and makes it {gain:.2f} times as fast")
        else:
            parts.append(f"at {rate:.0%} acceptance the draft model cannot pay")
    known = "costs" if report.draft_samples else "is taken to cost"
    yield f"A token of the draft model {known} {token:.2f} of a plain pass: {'; '.join(parts)}."


def _flash(report: CostReport) -> Iterator[str]:
    if report.faster is not None:
        ratio = exp(fmean(log(one.on_ms / one.off_ms) for one in report.flash_times))
        faster = ratio if report.faster == "off" else 1 / ratio
        lengths = " and ".join(f"{length:,}" for length in sorted({one.context for one in report.flash_times}))
        yield (
            f"Flash attention {report.faster} is {faster - 1:.0%} faster with this model here, over passes at "
            f"{lengths} tokens of context: what is loaded from now on uses that, unless --flash-attn says otherwise."
        )
    yield from report.notes


def _needed(relative: float, width: int) -> str:
    """The share of a lookup's tokens that must be right to break even, and how many tokens a cycle that is."""
    if width == 1:
        return ""
    rate = pays_from(relative, width - 1)
    return "never" if rate is None else f"{rate:.0%}"


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
