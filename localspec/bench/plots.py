"""The pictures of a report: speed-up by category, accepted run lengths, the cost curve with the lengths chosen."""

from collections.abc import Callable, Mapping

from localspec.bench import svg
from localspec.bench.curves import Curve
from localspec.bench.results import ModeReport, Row

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 150, 70, 34, 44
ROW = 30
PLOT = 220
"""Height of the upright plots without their margins, in the picture's own units as all lengths here."""

WIDEST = 33
"""The widest pass drawn: one for the longest draft that auto makes."""

Scale = Callable[[float], float]


def speedups(mode: ModeReport) -> str:
    """Bars of the wall clock with their intervals, a diamond for virtual time, a tick for the bound, a line at 1."""
    rows = [*mode.categories, mode.mean]
    top = svg.ticks(max([1.2, *(value for row in rows for value in _values(row))]) * 1.02)
    height = TOP + ROW * len(rows) + BOTTOM
    inner = WIDTH - LEFT - RIGHT

    def x(value: float) -> float:
        return LEFT + inner * min(value, top[-1]) / top[-1]

    parts = []
    for tick in top:
        parts += [svg.line(x(tick), TOP, x(tick), height - BOTTOM, "grid")]
        parts += [svg.text(x(tick), height - BOTTOM + 16, f"{tick:g}x", at="middle", kind="small")]
    for number, row in enumerate(rows):
        y = TOP + ROW * number + ROW / 2
        parts.append(
            svg.text(LEFT - 8, y + 4, _short(row.category), at="end", kind="strong" if row is mode.mean else "")
        )
        parts += _speedup_bar(row, x, y)
    parts += [svg.line(x(1), TOP - 6, x(1), height - BOTTOM, "one"), svg.text(x(1), TOP - 10, "plain", at="middle")]
    legend = "bar and number: wall clock, with its 95 % interval   ◆ virtual time   ┃ bound of lookup"
    parts.append(svg.text(LEFT, height - 8, legend, kind="small"))
    described = "; ".join(
        f"{row.category} {row.wall.value:.2f} times plain" for row in rows if row.wall.value is not None
    )
    return svg.figure(WIDTH, height, f"Speed-up by category, {mode.name}", described or "nothing was measured", parts)


def _values(row: Row) -> list[float]:
    found = (row.wall.value, row.wall.high, row.virtual, row.bound)
    return [value for value in found if value is not None]


def _speedup_bar(row: Row, x: Scale, y: float) -> list[str]:
    parts = []
    if row.wall.value is not None:
        told = f"{row.category}: {row.wall.value:.2f}x by the wall clock"
        if row.wall.low is not None and row.wall.high is not None:
            told += f", {row.wall.low:.2f} to {row.wall.high:.2f}"
        parts.append(svg.bar(x(0), y - 9, x(row.wall.value) - x(0), 18, "bar", told))
    if row.wall.low is not None and row.wall.high is not None:
        parts += [svg.line(x(row.wall.low), y, x(row.wall.high), y, "whisker")]
        parts += [svg.line(x(end), y - 5, x(end), y + 5, "whisker") for end in (row.wall.low, row.wall.high)]
    if row.bound is not None:
        parts.append(svg.bar(x(row.bound) - 1.5, y - 11, 3, 22, "bound", f"{row.category}: bound {row.bound:.2f}x"))
    if row.virtual is not None:
        parts.append(
            svg.diamond(x(row.virtual), y, 5, "virtual", f"{row.category}: {row.virtual:.2f}x in virtual time")
        )
    words = "–" if row.wall.value is None else f"{row.wall.value:.2f}x"
    end = max([0.0, *_values(row)])
    parts.append(svg.text(x(end) + 10, y + 4, words, kind="strong"))
    return parts


def _short(name: str, limit: int = 20) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


def run_lengths(mode: ModeReport, drafter: str) -> str:
    """How many tokens of a drafter's drafts were kept: a bar a length, its share of the cycles it drafted in."""
    counts = _numbers(mode.run_lengths.get(drafter, {}))
    longest, total = max(counts, default=0), sum(counts.values())
    shares = {length: counts.get(length, 0) / total for length in range(longest + 1)} if total else {}
    top = svg.ticks(max(shares.values(), default=1.0), 4)
    height = TOP + PLOT + BOTTOM
    left = 60
    step = (WIDTH - left - 20) / (longest + 1)

    def y(value: float) -> float:
        return TOP + PLOT * (1 - value / top[-1])

    parts = _rules(top, y, left, lambda tick: f"{tick:.0%}")
    for length, share in shares.items():
        x = left + step * length
        told = f"{length} kept: {counts.get(length, 0)} of {total} drafts, {share:.1%}"
        parts.append(svg.bar(x + step * 0.12, y(share), step * 0.76, y(0) - y(share), _bar_class(drafter), told))
        if longest <= 20 or length % 4 == 0:
            parts.append(svg.text(x + step / 2, y(0) + 16, str(length), at="middle", kind="small"))
    parts.append(svg.text(left, height - 8, f"tokens kept of a draft ({drafter}, {total} drafts)", kind="small"))
    mean = sum(length * count for length, count in counts.items()) / total if total else 0.0
    described = f"{total} drafts, {mean:.2f} tokens kept on average, {longest} at most"
    return svg.figure(WIDTH, height, f"Accepted run lengths, {drafter}, {mode.name}", described, parts)


def cost_curve(curve: Curve, mode: ModeReport | None) -> str:
    """The relative cost of a pass by its width, one line a context; behind it the widths that were used, as shares of
    all drafted cycles."""
    widths = range(1, WIDEST + 1)
    chosen: dict[int, int] = {}
    for counts in mode.draft_lengths.values() if mode else ():
        for length, count in _numbers(counts).items():
            chosen[1 + length] = chosen.get(1 + length, 0) + count
    total = sum(chosen.values())
    contexts = _few(curve.contexts)
    top = svg.ticks(max(curve.relative(width, context) for width in widths for context in contexts), 5)
    height, left, right = TOP + PLOT + BOTTOM, 60, 60
    step = (WIDTH - left - right) / WIDEST

    def x(width: float) -> float:
        return left + step * (width - 0.5)

    def y(value: float) -> float:
        return TOP + PLOT * (1 - value / top[-1])

    parts = _rules(top, y, left, lambda tick: f"{tick:g}", right)
    most = max(chosen.values(), default=0)
    for width, count in sorted(chosen.items()):
        tall = PLOT * 0.8 * count / most
        told = f"draft length {width - 1}: {count} of {total} drafts, {count / total:.1%}"
        parts.append(svg.bar(x(width) - step * 0.38, y(0) - tall, step * 0.76, tall, "chosen", told))
    for number, context in enumerate(contexts):
        kind = f"curve c{number}"
        parts.append(svg.path([(x(width), y(curve.relative(width, context))) for width in widths], kind))
        for width in curve.widths if number == 0 else ():
            if width <= WIDEST:
                told = f"{width} tokens cost {curve.relative(width, context):.2f} plain passes"
                parts.append(svg.dot(x(width), y(curve.relative(width, context)), 3, "point", told))
        if len(contexts) > 1:
            end = y(curve.relative(WIDEST, context))
            parts.append(svg.text(WIDTH - right + 4, end + 4, f"{context:,}", kind="small"))
    for width in (1, *range(4, WIDEST + 1, 4)):
        parts.append(svg.text(x(width), y(0) + 16, str(width), at="middle", kind="small"))
    if len(contexts) > 1:
        parts.append(svg.text(WIDTH - right + 4, TOP - 14, "context", kind="small"))
    words = "tokens in a pass; line: its cost in plain passes"
    words += f"; bars: how often it was that wide ({total} drafts)" if total else ""
    parts.append(svg.text(left, height - 8, words, kind="small"))
    shown = (2, 4, 8, 16, 32)
    costs = ", ".join(f"{width} tokens {curve.relative(width, contexts[0]):.2f}" for width in shown)
    title = "Cost of a pass by its width" + (f", and the widths of {mode.name}" if mode else "")
    return svg.figure(WIDTH, height, title, f"In plain passes, {curve.name}: {costs}", parts)


def _few(contexts: tuple[int, ...]) -> tuple[int, ...]:
    """The shortest, the middle and the longest context: more lines are not told apart."""
    return tuple(dict.fromkeys((contexts[0], contexts[len(contexts) // 2], contexts[-1])))


def _rules(top: list[float], y: Scale, left: float, words: Callable[[float], str], right: float = 20) -> list[str]:
    parts = []
    for tick in top:
        parts.append(svg.line(left, y(tick), WIDTH - right, y(tick), "grid"))
        parts.append(svg.text(left - 8, y(tick) + 4, words(tick), at="end", kind="small"))
    return parts


def _numbers(counts: Mapping[str, int]) -> dict[int, int]:
    """Counts by length, out of JSON's texts; what is no length is left out."""
    return {int(length): count for length, count in counts.items() if length.isdecimal() and int(length) <= 1024}


def _bar_class(drafter: str) -> str:
    return "lookup" if drafter == "lookup" else "draft"
