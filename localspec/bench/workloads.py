"""What is measured: requests by category, built in or out of a JSONL file.

One JSON object a line. `id` and `category` are texts; then either `prompt`, a single user turn, or `stdlib`, `lines`
and `instruction`: a module of the standard library of the Python that runs, the first and last line of a range (from
1), and what to do with it. Further keys are ignored. Of a module only the source is read; nothing is imported.
"""

import json
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

EDIT = "code-edit"
"""The category whose answers are mostly copies of the prompt."""


class WorkloadError(Exception):
    """A workload that cannot be read; `str(error)` is one line with the file and the line at fault."""


@dataclass(frozen=True, slots=True)
class Task:
    """One request: `prompt` is a single user turn."""

    id: str
    category: str
    prompt: str


def read(path: Path) -> list[Task]:
    """The tasks of a JSONL file, in its order; blank lines count for nothing. Raises `WorkloadError`."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise WorkloadError(f"{path} is not UTF-8 text: convert it first") from None
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from None
    tasks: list[Task] = []
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = parse(line)
            if task.id in seen:
                raise ValueError(f"the id {task.id!r} is there twice")
        except ValueError as error:
            raise WorkloadError(f"{path}:{number}: {error}") from None
        seen.add(task.id)
        tasks.append(task)
    if not tasks:
        raise WorkloadError(f"{path} holds no request")
    return tasks


def parse(line: str) -> Task:
    """One line of a workload. Raises ValueError with what is wrong."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("must be a JSON object")
    identity, category = _text(row, "id"), _text(row, "category")
    if "prompt" in row:
        return Task(identity, category, _text(row, "prompt"))
    if "stdlib" not in row:
        raise ValueError("needs a prompt, or stdlib, lines and instruction")
    code = module_lines(_text(row, "stdlib"), *_range(row))
    return Task(identity, category, edit_prompt(_text(row, "instruction"), code))


def edit_prompt(instruction: str, code: str) -> str:
    """The instruction, and the code in a fenced block below it."""
    end = "" if code.endswith("\n") else "\n"
    return f"{instruction}\n\n```python\n{code}{end}```"


def module_lines(name: str, first: int, last: int) -> str:
    """Lines `first` to `last` (from 1, both included; fewer where the module ends) of a standard library module.

    Raises ValueError when there is no such module, or no source of it, or no such line.
    """
    source = _source(name).splitlines(keepends=True)
    lines = source[first - 1 : last]
    if not lines:
        raise ValueError(f"the module {name} has {len(source)} lines, none from {first} on")
    return "".join(lines)


def _source(name: str) -> str:
    """A module's source, found by its place alone: importing what a file names would run it."""
    if name.split(".")[0] not in sys.stdlib_module_names:
        raise ValueError(f"{name!r} is no module of the standard library")
    places: Sequence[str] | None = [sysconfig.get_path("stdlib")]
    source: str | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), places) if places else None
        if spec is None:
            raise ValueError(f"this Python has no source of the module {name}")
        places = spec.submodule_search_locations
        get_source = getattr(spec.loader, "get_source", None)
        source = get_source(spec.name) if get_source is not None else None
    if source is None:
        raise ValueError(f"this Python has no source of the module {name}")
    return source


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} must be a text")
    return value


def _range(row: dict[str, Any]) -> tuple[int, int]:
    match row.get("lines"):
        case [int(first), int(last)] if 1 <= first <= last:
            return first, last
    raise ValueError("lines must be two line numbers, the first at least 1 and not after the last")
