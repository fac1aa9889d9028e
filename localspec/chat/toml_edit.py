"""Changing a TOML text that a person wrote: what is not changed stays as it stands, comments and order included.

tomlkit replaces values in place. What is new is put where a person would: a top-level key after the last one and before
the comment that belongs to the first table, a new table at the end, after an empty line.
"""

import tomllib
from collections.abc import Collection, Mapping
from typing import Any


class CannotEdit(Exception):
    """The text is no TOML, or holds something else where a table is wanted."""


def with_values(text: str, table: tuple[str, ...], values: Mapping[str, Any], drop: Collection[str] = ()) -> str:
    """`text` with `values` in the table at path `table` (() is the top level), and without its keys `drop`."""
    found = _find(_parsed(text), table)
    if not table:
        changed = _at_top(text, values, drop)
    elif found is None:
        changed = _appended(text, table, values) if values else text
    else:
        document = _document(text)
        inner = _find(document, table)
        assert inner is not None
        inner.update(values)
        for name in drop:
            inner.pop(name, None)
        changed = _dumped(document)
    _parsed(changed)
    return changed


def without_table(text: str, table: tuple[str, ...]) -> str:
    """`text` without the table at the path `table`."""
    document = _document(text)
    around = _find(document, table[:-1])
    if around is None or table[-1] not in around:
        return text
    del around[table[-1]]
    return _dumped(document)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(str(error)) from None


def _document(text: str) -> Any:
    import tomlkit
    import tomlkit.exceptions

    try:
        return tomlkit.parse(text)
    except tomlkit.exceptions.ParseError as error:
        raise CannotEdit(str(error)) from None


def _dumped(value: Any) -> str:
    import tomlkit

    return tomlkit.dumps(value)


def _find(document: Any, table: tuple[str, ...]) -> Any:
    """The table at the path; None when it is not there."""
    found = document
    for depth, name in enumerate(table):
        if name not in found:
            return None
        found = found[name]
        if not isinstance(found, dict):
            raise CannotEdit(f"{'.'.join(table[: depth + 1])} must be a table")
    return found


def _at_top(text: str, values: Mapping[str, Any], drop: Collection[str]) -> str:
    head, tables = _split(text)
    document = _document(head)
    new = {name: value for name, value in values.items() if name not in document}
    document.update({name: value for name, value in values.items() if name not in new})
    for name in drop:
        document.pop(name, None)
    head = _dumped(document)
    if not new:
        return head + tables
    lines = head.splitlines(keepends=True)
    end = len(lines)
    # A comment block that ends right at the first table belongs to it.
    while tables and end and lines[end - 1].lstrip().startswith("#"):
        end -= 1
    while end and not lines[end - 1].strip():
        end -= 1
    before, after = "".join(lines[:end]), "".join(lines[end:])
    if before and not before.endswith("\n"):
        before += "\n"
    if after + tables and not after.startswith("\n"):
        after = "\n" + after
    return before + _dumped(new) + after + tables


def _split(text: str) -> tuple[str, str]:
    """The top-level keys and what follows: from the first line on that opens a table, not one inside a value."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.lstrip().startswith("["):
            head = "".join(lines[:number])
            try:
                tomllib.loads(head)
            except tomllib.TOMLDecodeError:
                continue
            return head, "".join(lines[number:])
    return text, ""


def _appended(text: str, table: tuple[str, ...], values: Mapping[str, Any]) -> str:
    nested: Any = dict(values)
    for name in reversed(table):
        nested = {name: nested}
    if text and not text.endswith("\n"):
        text += "\n"
    return text + ("\n" if text else "") + _dumped(nested)
