"""Text that an edit box cannot hold as it is: kept beside it, with a mark in its place.

A text area splits lines at a dozen characters and forgets which; it would also draw control characters. So a paste
that has any of them, or is long, stands in the prompt as a mark like `[paste 1: 3,000 lines]`, and goes out exactly.
"""

import re

MAX_LINES = 24
"""A longer paste hides what the person writes about it."""

_MARK = re.compile(r"\[(?:paste|text) [0-9]+: [^\]\n]*\]")
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class Pastes:
    """The texts behind the marks of one prompt."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def shown(self, text: str, word: str = "paste") -> str:
        """What to put into the box for a text: itself, or a mark."""
        if not _ODD.search(text) and text.count("\n") < MAX_LINES:
            return text
        self._count += 1
        lines = text.count("\n") + (not text.endswith("\n"))
        mark = f"[{word} {self._count}: {lines:,} line{'s' if lines != 1 else ''}]"
        self._texts[mark] = text
        return mark

    def restored(self, shown: str) -> str:
        """The box's text with every mark replaced by what it stands for."""
        return _MARK.sub(lambda match: self._texts.get(match.group(), match.group()), shown)

    def clear(self) -> None:
        self._texts.clear()


def as_sent(text: str) -> str:
    """A paste as the terminal meant it: most of them send a newline as a carriage return."""
    return text.replace("\r", "\n") if "\n" not in text else text
