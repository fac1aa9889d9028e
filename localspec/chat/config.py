"""`config.toml`: settings for all pairs, for one pair, as named presets, and the keys. Comments in it stay.

```toml
temperature = 0.7                     # for all pairs
[pairs."qwen2.5-coder-1.5b"]
temperature = 0.2                     # for this pair alone
[presets.precise]
temperature = 0
[keys]
"chat.stop" = "ctrl+x"                # action ids are listed on the app's Help screen
```
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from localspec import paths
from localspec.chat import toml_edit
from localspec.chat.settings import BY_NAME, Settings, Value
from localspec.models.partial import write_atomically
from localspec.models.toml_blocks import Document, Problem, read

OTHER_TABLES = ("sources", "models")
"""Tables that `models.settings` reads."""

LOCK_WAIT_S = 5.0
"""How long another program may write the file before this one gives up; it takes milliseconds."""


class ConfigError(Exception):
    """The file could not be changed; `str(error)` is one line with the next step."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a setting is kept: for all pairs, for the pair `name`, or in the preset `name`."""

    kind: Literal["all", "pair", "preset"] = "all"
    name: str = ""

    @property
    def table(self) -> tuple[str, ...]:
        """The keys of the table in the file."""
        return {"all": (), "pair": ("pairs", self.name), "preset": ("presets", self.name)}[self.kind]


ALL = Scope()


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says, checked value by value; what was wrong is left out and named in `problems`."""

    values: Mapping[str, Value] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def settings(self, pair: str | None = None) -> Settings:
        """What holds for `pair`: the defaults, under what is set for all, under what is set for it."""
        return Settings().with_values({**self.values, **self.pairs.get(pair or "", {})})

    def of(self, scope: Scope) -> Mapping[str, Value]:
        """What is set in one place; empty when nothing is."""
        if scope.kind == "all":
            return self.values
        return (self.pairs if scope.kind == "pair" else self.presets).get(scope.name, {})


def load(file: Path | None = None) -> Config:
    """Read the file; a missing one is empty. Never raises."""
    document = read(file or paths.config_file())
    problems = list(document.problems)
    tables = {"pairs", "presets", "keys", *OTHER_TABLES}
    top = {name: value for name, value in document.data.items() if name not in tables}
    return Config(
        values=_values(document, (), top, problems),
        pairs=_named(document, "pairs", problems),
        presets=_named(document, "presets", problems),
        keys=_keys(document, problems),
        problems=tuple(problems),
    )


def save(
    values: Mapping[str, Value], scope: Scope = ALL, *, drop: Collection[str] = (), file: Path | None = None
) -> None:
    """Write `values` into the scope's table and take `drop` out. Raises `ConfigError`; the file stays as it was."""
    written = {name: BY_NAME[name].word if value is None else value for name, value in values.items()}
    _change(file, lambda text: toml_edit.with_values(text, scope.table, written, drop))


def delete(scope: Scope, *, file: Path | None = None) -> None:
    """Take a pair's settings or a preset out of the file. Raises `ConfigError`."""
    _change(file, lambda text: toml_edit.without_table(text, scope.table))


def set_key(dotted: str, value: Any, *, file: Path | None = None) -> None:
    """Set any key of the file, `table.key` or `key`, unchecked. Raises `ConfigError`."""
    *table, name = dotted.split(".")
    _change(file, lambda text: toml_edit.with_values(text, tuple(table), {name: value}))


def _change(file: Path | None, change: Callable[[str], str]) -> None:
    """Read, change and write the file, one program at a time."""
    from filelock import FileLock, Timeout

    file = file or paths.config_file()
    lock = paths.state_dir() / "config.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=LOCK_WAIT_S):
            text = file.read_bytes().decode("utf-8") if file.exists() else ""
            write_atomically(file, change(text))
    except (toml_edit.CannotEdit, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be changed before it is correct: {' '.join(str(error).split())}") from None
    except Timeout:
        raise ConfigError(f"another program has been writing {file} for {LOCK_WAIT_S:.0f} s: try again") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror or error}") from None


def _values(
    document: Document, path: tuple[str, ...], raw: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Value]:
    found: dict[str, Value] = {}

    def say(name: str, reason: str, severity: Literal["error", "warning"] = "error") -> None:
        keys = (*path, name)
        problems.append(Problem(document.file, document.line_of(*keys), ".".join(keys), reason, severity))

    for name, value in raw.items():
        setting = BY_NAME.get(name)
        if setting is None:
            say(name, "unknown setting, not used", "warning")
        elif path and not setting.per_pair:
            say(name, "holds for the whole program: write it above all tables")
        else:
            try:
                found[name] = setting.check(value)
            except ValueError as error:
                say(name, str(error).removeprefix(f"{name} "))
    return found


def _named(document: Document, name: str, problems: list[Problem]) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for key, raw in _as_table(document, (name,), document.data.get(name, {}), problems).items():
        found[key] = _values(document, (name, key), _as_table(document, (name, key), raw, problems), problems)
    return found


def _keys(document: Document, problems: list[Problem]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for action, key in _as_table(document, ("keys",), document.data.get("keys", {}), problems).items():
        if isinstance(key, str) and key.strip():
            keys[action] = key.strip()
        else:
            line = document.line_of("keys", action)
            problems.append(Problem(document.file, line, f"keys.{action}", 'must be a key, such as "ctrl+x"'))
    return keys


def _as_table(document: Document, path: tuple[str, ...], value: object, problems: list[Problem]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    problems.append(Problem(document.file, document.line_of(*path), ".".join(path), "must be a table"))
    return {}
