"""What every source of model files can do."""

from pathlib import Path
from typing import Protocol

from localspec.models.catalog import ModelFile
from localspec.models.errors import ModelError
from localspec.models.progress import Job


class SourceFailed(ModelError):
    """This source cannot give the file now; the next one may. What it fetched so far is kept."""


class Source(Protocol):
    """A place that model files come from. `name` is the word used in the settings and in every announcement."""

    name: str

    def offers(self, file: ModelFile) -> str | None:
        """Where this source would look for the file, in words; None when it does not have it by what is known here.
        Touches no network."""
        ...

    def fetch(self, file: ModelFile, target: Path, job: Job) -> Path:
        """Bring the file, verified, and return where it lies: `target`, or a place where it was already.

        Continues what an earlier call left. Raises `SourceFailed` when another source may do better, `Cancelled`, and
        any other `ModelError` when trying further would be wrong.
        """
        ...
