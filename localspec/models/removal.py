"""Taking files off this disk: only what localspec fetched, and only what nothing else on the menu still uses."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from localspec import paths
from localspec.models import catalog as menu
from localspec.models import own, reference, store
from localspec.models.catalog import Catalog, ModelFile
from localspec.models.errors import ModelError, named, plain
from localspec.models.partial import FETCHED
from localspec.models.settings import SOURCES


@dataclass(frozen=True, slots=True)
class Plan:
    """What removing `name` means: files to delete, bytes that frees, and what stays, in sentences."""

    name: str
    delete: tuple[Path, ...]
    frees: int
    stays: tuple[str, ...]
    own_entry: bool


def plan(name: str) -> Plan:
    """Look at what removing `name` (a pair, a file's key, OWNER/REPO[:QUANT]) would do. Changes nothing.

    Raises ModelError when there is nothing of that name.
    """
    known = menu.load()
    own_entry = _is_own(name)
    delete: list[Path] = []
    stays: list[str] = []
    for place in _places(name, known, stays):
        if store.fetched(place):
            delete.append(place)
        elif place.is_file():
            stays.append(f"{named(place)} stays: localspec did not fetch it")
        delete += [left for left in _leftovers(place) if left.exists()]
    if not delete and not own_entry and not stays:
        raise ModelError(f"nothing of {plain(name)} is on this disk")
    return Plan(name, tuple(delete), sum(path.stat().st_size for path in delete), tuple(stays), own_entry)


def carry_out(what: Plan) -> int:
    """Delete what the plan names; the bytes freed."""
    freed = 0
    for path in what.delete:
        size = path.stat().st_size
        # The file first: a note without a file does no harm, a file without a note could not be removed again.
        path.unlink()
        freed += size
        path.with_name(path.name + FETCHED).unlink(missing_ok=True)
        path.with_name(f".{path.name}.lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()
    if what.own_entry:
        own.remove(what.name)
    return freed


def _is_own(name: str) -> bool:
    from localspec.models.toml_blocks import read

    data = read(menu.own_file()).data
    return any(isinstance(data.get(table), dict) and name in data[table] for table in ("pairs", "files"))


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
        return [place for file in files for place in _place(file)]
    if name in known.files:
        return _place(known.files[name])
    asked = reference.parse(name)
    if asked is None:
        raise ModelError(f"{plain(name)!r} is not on the menu: `localspec models list` shows what is")
    if entry := store.on_menu(known, asked):
        return _place(entry)
    found = store.find_reference(known, asked)
    inside = found is not None and paths.models_dir() in found.parents
    return [found.with_name(part) for part in reference.split_names(found.name)] if found and inside else []


def _place(file: ModelFile) -> list[Path]:
    return [file.path] if file.path is not None else [store.place(file)]


def _leftovers(place: Path) -> list[Path]:
    """Parts of unfinished downloads of this file."""
    if paths.models_dir() not in place.parents:
        return []
    return [place.with_name(f"{place.name}.{source}{end}") for source in SOURCES for end in (".part", ".json")]
