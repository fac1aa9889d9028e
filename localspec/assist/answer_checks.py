"""What is wrong with a new text although a model handed it out as complete, and what can be put right.

Models leave text out ("# ... rest of the file unchanged"), and they move a fragment to the left margin. The first is
refused, because nobody can tell what was meant to stand there; the second is undone where it is plain.
"""

import ast
import re
import warnings
from collections.abc import Sequence

from localspec.assist.region import lines_of, opcodes

_COMMENT = r"(?:\#+|//+|--+|/\*+|<!--|;+|%+|\(\*|\{/\*|\"\"\"|\.\.\s)"
_END = r"(?:\*+/\}?|-->|\*\)|\"\"\")?"
_DOTS = r"(?:\.{3,}|…)"
_SUBJECT = (
    r"(?:code|file|text|class|function|method|implementation|content|logic|line|module|script|definition|part"
    r"|everything|import|test)(?:e?s)?"
)
_PHRASE = (
    rf"(?:(?:the\s+)?(?:rest|remainder)\s+of\s+(?:the|your|this)\b.*"
    rf"|(?:the\s+)?(?:other|remaining|existing|previous|original|unchanged|same)\s+(?:\w+\s+)?{_SUBJECT}\b.*"
    rf"|(?:.*\s)?(?:omitted|unchanged|remains?\s+(?:the\s+same|unchanged)|stays?\s+the\s+same|same\s+as\s+(?:before|above))\b.*)"
)
_MARKERS = (
    re.compile(rf"{_COMMENT}\s*[(\[]?\s*{_DOTS}.*?{_END}", re.IGNORECASE),
    re.compile(rf"{_COMMENT}\s*[(\[]?\s*{_PHRASE}", re.IGNORECASE),
    re.compile(rf"[(\[<]?\s*{_DOTS}\s*[(\[]?{_PHRASE}", re.IGNORECASE),
)
_BARE = re.compile(rf"[(\[<]?{_DOTS}[)\]>]?|pass\s*#\s*{_DOTS}.*", re.IGNORECASE)
"""Three dots alone, which are also a body in Python and a spread elsewhere."""

SHRINKS_BY = 2
"""Lines that a change loses from where three dots alone are read as a gap."""

_OPENERS = (":", "{", "(", "[", "=>", "then", "do")


def elision(old: str, new: str) -> str | None:
    """The line of `new` that stands for text left out, without its indentation; None when there is none. A line that
    the old text has as well is no such line, and neither is one where nothing was lost."""
    before, after = lines_of(old), lines_of(new)
    known = {line.strip() for line in before}
    found = [line.strip() for line in after if line.strip() not in known and _is_marker(line.strip())]
    shorter = _weight(after) - len(found) < _weight(before)
    for _, i1, i2, j1, j2 in opcodes(before, after):
        lost = (i2 - i1) - (j2 - j1)
        for line in (line.strip() for line in after[j1:j2]):
            if line in found and (shorter or lost >= 0):
                return line
            if lost >= SHRINKS_BY and line not in known and _BARE.fullmatch(line):
                return line
    return None


def _is_marker(line: str) -> bool:
    return any(marker.fullmatch(line) for marker in _MARKERS)


def _weight(lines: Sequence[str]) -> int:
    """Lines with text."""
    return sum(bool(line.strip()) for line in lines)


def reindented(old: str, new: str) -> str:
    """`new` at the indentation of `old`: a fragment moved to another margin as a whole is moved back, and a first line
    that lost its indentation (the rest has it) gets it again. Anything else is left as it is."""
    before, after = lines_of(old), lines_of(new)
    wanted, found = _margin(before), _margin(after)
    if wanted == found or not any(line.strip() for line in before) or not any(line.strip() for line in after):
        return new
    if _first_line_alone(before, after, wanted):
        return _moved(after[:1], "", _indent(before[0])) + "".join(after[1:])
    return _moved(after, found, wanted)


def syntax_problem(old: str, new: str, suffix: str) -> str | None:
    """Why `new` is no Python any more although `old` was; None when it is, or the file is something else."""
    if suffix not in (".py", ".pyi", ".pyw") or _parse_error(old) is not None:
        return None
    return _parse_error(new)


def _parse_error(text: str) -> str | None:
    with warnings.catch_warnings():
        # What Python thinks of an escape sequence in the file is no news here.
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return str(error) or type(error).__name__
    return None


def _first_line_alone(before: Sequence[str], after: Sequence[str], wanted: str) -> bool:
    """Whether only the first line lost its indentation: the rest stands where the old rest stands, and the first line
    opens a block exactly when the old one does (else the rest may be its new body)."""
    if len(after) < 2 or not before[0].strip() or not after[0].strip() or _indent(after[0]):
        return False
    rest_before, rest_after = _margin(before[1:]), _margin(after[1:])
    same = rest_after == rest_before if any(line.strip() for line in before[1:]) else rest_after == wanted
    return same and bool(rest_after) and _opens(before[0]) == _opens(after[0])


def _margin(lines: Sequence[str]) -> str:
    """The white space that all lines with text begin with."""
    margins = [_indent(line) for line in lines if line.strip()]
    low, high = min(margins, default=""), max(margins, default="")
    same = next((at for at, char in enumerate(low) if char != high[at]), len(low))
    return low[:same]


def _moved(lines: Sequence[str], old: str, new: str) -> str:
    return "".join(new + line.removeprefix(old) if line.strip() else line for line in lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _opens(line: str) -> bool:
    return line.rstrip().endswith(_OPENERS)
