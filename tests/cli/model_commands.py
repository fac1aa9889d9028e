"""What the tests of `localspec models` share."""

import json
from pathlib import Path
from typing import Any

from localspec import paths
from localspec.models import catalog, store
from tests.cli.streams import Outcome


def data(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def config(text: str) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(text, encoding="utf-8")


def store_path(key: str, name: str) -> Path:
    return store.place(catalog.ModelFile(key, name))
