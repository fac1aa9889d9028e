"""A text in pieces that make sense alone, for texts that are larger than the context."""

from collections.abc import Callable, Iterator, Sequence

from localspec.assist.region import Region


def fitting(lines: Sequence[str], region: Region, fits: Callable[[Region], bool]) -> Iterator[Region]:
    """The region in pieces that fit, each of as many neighbouring blocks as go together; a block that does not fit (a
    class, say) is taken apart the same way (into its methods). What cannot be taken apart comes out although it does
    not fit: whether it can be edited at all is the caller's to say."""
    if fits(region):
        yield region
        return
    parts = blocks(lines, region)
    if len(parts) == 1:
        yield region
        return
    for piece in pack(parts, fits):
        if piece in parts:
            yield from fitting(lines, piece, fits)
        else:
            yield piece


def blocks(lines: Sequence[str], region: Region) -> list[Region]:
    """The region's blocks: a block begins with a line at the lowest indentation that stands after a blank line; when
    that makes one block, with one at the next indentation. Every line of the region is in one block, the blank lines
    with the block before them."""
    texts = [line for line in lines[region.first - 1 : region.last] if line.strip()]
    for level in sorted({_indent(line) for line in texts}):
        found = _blocks(lines, region, level)
        if len(found) > 1:
            return found
    return [region] if region.first <= region.last else []


def _blocks(lines: Sequence[str], region: Region, lowest: int) -> list[Region]:
    inside = range(region.first, region.last + 1)
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
