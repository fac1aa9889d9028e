"""The difference of two texts as values: hunks that can be shown, counted, and applied one by one.

A line is what ends at a newline, its end included, so that changed line ends and a missing last newline are seen. The
text form is the unified format that `git apply` and `patch` read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from localspec.assist.region import lines_of, opcodes

CONTEXT = 3
"""Unchanged lines around a change, as diff, git and patch have it."""

NO_NEWLINE = "\\ No newline at end of file\n"

_ESCAPES = {chr(code): f"\\{code:03o}" for code in (*range(0x20), 0x7F)} | {'"': '\\"', "\\": "\\\\"}

Sign = Literal[" ", "-", "+"]


class DoesNotApply(Exception):
    """The hunks were not made for this text; `str(error)` is one line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a hunk with its end: kept, taken away or added."""

    sign: Sign
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change with the unchanged lines around it. `old_start` and `new_start` count from 1; where a side has no lines
    they name the line before, as the format wants it."""

    old_start: int
    new_start: int
    rows: tuple[Row, ...]

    @property
    def old_lines(self) -> list[str]:
        return [row.text for row in self.rows if row.sign != "+"]

    @property
    def new_lines(self) -> list[str]:
        return [row.text for row in self.rows if row.sign != "-"]

    @property
    def header(self) -> str:
        """`@@ -1,3 +1,4 @@`, without a line end."""
        return f"@@ -{_span(self.old_start, len(self.old_lines))} +{_span(self.new_start, len(self.new_lines))} @@"

    @property
    def added(self) -> int:
        return sum(row.sign == "+" for row in self.rows)

    @property
    def removed(self) -> int:
        return sum(row.sign == "-" for row in self.rows)


def hunks(old: str, new: str, context: int = CONTEXT) -> list[Hunk]:
    """What turns `old` into `new`, in order; empty when they are equal."""
    before, after = lines_of(old), lines_of(new)
    changes = [code for code in opcodes(before, after) if code[0] != "equal"]
    found: list[Hunk] = []
    group: list[tuple[str, int, int, int, int]] = []
    for change in changes:
        if group and change[1] - group[-1][2] > 2 * context:
            found.append(_hunk(before, after, group, context))
            group = []
        group.append(change)
    return [*found, _hunk(before, after, group, context)] if group else found


def apply(text: str, chosen: Sequence[Hunk]) -> str:
    """The text with the chosen hunks (any of those made from it, in order) applied; what they do not touch is the same
    to the byte. Raises `DoesNotApply` when a hunk's old lines are not where it says."""
    lines = lines_of(text)
    out: list[str] = []
    at = 0
    for hunk in chosen:
        old = hunk.old_lines
        start = hunk.old_start - 1 if old else hunk.old_start
        if start < at or lines[start : start + len(old)] != old:
            raise DoesNotApply(f"the change at line {hunk.old_start} does not fit the text any more")
        out += lines[at:start]
        out += hunk.new_lines
        at = start + len(old)
    return "".join(out + lines[at:])


def unified(name: str, chosen: Sequence[Hunk]) -> str:
    """The hunks in the unified format, for the file `name` (with /, relative to where the patch is applied); "" for no
    hunks."""
    return "".join(text for _, text in rows(name, chosen))


def rows(name: str, chosen: Sequence[Hunk]) -> Iterator[tuple[str, str]]:
    """The unified format line by line, each with what it is: "file", "hunk", " ", "-", "+" or "note"."""
    if not chosen:
        return
    yield "file", f"--- {quoted('a/' + name)}\n"
    yield "file", f"+++ {quoted('b/' + name)}\n"
    for hunk in chosen:
        yield "hunk", hunk.header + "\n"
        for row in hunk.rows:
            ended = row.text.endswith("\n")
            yield row.sign, row.sign + row.text + ("" if ended else "\n")
            if not ended:
                yield "note", NO_NEWLINE


def quoted(name: str) -> str:
    """A file name as git writes it: in quotes with C's escapes when it has characters that would end it, and followed
    by a tab when it has blanks."""
    if not any(char in _ESCAPES for char in name):
        return name + "\t" if " " in name else name
    return '"' + "".join(_ESCAPES.get(char, char) for char in name) + '"'


def _hunk(
    before: Sequence[str], after: Sequence[str], group: Sequence[tuple[str, int, int, int, int]], context: int
) -> Hunk:
    first, last = group[0], group[-1]
    lead = min(context, first[1])
    trail = min(context, len(before) - last[2])
    rows: list[Row] = [Row(" ", line) for line in before[first[1] - lead : first[1]]]
    at = first[1]
    for _, i1, i2, j1, j2 in group:
        rows += [Row(" ", line) for line in before[at:i1]]
        rows += [Row("-", line) for line in before[i1:i2]]
        rows += [Row("+", line) for line in after[j1:j2]]
        at = i2
    rows += [Row(" ", line) for line in before[at : at + trail]]
    has_old = any(row.sign != "+" for row in rows)
    has_new = any(row.sign != "-" for row in rows)
    return Hunk(first[1] - lead + has_old, first[3] - lead + has_new, tuple(rows))


def _span(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"
