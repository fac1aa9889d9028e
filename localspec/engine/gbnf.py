"""Grammars in GBNF, checked before llama.cpp sees them: its parser lets through what it cannot survive.

Rules that begin with themselves behind something empty fill the memory, deep nesting overflows the stack, an empty
text bounds nothing, and token elements (`<[7]>`) can end the process at a token that only its mask took. The check
parses the text as `llama_grammar_parser` does, so that what is wrong is also said with its line.
"""

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from localspec.engine.errors import EngineError

ROOT = "root"

MAX_BYTES = 1 << 19
MAX_RULES = 5_000
"""llama.cpp follows rules by recursion: a chain of 100,000 overflows its stack."""

MAX_DEPTH = 1_000
"""Groups inside groups; 50,000 overflow the stack."""

MAX_REPEAT = 2_000
"""llama.cpp refuses a larger minimum, and takes a larger maximum for none at all."""

_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_HEX = {"x": 2, "u": 4, "U": 8}


def check(text: str) -> None:
    """Raise `EngineError` with one line of reason unless llama.cpp can use the grammar `text`."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise EngineError(f"the grammar is longer than {MAX_BYTES:,} bytes")
    if "\0" in text:
        raise EngineError("the grammar has a zero byte in it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise EngineError("the grammar is not valid Unicode") from None
    rules = _Parser(text).rules()
    if ROOT not in rules:
        raise EngineError(f"the grammar has no rule named {ROOT}")
    _check_references(rules)
    _check_left_recursion(rules)


@dataclass(slots=True)
class _Item:
    """One element of a sequence: a rule by name, or characters (`rule` None)."""

    rule: str | None
    optional: bool = False


_Rules = dict[str, list[list[_Item]]]


@dataclass(slots=True)
class _Open:
    """A rule or group whose alternatives are being read."""

    name: str
    alternatives: list[list[_Item]] = field(default_factory=lambda: [[]])


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._rules: _Rules = {}
        self._groups = 0

    def rules(self) -> _Rules:
        """Alternatives by rule; a group is a rule of its own, named so that no text can name it."""
        self._space(newlines=True)
        while self._at < len(self._text):
            self._rule()
        return self._rules

    def _fail(self, reason: str) -> EngineError:
        line = self._text.count("\n", 0, self._at) + 1
        return EngineError(f"the grammar, line {line}: {reason}")

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _space(self, *, newlines: bool) -> None:
        blank = " \t\r\n" if newlines else " \t"
        while (char := self._peek()) and (char in blank or char == "#"):
            if char == "#":
                while self._peek() not in ("", "\r", "\n"):
                    self._at += 1
            else:
                self._at += 1

    def _take(self, expected: str) -> None:
        if self._peek(len(expected)) != expected:
            raise self._fail(f"expected {expected}{self._found()}")
        self._at += len(expected)

    def _found(self) -> str:
        rest = self._text[self._at :].splitlines()
        return f", not {rest[0][:20]!r}" if rest and rest[0] else ", not the end of the line"

    def _name(self) -> str:
        start = self._at
        while _is_word(self._peek()):
            self._at += 1
        if start == self._at:
            raise self._fail(f"expected a name{self._found()}")
        return self._text[start : self._at]

    def _rule(self) -> None:
        name = self._name()
        self._space(newlines=False)
        self._take("::=")
        self._space(newlines=True)
        stack = [_Open(name)]
        while stack:
            if len(stack) > MAX_DEPTH:
                raise self._fail(f"groups nest deeper than {MAX_DEPTH:,}")
            self._element(stack)
        if self._peek() not in ("", "\r", "\n"):
            raise self._fail(f"expected the end of the rule{self._found()}")
        self._space(newlines=True)
        if len(self._rules) > MAX_RULES + self._groups:
            raise self._fail(f"more than {MAX_RULES:,} rules")

    def _element(self, stack: list[_Open]) -> None:
        """Read one element into the innermost open rule, or open or close one."""
        innermost = stack[-1]
        sequence = innermost.alternatives[-1]
        nested = len(stack) > 1
        char = self._peek()
        if char == "(":
            self._at += 1
            self._groups += 1
            stack.append(_Open(f"({self._groups}"))
            self._space(newlines=True)
            return
        if char == "|":
            self._at += 1
            innermost.alternatives.append([])
            self._space(newlines=True)
            return
        if char == '"':
            if self._literal():
                sequence.append(_Item(None))
            elif self._after_blanks() in "*+?{":
                raise self._fail("nothing stands before the repetition")
        elif char == "[":
            self._class()
            sequence.append(_Item(None))
        elif char == ".":
            self._at += 1
            sequence.append(_Item(None))
        elif _is_word(char):
            sequence.append(_Item(self._name()))
        elif char and char in "*+?{":
            if not sequence:
                raise self._fail("nothing stands before the repetition")
            if self._repetition() == 0:
                sequence[-1].optional = True
        elif char and char in "<!":
            raise self._fail("tokens by number or name (<...>) are not supported; write their text")
        else:
            if nested:
                self._take(")")
            self._rules[innermost.name] = innermost.alternatives
            stack.pop()
            if not stack:
                return
            stack[-1].alternatives[-1].append(_Item(innermost.name))
            nested = len(stack) > 1
        self._space(newlines=nested)

    def _after_blanks(self) -> str:
        rest = self._text[self._at :].lstrip(" \t")
        return rest[:1] or "."

    def _character(self) -> str:
        char = self._peek()
        if not char:
            raise self._fail("the grammar ends inside a text or character class")
        self._at += 1
        if char != "\\":
            return char
        escape = self._peek()
        self._at += 1
        if escape in _HEX:
            digits = self._peek(_HEX[escape])
            self._at += _HEX[escape]
            if len(digits) < _HEX[escape] or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise self._fail(f"\\{escape} needs {_HEX[escape]} hexadecimal digits")
            if int(digits, 16) > 0x10FFFF:
                raise self._fail(f"\\{escape}{digits} is no character")
            return chr(int(digits, 16))
        if not escape or escape not in _ESCAPES:
            raise self._fail(f"\\{escape} is no escape")
        return _ESCAPES[escape]

    def _literal(self) -> bool:
        """Read a quoted text; whether it has any characters."""
        self._at += 1
        start = self._at
        while self._peek() != '"':
            self._character()
        self._at += 1
        return self._at - 1 > start

    def _class(self) -> None:
        self._at += 1
        if self._peek() == "^":
            self._at += 1
        start = self._at
        while self._peek() != "]":
            low = self._character()
            if self._peek() == "-" and self._peek(2) != "-]":
                self._at += 1
                if self._character() < low:
                    raise self._fail("a range of characters runs backwards")
        if self._at == start:
            raise self._fail("an empty character class")
        self._at += 1

    def _repetition(self) -> int:
        """Read what repeats the element before it; returns the least number of times."""
        char = self._peek()
        self._at += 1
        if char != "{":
            return int(char == "+")
        self._space(newlines=True)
        low = high = self._number()
        if self._peek() == ",":
            self._at += 1
            self._space(newlines=True)
            if self._peek() != "}":
                high = self._number()
                if high < low:
                    raise self._fail(f"a repetition from {low} to {high}")
        self._take("}")
        return low

    def _number(self) -> int:
        start = self._at
        while self._peek() and self._peek() in "0123456789":
            self._at += 1
        if start == self._at:
            raise self._fail(f"expected a number{self._found()}")
        digits = self._text[start : self._at]
        if len(digits) > 9 or int(digits) > MAX_REPEAT:
            raise self._fail(f"a repetition of more than {MAX_REPEAT:,}")
        self._space(newlines=True)
        return int(digits)


def _is_word(char: str) -> bool:
    return char == "-" or (char.isascii() and char.isalnum())


def _check_references(rules: _Rules) -> None:
    for alternatives in rules.values():
        for sequence in alternatives:
            for item in sequence:
                if item.rule is not None and item.rule not in rules:
                    raise EngineError(f"the grammar has no rule named {item.rule}, which another one uses")


def _check_left_recursion(rules: _Rules) -> None:
    """llama.cpp finds it only where what stands before is empty outright, not where that comes of other rules."""
    empty: set[str] = set()
    known = -1
    while known != len(empty):
        known = len(empty)
        for name, alternatives in rules.items():
            if any(all(item.optional or item.rule in empty for item in sequence) for sequence in alternatives):
                empty.add(name)
    begins: dict[str, set[str]] = {}
    for name, alternatives in rules.items():
        begins[name] = set()
        for sequence in alternatives:
            for item in sequence:
                if item.rule is not None:
                    begins[name].add(item.rule)
                if not (item.optional or item.rule in empty):
                    break
    try:
        TopologicalSorter(begins).prepare()
    except CycleError as error:
        named = next((name for name in error.args[1] if not name.startswith("(")), ROOT)
        raise EngineError(f"the grammar's rule {named} begins with itself; let it begin with something else") from None
