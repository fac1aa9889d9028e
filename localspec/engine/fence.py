"""Lines that open and close a code block in Markdown (CommonMark 0.31, section 4.5)."""

import re
from dataclasses import dataclass

_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*?)[ \t\r]*$")


@dataclass(frozen=True, slots=True)
class Fence:
    """A line of `length` or more times `mark`, a backtick or tilde, with `info` behind it."""

    mark: str
    length: int
    info: str

    def closes(self, opening: "Fence") -> bool:
        """Whether it ends the block that `opening` began: as many marks at least, and nothing behind them."""
        return self.mark == opening.mark and self.length >= opening.length and not self.info


def fence(line: str) -> Fence | None:
    """What the line, without its end, is as a fence; None: text."""
    found = _LINE.match(line)
    return Fence(found[1][:1], len(found[1]), found[2]) if found else None
