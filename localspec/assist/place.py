"""A place in a text: the gap that a completion fills."""

import re
from dataclasses import dataclass


class BadPlace(Exception):
    """The text has no such place. `str(error)` is one line."""


@dataclass(frozen=True, slots=True)
class Place:
    """A gap between two characters of a text; `prefix + suffix` is the text. `line` counts from 1."""

    prefix: str
    suffix: str
    line: int

    @property
    def line_start(self) -> str:
        """What stands before the gap in its line."""
        return self.prefix[self.prefix.rfind("\n") + 1 :]

    @property
    def line_rest(self) -> str:
        """What stands behind the gap in its line, without the line's end."""
        return self.suffix.split("\n", 1)[0].removesuffix("\r")

    @property
    def newline(self) -> str:
        """The line end the text uses: CRLF when its first line ends so."""
        text = self.prefix + self.suffix
        first = text.find("\n")
        return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def place_in(text: str, line: int, column: int | None = None) -> Place:
    """The place in front of character `column` of `line`, both counted from 1; without a column the line's end.

    The line after a final line end counts: it is empty. Raises `BadPlace`.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    if not 1 <= line <= len(starts):
        raise BadPlace(f"there is no line {line}: the text has {len(starts)}")
    start = starts[line - 1]
    end = starts[line] - 1 if line < len(starts) else len(text)
    if text[start:end].endswith("\r"):
        end -= 1
    length = end - start
    if column is None:
        column = length + 1
    if not 1 <= column <= length + 1:
        raise BadPlace(f"line {line} has no column {column}: it has {length} characters, so 1 to {length + 1}")
    at = start + column - 1
    return Place(text[:at], text[at:], line)


_SPOT = re.compile(r"([0-9]+)(?::([0-9]+))?")
_FILE_SPOT = re.compile(r"(.+?):([0-9]+)(?::([0-9]+))?", re.DOTALL)


def parse_spot(spot: str) -> tuple[int, int | None]:
    """`LINE[:COL]` as numbers. Raises `BadPlace`."""
    match = _SPOT.fullmatch(spot)
    if match is None:
        raise BadPlace(f"{spot!r} is no place: write LINE or LINE:COL, counted from 1")
    return int(match[1]), int(match[2]) if match[2] else None


def parse_file_spot(argument: str) -> tuple[str, int, int | None]:
    """`FILE:LINE[:COL]` taken apart; a colon in the file's name does no harm. Raises `BadPlace`."""
    match = _FILE_SPOT.fullmatch(argument)
    if match is None:
        raise BadPlace(f"{argument!r} names no place: write FILE:LINE or FILE:LINE:COL, counted from 1")
    return match[1], int(match[2]), int(match[3]) if match[3] else None
