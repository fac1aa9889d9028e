"""A text in pieces that make sense alone, for texts that are larger than the context."""

from collections.abc import Callable, Iterator, Sequence

from localspec.assist.region import Region


def blocks(lines: Sequence[str], region: Region) -> list[Region]:
    """The region's blocks: a block begins with a line at the lowest indentation that stands after a blank line. Every
    line of the region is in one block, the blank lines with the block before them."""
    inside = range(region.first, region.last + 1)
    lowest = min((_indent(lines[number - 1]) for number in inside if lines[number - 1].strip()), default=0)
    found: list[Region] = []
    first = region.first
    blank = False
    for number in inside:
        line = lines[number - 1]
        if line.strip() and blank and number > first and _indent(line) <= lowest:
            found.append(Region(first, number - 1))
            first = number
        blank = not line.strip()
    if first <= region.last:
        found.append(Region(first, region.last))
    return found


def pack(parts: Sequence[Region], fits: Callable[[Region], bool]) -> Iterator[Region]:
    """Neighbouring blocks joined while they fit. A block that does not fit alone comes out alone: whether it can be
    edited at all is the caller's to say. `fits` may be costly: it is asked a logarithm of times for each piece."""
    at = 0
    while at < len(parts):
        low, high, step = 1, None, 1
        # How many blocks fit: doubling until they do not, then halving in between.
        while high is None or high - low > 1:
            count = low + step if high is None else (low + high) // 2
            if count > len(parts) - at:
                count = len(parts) - at
                if count <= low:
                    break
            if fits(Region(parts[at].first, parts[at + count - 1].last)):
                low, step = count, step * 2
            else:
                high = count
        yield Region(parts[at].first, parts[at + low - 1].last)
        at += low


def _indent(line: str) -> int:
    """Columns of white space before the text, tabs to the next multiple of 8."""
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip(" "))
