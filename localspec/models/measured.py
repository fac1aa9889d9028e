"""Speed-ups measured on this machine, by pair and category of work: what `bench` found, kept for the menu."""

import json
from collections.abc import Container, Mapping
from pathlib import Path

from localspec import paths
from localspec.models.partial import write_atomically


def read() -> dict[str, dict[str, float]]:
    """Speed-ups by pair and category; empty where nothing was measured or the note cannot be read."""
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        str(pair): {str(k): float(v) for k, v in values.items() if isinstance(v, int | float)}
        for pair, values in found.items() if isinstance(values, dict)
    }  # fmt: skip


def remember(pair: str, speedups: Mapping[str, float], forget: Container[str] = ()) -> None:
    """Note speed-ups of `pair` by category; those of other pairs and categories stay, but for the ones to `forget`.
    Raises OSError."""
    known = read()
    kept = {category: value for category, value in known.get(pair, {}).items() if category not in forget}
    write_atomically(_file(), json.dumps({**known, pair: {**kept, **speedups}}, indent=1))


def _file() -> Path:
    return paths.state_dir() / "measured.json"
