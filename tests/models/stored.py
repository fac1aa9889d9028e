"""A store with something in it: the person's own menu, and sound models where localspec would have put them."""

import json
from pathlib import Path

from localspec import paths
from localspec.models import catalog
from tests.models import ggufs


def menu(text: str) -> None:
    file = catalog.own_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def put(key: str, name: str, *, fetched: bool = True, width: int = 32) -> Path:
    """A sound model where localspec would have put it."""
    path = ggufs.model(paths.models_dir().joinpath(*key.split("/"), name), width=width)
    if fetched:
        path.with_name(f"{name}.fetched.json").write_text(json.dumps({"source": "hub", "sha256": "0" * 64}))
    return path
