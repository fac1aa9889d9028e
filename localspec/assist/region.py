"""Which lines of a text an edit may change, and how new lines get the line ends of the old ones.

Lines end at a newline and nowhere else, as for editors and patches; a carriage return before it belongs to the end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from localspec.assist.edit_file import CannotEdit

AUTOJUNK_LINES = 4000
"""From so many lines on, comparing leaves out lines that stand everywhere: exactness there costs minutes."""


@dataclass(frozen=True, slots=True)
class Region:
    """Lines `first` to `last`, counted from 1, both included; `last = first - 1` is the empty place before `first`."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"


def lines_of(text: str) -> list[str]:
    """The lines with their ends; joined they are the text."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def parse(spec: str, count: int) -> Region:
    """`A-B`, `A-` or `A` as a region of a text with `count` lines. Raises `CannotEdit` when there are no such lines."""
    match = re.fullmatch(r"\s*(\d+)\s*(?:(-)\s*(\d*)\s*)?", spec)
    if match is None:
        raise CannotEdit(f"the lines must be given as A-B, not {spec!r}")
    first = int(match.group(1))
    last = int(match.group(3)) if match.group(3) else count if match.group(2) else first
    if not 1 <= first <= last <= count:
        has = f"{count} line" + ("s" if count != 1 else "")
        raise CannotEdit(f"there are no lines {spec.strip()}: the text has {has}, counted from 1")
    return Region(first, last)


def whole(lines: Sequence[str]) -> Region:
    """All lines."""
    return Region(1, len(lines))


def core(lines: Sequence[str], region: Region) -> Region:
    """The region without blank lines at its ends, which models add and drop as they like; as it is when all of its
    lines are blank."""
    first, last = region.first, region.last
    while first < last and not lines[first - 1].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return Region(first, last) if last >= first and lines[first - 1].strip() else region


def cut(lines: Sequence[str], region: Region) -> tuple[str, str, str]:
    """The text before the region, in it, and after it."""
    before, inside = lines[: region.first - 1], lines[region.first - 1 : region.last]
    return "".join(before), "".join(inside), "".join(lines[region.last :])


def unified(text: str) -> str:
    """The text as a model sees it: every line ends with a newline alone."""
    return text.replace("\r\n", "\n")


def newline_of(text: str) -> str:
    """The line end that most lines have; a newline when there is none yet."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def with_ends(old: str, new: str, newline: str) -> str:
    """`new` (line ends unified) with the line ends of `old`, the text it replaces: a line that stays keeps its own, a
    new line gets `newline`, and the last line has an end exactly when the last line of `old` has one."""
    before = lines_of(old)
    bare = [_bare(line) for line in before]
    after = [line.removesuffix("\n") for line in lines_of(new)]
    ends = [newline] * len(after)
    for kind, i1, i2, j1, _ in opcodes(bare, after):
        if kind == "equal":
            for offset in range(i2 - i1):
                ends[j1 + offset] = before[i1 + offset][len(bare[i1 + offset]) :] or newline
    if ends and before and not before[-1].endswith("\n"):
        ends[-1] = ""
    return "".join(line + end for line, end in zip(after, ends, strict=True))


def opcodes(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """`SequenceMatcher.get_opcodes`, with what both ends have in common taken off first: most of an edit is a copy."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    autojunk = max(len(middle_old), len(middle_new)) > AUTOJUNK_LINES
    found = [("equal", 0, head, 0, head)] if head else []
    if middle_old or middle_new:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk)
        found += [(k, i1 + head, i2 + head, j1 + head, j2 + head) for k, i1, i2, j1, j2 in matcher.get_opcodes()]
    if tail:
        found.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return found


def _bare(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line
