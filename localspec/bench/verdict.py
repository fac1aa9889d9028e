"""What a report means, in sentences."""

from collections.abc import Sequence

from localspec.bench.results import ModeReport, Row

RESOLVED = 0.995
"""A speed-up in virtual time that rounds to 1.00 is as fast as plain."""


def is_slower(row: Row) -> bool:
    """Whether a row is slower than plain: in virtual time, which resolves single per cents, or with the whole interval
    of the wall clock below 1."""
    return (row.virtual is not None and row.virtual < RESOLVED) or (row.wall.high is not None and row.wall.high < 1)


def slower(mode: ModeReport) -> str:
    """Whether any category was slower than plain, and any prompt, in two sentences."""
    known = _known(mode.categories)
    if not known:
        return f"{mode.name}: nothing was compared."
    slow = [row for row in known if is_slower(row)]
    if slow:
        first = f"{mode.name}: slower than plain in {'; '.join(_told(row, row.category) for row in slow)}."
    else:
        slowest = min(known, key=lambda row: row.virtual if row.virtual is not None else row.wall.value or 0.0)
        least = _told(slowest, slowest.category)
        first = f"{mode.name}: no category was slower than plain; the least gained {least}."
    prompts = _known(mode.prompts)
    if bad := [row for row in prompts if is_slower(row)]:
        return f"{first} Prompts that were: {'; '.join(_told(row, row.id) for row in bad)}."
    return first if slow or not prompts else f"{first} No prompt was slower either."


def _known(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.wall.value is not None or row.virtual is not None]


def _told(row: Row, name: str) -> str:
    clocks = []
    if row.virtual is not None:
        clocks.append(f"{row.virtual:.2f}x in virtual time")
    if row.wall.value is not None:
        ends = "" if row.wall.low is None else f" ({row.wall.low:.2f} to {row.wall.high:.2f})"
        clocks.append(f"{row.wall.value:.2f}x by the wall clock{ends}")
    return f"{name}: {', '.join(clocks)}"
