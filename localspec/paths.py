"""Where localspec keeps its things: the one module that knows.

`LOCALSPEC_HOME`, when set, holds all four directories (`config`, `data`, `state`, `cache`) below one root; otherwise
each follows the platform's convention. Nothing is created here: whoever writes makes the directory first.
"""

import os
from pathlib import Path

import platformdirs

APP = "localspec"
HOME_VARIABLE = "LOCALSPEC_HOME"


def _home(kind: str) -> Path | None:
    root = os.environ.get(HOME_VARIABLE)
    return Path(root).expanduser() / kind if root else None


def config_dir() -> Path:
    """Settings a person edits: `config.toml` and their own `models.toml`."""
    return _home("config") or Path(platformdirs.user_config_dir(APP, appauthor=False))


def data_dir() -> Path:
    """What would hurt to lose: downloaded models, conversations."""
    return _home("data") or Path(platformdirs.user_data_dir(APP, appauthor=False))


def state_dir() -> Path:
    """What the program remembers between runs: logs, verdicts about this machine."""
    return _home("state") or Path(platformdirs.user_state_dir(APP, appauthor=False))


def cache_dir() -> Path:
    """What can be made again at any time."""
    return _home("cache") or Path(platformdirs.user_cache_dir(APP, appauthor=False))


def models_dir() -> Path:
    """Model files this program fetched."""
    return data_dir() / "models"


def config_file() -> Path:
    return config_dir() / "config.toml"


def log_file() -> Path:
    """Where the engine child's native log lines go."""
    return state_dir() / "engine.log"
