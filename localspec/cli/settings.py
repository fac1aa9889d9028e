"""The settings of the command line, out of `config.toml`. A wrong value is named, and its default holds.

```toml
pair = "qwen2.5-coder-1.5b"   # what answers when nothing else is said
speculate = "auto"            # auto, off, lookup, draft
think = "auto"                # auto, on, off
color = "auto"                # auto, always, never, marks
```
"""

from dataclasses import dataclass
from pathlib import Path

from localspec import paths
from localspec.models.toml_blocks import read

CHOICES: dict[str, tuple[str, ...]] = {
    "speculate": ("auto", "off", "lookup", "draft"),
    "think": ("auto", "on", "off"),
    "color": ("auto", "always", "never", "marks"),
}
KEYS = ("pair", *CHOICES)


@dataclass(frozen=True, slots=True)
class CliSettings:
    """None: not set, the program's default holds. `problems` are lines for the person."""

    pair: str | None = None
    speculate: str | None = None
    think: str | None = None
    color: str | None = None
    problems: tuple[str, ...] = ()


def load(file: Path | None = None) -> CliSettings:
    """Reads the settings. Never raises."""
    document = read(file or paths.config_file())
    problems = [str(problem) for problem in document.problems]
    values: dict[str, str] = {}
    for key in KEYS:
        value = document.data.get(key)
        if value is None:
            continue
        fault = fault_of(key, value)
        if fault is None:
            values[key] = value
        else:
            line = document.line_of(key)
            problems.append(f"{document.file}{f':{line}' if line else ''}: {key}: {fault}")
    return CliSettings(**values, problems=tuple(problems))


def fault_of(key: str, value: object) -> str | None:
    """What is wrong with the value of one of `KEYS`; None when nothing is."""
    if not isinstance(value, str) or not value:
        return "must be a text"
    if key in CHOICES and value not in CHOICES[key]:
        return f"must be one of {', '.join(CHOICES[key])}, not {value!r}"
    return None
