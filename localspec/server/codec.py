"""Frozen dataclasses as JSON and back, by their fields and types: what engines say to each other over a socket.

Not pickle, which runs what it reads. Every value is checked against the field's type. A field the other side does not
know is left out, one it does not send has its default, so that two versions of the program understand each other.
"""

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class CodecError(ValueError):
    """The JSON does not describe a value of the type; `str(error)` names the field."""


def to_json(value: Any) -> Any:
    """A dataclass, or what stands in its fields, as JSON has it. Numbers may be infinite, as Python's `json` writes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(one) for one in value]
    if isinstance(value, dict):
        return {str(key): to_json(one) for key, one in value.items()}
    return value


def from_json(kind: type[T], data: Any, name: str = "") -> T:
    """The value of type `kind` that `data` describes. Raises `CodecError`."""
    value: T = _read(kind, data, name or getattr(kind, "__name__", "value"))
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, data: Any, name: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, data, name)
    if origin is Literal:
        if isinstance(data, str) and data in arguments:
            return data
    elif origin in (Union, types.UnionType):
        return _read_union(arguments, data, name)
    elif origin is tuple:
        if isinstance(data, list):
            return tuple(_read(arguments[0], one, f"{name}[{at}]") for at, one in enumerate(data))
    elif origin is dict:
        if isinstance(data, dict):
            return {_key(arguments[0], key, name): _read(arguments[1], one, name) for key, one in data.items()}
    elif kind is float:
        if isinstance(data, int | float) and not isinstance(data, bool):
            return float(data)
    elif kind is type(None):
        if data is None:
            return None
    elif kind in (bool, int, str):
        if type(data) is kind:
            return data
    else:
        raise TypeError(f"no JSON for the type {kind}")
    raise CodecError(f"{name} cannot be a {type(data).__name__} here")


def _read_dataclass(kind: Any, data: Any, name: str) -> Any:
    if not isinstance(data, dict):
        raise CodecError(f"{name} must be an object")
    hints = _hints(kind)
    given = {}
    for field in fields(kind):
        if field.name in data:
            given[field.name] = _read(hints[field.name], data[field.name], f"{name}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise CodecError(f"{name}.{field.name} is missing")
    return kind(**given)


def _read_union(kinds: tuple[Any, ...], data: Any, name: str) -> Any:
    for kind in kinds:
        try:
            return _read(kind, data, name)
        except CodecError as error:
            problem = error
    raise problem


def _key(kind: Any, key: str, name: str) -> Any:
    if kind is int:
        try:
            return int(key)
        except ValueError:
            raise CodecError(f"{name} has the key {key[:40]!r}, which is no number") from None
    return key
