"""Licences whose terms a person must agree to before a file is fetched: shown once, the answer remembered."""

import json
import time
from pathlib import Path

from localspec import paths
from localspec.models.catalog import ModelFile
from localspec.models.errors import ModelError
from localspec.models.partial import write_atomically


class ConsentNeeded(ModelError):
    """The licence of `file` has not been agreed to."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        where = f", read it at {file.licence_url}" if file.licence_url else ""
        super().__init__(
            f"{file.key} comes under the licence {file.licence}, which asks for consent{where}; "
            "then run the same command with --accept-licence"
        )


def needed(file: ModelFile) -> bool:
    """Whether the person has to be asked about this file's licence."""
    return file.consent and file.licence not in _given()


def remember(file: ModelFile) -> None:
    """Note that the person agreed to this file's licence."""
    given = {**_given(), str(file.licence): time.strftime("%Y-%m-%d")}
    write_atomically(_file(), json.dumps(given, indent=1))


def _file() -> Path:
    return paths.state_dir() / "licences.json"


def _given() -> dict[str, object]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
