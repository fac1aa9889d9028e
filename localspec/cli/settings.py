"""The settings a command runs with: `config.toml`, and the command's own options over it."""

from collections.abc import Mapping
from typing import Any

from localspec.chat import config
from localspec.chat.config import Config
from localspec.chat.settings import AUTO, BY_NAME, Settings, Value

OPTIONS = {"temp": "temperature", "ctx": "context"}
"""Options whose setting has another name."""


def load() -> Config:
    """What the config file says. Never raises."""
    return config.load()


def in_force(values: Mapping[str, Any], known: Config | None = None) -> Settings:
    """What holds for a command with the options `values`; None is an option that was not given."""
    known = known or load()
    given: dict[str, Value] = {}
    for option, value in values.items():
        name = OPTIONS.get(option, option)
        if value is not None and name in BY_NAME:
            given[name] = None if value == AUTO and BY_NAME[name].word == AUTO and BY_NAME[name].auto else value
    asked = values.get("target") or values.get("pair")
    return known.settings(asked or known.settings().pair or _starter()).with_values(given)


def _starter() -> str | None:
    from localspec.models import catalog

    pair = catalog.load().starter()
    return pair.key if pair else None
