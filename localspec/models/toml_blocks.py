"""TOML that people edit: one damaged table costs that table, not the file, and every message knows its line.

`tomllib` refuses a whole file for one mistake and keeps no positions. A file it refuses is read again table by table.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(#.*)?$")
_LINE_IN_MESSAGE = re.compile(r"\(at line (\d+)[^)]*\)|\(at end of document\)")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file a person edits. `str()` is one line: file, line, key, reason."""

    file: Path
    line: int | None
    key: str
    reason: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{place}: {self.key}: {self.reason}" if self.key else f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Document:
    """What could be read of a TOML file: `data`, and the `problems` of the rest. `text` is kept to find lines in."""

    file: Path
    text: str
    data: dict[str, Any]
    problems: tuple[Problem, ...]

    def line_of(self, *keys: str) -> int | None:
        """The line (from 1) of the table `keys`, or of the longest part of that path which is found."""
        lines = self.text.splitlines()
        for depth in range(len(keys), 0, -1):
            header = _find_header(lines, keys[:depth])
            if header is None:
                continue
            rest = keys[depth:]
            return (_find_assignment(lines, header, rest[0]) if rest else None) or header
        return _find_assignment(lines, 0, keys[0]) if keys else None


def read(file: Path) -> Document:
    """Read `file` as far as possible. A missing or empty file is an empty document without problems."""
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return Document(file, "", {}, ())
    except OSError as error:
        return Document(file, "", {}, (Problem(file, None, "", f"cannot be read: {error.strerror or error}"),))
    # Bytes that are not UTF-8 become lone surrogates, which mark the tables to leave out.
    text = raw.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    try:
        text.encode("utf-8")
        return Document(file, text, tomllib.loads(text), ())
    except (tomllib.TOMLDecodeError, UnicodeEncodeError, RecursionError):
        return _read_by_table(file, text)


def _read_by_table(file: Path, text: str) -> Document:
    data: dict[str, Any] = {}
    problems: list[Problem] = []
    for start, block in _blocks(text):
        header = _HEADER.match(block.splitlines()[0]) if block else None
        name = _printable(header["name"]) if header else ""
        try:
            block.encode("utf-8")
        except UnicodeEncodeError as error:
            line = start + block[: error.start].count("\n")
            problems.append(Problem(file, line, name, "is not UTF-8; save the file as UTF-8"))
            continue
        try:
            table = tomllib.loads(block)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            found = _LINE_IN_MESSAGE.search(str(error))
            offset = int(found[1]) - 1 if found and found[1] else len(block.rstrip().splitlines()) - 1
            reason = _LINE_IN_MESSAGE.sub("", str(error)).strip() or "nested too deeply"
            problems.append(Problem(file, start + max(offset, 0), name, f"not valid TOML: {_printable(reason)}"))
            continue
        clash = _merge(data, table)
        if clash:
            problems.append(Problem(file, start, clash, "is there twice; the first one counts"))
    return Document(file, text, data, tuple(problems))


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Stretches from one table header to the next, each with the number of its first line (from 1)."""
    start, lines = 1, list[str]()
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        # Also a header that lacks its closing bracket, which would drag the table before it along.
        if (line.startswith("[") or _HEADER.match(line)) and lines:
            yield start, "".join(lines)
            start, lines = number, []
        lines.append(line)
    if lines:
        yield start, "".join(lines)


def _merge(into: dict[str, Any], table: Mapping[str, Any], path: str = "") -> str | None:
    """Add `table` to `into`; the dotted name of the first thing that was there already, which stays as it was."""
    clash = None
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if key not in into:
            into[key] = value
        elif isinstance(into[key], dict) and isinstance(value, dict) and not path:
            clash = clash or _merge(into[key], value, name)
        elif isinstance(into[key], list) and isinstance(value, list):
            into[key].extend(value)
        else:
            clash = clash or name
    return clash


def split_header(name: str) -> tuple[str, ...]:
    """The keys of a table header: `files."a.b"` is `("files", "a.b")`."""
    found = re.findall(r"\"([^\"]*)\"|'([^']*)'|([^.\s\"']+)", name)
    return tuple(quoted or single or bare for quoted, single, bare in found)


def _find_header(lines: list[str], keys: tuple[str, ...]) -> int | None:
    for number, line in enumerate(lines, start=1):
        header = _HEADER.match(line)
        if header and split_header(header["name"]) == keys:
            return number
    return None


def _find_assignment(lines: list[str], header: int, key: str) -> int | None:
    wanted = re.compile(rf"^\s*[\"']?{re.escape(key)}[\"']?\s*[=.]")
    for number, line in enumerate(lines[header:], start=header + 1):
        if _HEADER.match(line):
            return None
        if wanted.match(line):
            return number
    return None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
