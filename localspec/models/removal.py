"""Taking files off this disk: only what localspec fetched, and only what nothing else on the menu still uses."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock

from localspec import paths
from localspec.models import catalog as menu
from localspec.models import own, reference, selfdraft, store
from localspec.models.catalog import Catalog, ModelFile
from localspec.models.errors import ModelError, named, plain
from localspec.models.partial import FETCHED, lock_of
from localspec.models.settings import SOURCES
from localspec.models.sources.packages import WHEEL_FOLDER
from localspec.models.toml_blocks import read


class InUse(ModelError):
    """A file that another process is fetching."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What removing `name` means: files to delete, bytes that frees, and what stays, in sentences. `own_entry`: it also
    leaves the person's own menu. `places` are where localspec puts the files."""

    name: str
    delete: tuple[Path, ...]
    frees: int
    stays: tuple[str, ...]
    own_entry: bool
    places: tuple[Path, ...] = ()


def plan(name: str, *, only_self_draft: bool = False) -> Plan:
    """Look at what removing `name` (a pair, a file's key, OWNER/REPO[:QUANT]) would do: its files, and the drafts made
    of their layers, or those only. Changes nothing.

    Raises ModelError when there is nothing of that name.
    """
    known = menu.load()
    stays: list[str] = []
    # Only its self-draft may be asked for by the path of a file.
    own_file = only_self_draft and name not in known.pairs and name not in known.files and Path(name).is_file()
    places = [Path(name)] if own_file else _places(name, known, stays)
    made = [file for place in (*places, *_elsewhere(name, known)) for file in selfdraft.files_of(place)]
    if only_self_draft:
        if not made:
            raise ModelError(f"no draft made of the layers of {plain(name)} is on this disk")
        return _plan(name, made, [], own_entry=False, places=made)
    own_entry = _is_own(name)
    delete: list[Path] = []
    for place in places:
        if store.fetched(place):
            delete.append(place)
        elif place.is_file():
            stays.append(_not_ours(place))
        delete += _leftovers(place)
    if not delete and not made and not own_entry and not stays:
        raise ModelError(f"nothing of {plain(name)} is on this disk")
    return _plan(name, [*delete, *made], stays, own_entry=own_entry, places=[*places, *made])


def _plan(name: str, delete: list[Path], stays: list[str], *, own_entry: bool, places: list[Path]) -> Plan:
    delete = list(dict.fromkeys(delete))  # the parts of a split file share their folder's leftovers
    frees = sum(path.stat().st_size for path in delete)
    ours = tuple(dict.fromkeys(place for place in places if _in_store(place)))
    return Plan(name, tuple(delete), frees, tuple(stays), own_entry, ours)


def carry_out(what: Plan) -> int:
    """Delete what the plan names; the bytes freed. Raises `InUse`, or ModelError when the own file cannot be changed,
    before anything is deleted."""
    freed = 0
    with contextlib.ExitStack() as alone:
        for place in what.places:
            alone.enter_context(_alone(place))
        if what.own_entry:
            own.remove(what.name)
        for path in what.delete:
            size = path.stat().st_size
            # The file first: a note without a file does no harm, a file without a note could not be removed again.
            path.unlink()
            freed += size
            path.with_name(path.name + FETCHED).unlink(missing_ok=True)
    for place in what.places:
        for left in place.parent.glob(f"{WHEEL_FOLDER}*"):
            shutil.rmtree(left, ignore_errors=True)
        with contextlib.suppress(OSError):
            lock_of(place).unlink(missing_ok=True)
            place.parent.rmdir()
    return freed


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Holds the lock under which `place` is fetched."""
    if not place.parent.is_dir():
        yield
        return
    try:
        with filelock.FileLock(lock_of(place), timeout=0):
            yield
    except filelock.Timeout:
        raise InUse(f"another localspec is fetching {plain(place.name)}: cancel that first") from None


def _is_own(name: str) -> bool:
    """Whether `name` is an entry of the person's, not only a change to one that is shipped."""

    def names(file: Path) -> set[str]:
        data = read(file).data
        return {key for table in ("pairs", "files") if isinstance(data.get(table), dict) for key in data[table]}

    return name in names(menu.own_file()) - names(menu.shipped_file())


def _places(name: str, known: Catalog, stays: list[str]) -> list[Path]:
    """Where the files of `name` lie or would lie."""
    if pair := known.pairs.get(name):
        files = known.files_of(pair)
        users = [
            other.key for other in known.pairs.values()
            if other.key != name and pair.draft in (other.target, other.draft) and store.find(known.files[other.target])
        ]  # fmt: skip
        if pair.draft and users:
            stays.append(f"{pair.draft} stays: {', '.join(users)} uses it too")
            files = files[:1]
        return [place for file in files for place in _place(file, stays)]
    if name in known.files:
        return _place(known.files[name], stays)
    asked = reference.parse(name)
    if asked is None:
        raise ModelError(f"{plain(name)!r} is not on the menu: `localspec models list` shows what is")
    if entry := store.on_menu(known, asked):
        return _place(entry, stays)
    if places := _of_repository(asked):
        return places
    if found := store.find_reference(known, asked):
        stays.append(_not_ours(found))
    return []


def _elsewhere(name: str, known: Catalog) -> list[Path]:
    """Where the files of `name` are that other programs keep: a draft made of one's layers is ours all the same."""
    pair = known.pairs.get(name)
    files = known.files_of(pair) if pair else [known.files[name]] if name in known.files else []
    found = [path for file in files if (path := store.find(file)) is not None]
    if not files and (asked := reference.parse(name)) and (path := store.find_reference(known, asked)):
        found.append(path)
    return [path for path in found if not _in_store(path)]


def _of_repository(asked: reference.Reference) -> list[Path]:
    """Where the files lie that `asked` means among those begun or fetched of its repository; of a split one all parts,
    whether they are there or not."""
    folder = paths.models_dir().joinpath(*asked.repo.split("/"))
    begun = [
        path.name.removesuffix(f".{source}.part") for source in SOURCES for path in folder.glob(f"*.{source}.part")
    ]
    there = {*begun, *(path.name for path in folder.glob("*.gguf"))}
    try:
        names = reference.choose({part for name in there for part in reference.split_names(name)}, asked)
    except ModelError:
        return []
    return [folder / name for name in names]


def _place(file: ModelFile, stays: list[str]) -> list[Path]:
    """Where `file` lies or would lie; a copy that another program keeps is only spoken of."""
    if file.path is not None:
        return [file.path]
    place = store.place(file)
    found = store.find(file)
    if found is not None and found != place:
        stays.append(_not_ours(found))
    return [place]


def _not_ours(path: Path) -> str:
    why = (
        "another entry of the menu has it" if _in_store(path) and store.fetched(path) else "localspec did not fetch it"
    )
    return f"{named(path)} stays: {why}"


def _in_store(place: Path) -> bool:
    return paths.models_dir() in place.parents


def _leftovers(place: Path) -> list[Path]:
    """What unfinished downloads of this file left: parts, and wheels of a download that was killed."""
    if not _in_store(place):
        return []
    parts = (place.with_name(f"{place.name}.{source}{end}") for source in SOURCES for end in (".part", ".json"))
    wheels = (path for folder in place.parent.glob(f"{WHEEL_FOLDER}*") for path in folder.rglob("*"))
    return [path for path in (*parts, *wheels) if path.is_file()]
