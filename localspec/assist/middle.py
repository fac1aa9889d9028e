"""Where a filled-in middle ends: models go on beyond the gap, into the next block or into what stands there already.

The rules only cut the text of the target; they change none of it. Whoever cuts says so (`Middle.ended`, `dropped`).
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from localspec.assist.place import Place

Ended = Literal["model", "lines", "block", "suffix"]
"""Why a middle ends: the model came to an end (or to the token limit), so many lines were wanted, the block is
complete, or the text went on with what stands behind the gap."""

_WORD = re.compile(r"\w")
_OPENS = (":", "{", "(", "[", "=>", "->")
_FUNCTION = re.compile(r"[ \t]*(?:[a-z]+[ \t]+)*(?:def|function|fn|func|fun|class|struct|impl|interface)\b")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Middle:
    """What goes into the gap, why it ends there, and what the model wrote after that."""

    text: str
    ended: Ended
    dropped: str = ""


@dataclass(frozen=True)
class Rules:
    """How much is wanted. `lines` None: the rest of the line when the gap has text behind it in its line, else to the
    block's end; 0: all that the model writes; else so many lines at most."""

    place: Place
    lines: int | None = None

    @property
    def limit(self) -> int:
        """Lines at most; 0: no limit."""
        if self.lines is not None:
            return self.lines
        return 1 if self.place.line_rest.strip() else 0

    def complete(self, text: str) -> bool:
        """Whether nothing that may still come would be kept. `text` is the answer so far."""
        return self._cut(text) is not None

    def middle(self, text: str) -> Middle:
        """What of the whole answer `text` goes into the gap."""
        cut: tuple[int, Ended] | None = self._cut(text)
        end, ended = cut if cut is not None else (len(text), "model")
        kept = text[:end]
        repeated = overlap(kept, self.place)
        if repeated:
            if kept[len(kept) - repeated :].strip():
                ended = "suffix"
            kept = kept[: len(kept) - repeated]
        return Middle(kept, ended, text[len(kept) :])

    def _cut(self, text: str) -> tuple[int, Ended] | None:
        """Where the first rule to do so ends the text, None while none does."""
        cuts: list[tuple[int, Ended]] = []
        if self.limit and (at := _nth(text, "\n", self.limit)) >= 0:
            cuts.append((at, "lines"))
        if self.lines is None and not self.limit and (end := _block_end(text, self.place)) is not None:
            cuts.append((end, "block"))
        if self._behind and (at := text.find(self._behind)) >= 0:
            cuts.append((len(text[:at].rstrip()), "suffix"))
        return min(cuts, default=None)

    @cached_property
    def _behind(self) -> str:
        """The first two lines with words behind the gap: an answer that has both goes on with what is there already.
        "" when there are none."""
        body = self.place.suffix.lstrip()
        ends = [match.end() for match in re.finditer("[^\n]*\n", body) if _WORD.search(match.group())]
        return body[: ends[1]] if len(ends) > 1 else ""


def _nth(text: str, part: str, count: int) -> int:
    at = -1
    for _ in range(count):
        at = text.find(part, at + 1)
        if at < 0:
            break
    return at


def _block_end(text: str, place: Place) -> int | None:
    """Where a line begins that is no part of the block any more; None when there is none (yet).

    A line ends it that is indented less than what stands behind the gap, or no further than the block's head after an
    empty line. The head is the gap's own line when that opens a block, else that of the function around. A closing
    bracket stays in when nothing stands behind the gap that could close it. The empty lines before the end stay out.
    The last line of `text` may be unfinished, so a line counts from its first character after the indent.
    """
    least, head = _limits(place)
    at, seen, gap = text.find("\n"), bool(text.split("\n", 1)[0].strip()), False
    while at >= 0:
        following = text.find("\n", at + 1)
        line = text[at + 1 : following if following >= 0 else len(text)]
        body = line.strip()
        if not body:
            gap = True
        else:
            ends = _indent(line) < least or (gap and _indent(line) <= head)
            if seen and ends and not (body[0] in _PAIRS and not place.suffix.strip()):
                return len(text[:at].rstrip())
            seen, gap = True, False
        at = following
    return None


def _limits(place: Place) -> tuple[int, int]:
    """The indentation a line of the block has at least, and that of the block's head."""
    own = _indent(place.line_start)
    if place.line_start.rstrip().endswith(_OPENS):
        return own, own
    behind = next((_indent(line) for line in place.suffix.split("\n")[1:] if line.strip()), None)
    if not place.line_start:
        # An empty line has no indentation to go by.
        own = behind or 0
    heads = (line for line in reversed(place.prefix.split("\n")[:-1]) if _FUNCTION.match(line))
    head = next((_indent(line) for line in heads if _indent(line) < own), 0)
    return head if behind is None else min(behind, own), head


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def overlap(text: str, place: Place) -> int:
    """How many characters at the end of `text` repeat the beginning of what stands behind the gap.

    White space counts when the gap ends its line. Anything else counts when it is a whole line with a word in it, or
    closing brackets of which `text` opened none: `f(a)` in front of `)` is kept whole, for it may well be meant.
    """
    suffix = place.suffix
    body = suffix.lstrip()
    longest = 0
    for behind in dict.fromkeys((suffix, body)):
        for length in range(min(len(text), len(behind)), 0, -1):
            if text.endswith(behind[:length]) and _counts(text, behind[:length], behind):
                longest = max(longest, length + (_blank_before(text, length) if behind is body else 0))
                break
    return longest


def _blank_before(text: str, length: int) -> int:
    """Empty lines and indentation in front of a repeated line: they stand behind the gap too."""
    rest = text[: len(text) - length]
    return len(rest) - len(rest.rstrip()) if "\n" in rest[len(rest.rstrip()) :] else 0


def _counts(text: str, repeated: str, behind: str) -> bool:
    if not repeated.strip():
        return repeated.startswith(("\n", "\r\n"))
    line = behind.lstrip().split("\n", 1)[0].rstrip()
    if not repeated.lstrip().startswith(line):
        return False
    if _WORD.search(repeated):
        # Not the end of a longer word: `max` in front of `x` repeats nothing.
        joined = text[-len(repeated) - 1 : len(text) - len(repeated) + 1]
        return not (len(joined) == 2 and re.fullmatch(r"\w\w", joined))
    return any(closing in line and text.count(closing) > text.count(opening) for closing, opening in _PAIRS.items())
