"""The settings of the model side, from `config.toml`: `[sources]` and `[models]`.

```toml
[sources]
order = ["disk", "hub", "packages"]     # tried in this order; leave one out and it is never tried
endpoint = "https://hub.example.com"    # a mirror of the hub; HF_ENDPOINT when absent
[models]
folders = ["/data/gguf"]                # also searched for model files
```
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec import paths
from localspec.models.toml_blocks import Document, Problem, read

SOURCES = ("disk", "hub", "packages")
DEFAULT_ENDPOINT = "https://huggingface.co"
TRUE = {"1", "on", "yes", "true"}


@dataclass(frozen=True, slots=True)
class Settings:
    """`order`: the sources to try. `folders`: the person's own model folders. `offline`: no network at all."""

    order: tuple[str, ...] = SOURCES
    endpoint: str = DEFAULT_ENDPOINT
    folders: tuple[Path, ...] = ()
    offline: bool = False
    problems: tuple[Problem, ...] = ()


def load(*, offline: bool = False, file: Path | None = None) -> Settings:
    """Read the settings. Never raises: a wrong value is named in `problems` and its default holds.

    `HF_HUB_OFFLINE` and `HF_ENDPOINT` mean here what they mean to huggingface-hub.
    """
    document = read(file or paths.config_file())
    problems = list(document.problems)
    sources, models = _table(document, "sources", problems), _table(document, "models", problems)
    order = _texts(document, sources, "sources", "order", problems)
    unknown = [name for name in order or () if name not in SOURCES]
    if unknown:
        _fault(document, "sources", "order", f"knows {', '.join(SOURCES)}, not {unknown[0]!r}", problems)
        order = [name for name in order or () if name in SOURCES]
    endpoint = sources.get("endpoint") or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
    if not isinstance(endpoint, str) or not endpoint.startswith(("https://", "http://")):
        _fault(document, "sources", "endpoint", "must be an address that begins with https://", problems)
        endpoint = DEFAULT_ENDPOINT
    folders = _texts(document, models, "models", "folders", problems) or []
    return Settings(
        order=tuple(dict.fromkeys(order)) if order is not None else SOURCES,
        endpoint=endpoint.rstrip("/"),
        folders=tuple(Path(folder).expanduser() for folder in folders),
        offline=offline or hub_offline(),
        problems=tuple(problems),
    )


def hub_offline() -> bool:
    """Whether the environment forbids the network, in huggingface-hub's own words."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.lower() in TRUE


def _table(document: Document, name: str, problems: list[Problem]) -> dict[str, Any]:
    found = document.data.get(name, {})
    if isinstance(found, dict):
        return found
    problems.append(Problem(document.file, document.line_of(name), name, "must be a table"))
    return {}


def _texts(
    document: Document, table: dict[str, Any], section: str, key: str, problems: list[Problem]
) -> list[str] | None:
    value = table.get(key)
    if value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return value
    _fault(document, section, key, "must be a list of texts", problems)
    return None


def _fault(document: Document, section: str, key: str, reason: str, problems: list[Problem]) -> None:
    problems.append(Problem(document.file, document.line_of(section, key), f"{section}.{key}", reason))
