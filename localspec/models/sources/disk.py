"""A file that is on this disk already: in the hub's cache, another program's model folder, or a folder of one's own.

It is used where it lies; nothing is copied and nothing changed.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from localspec.models import hubcache, store
from localspec.models.catalog import ModelFile
from localspec.models.errors import named
from localspec.models.partial import hash_file
from localspec.models.progress import Job, Meter
from localspec.models.sources.base import SourceFailed

Candidates = Callable[[], Iterable[Path]]


class DiskSource:
    """Looks for a file of the right size, and takes it when its sha256 is right. `elsewhere` lists the model files in
    other programs' folders and the person's own."""

    name = "disk"

    def __init__(self, elsewhere: Candidates) -> None:
        self._elsewhere = elsewhere

    def offers(self, file: ModelFile) -> str | None:
        return "model folders on this disk" if file.size is not None and file.sha256 is not None else None

    def fetch(self, file: ModelFile, target: Path, job: Job) -> Path:
        del target
        meter = Meter(job, file.key, file.name, self.name, file.size)
        if known := store.find(file):
            return known
        for path in (*hubcache.candidates(file), *self._elsewhere()):
            try:
                if path.stat().st_size != file.size:
                    continue
                meter.say(f"checking {named(path)}")
                found = hash_file(path, job, meter)
            except OSError:
                continue
            if found == file.sha256:
                store.remember(file, path)
                return path
        raise SourceFailed("not on this disk")
