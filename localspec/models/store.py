"""What is on this disk: files localspec fetched, files found elsewhere, files a person named. Never the network.

A fetched file lies at `models_dir()/KEY/NAME`; KEY is the menu's key, or OWNER/REPO for files of any hub repository.
Beside it, `NAME.fetched.json` (see `partial`) says that localspec brought it, which is what `remove` goes by.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from localspec import paths
from localspec.models import catalog as menu
from localspec.models import hubcache, reference
from localspec.models.catalog import Catalog, ModelFile, Pair
from localspec.models.errors import ModelError, UnreadableFile, named, plain
from localspec.models.partial import FETCHED, write_atomically
from localspec.models.settings import SOURCES, Settings


@dataclass(frozen=True, slots=True)
class Resolved:
    """What to load: paths of local files. `pair` when the menu has one for them; `notes` are sentences to show."""

    target: Path
    draft: Path | None
    pair: Pair | None
    notes: tuple[str, ...] = ()


def place(file: ModelFile) -> Path:
    """Where localspec puts a file it fetches."""
    return paths.models_dir().joinpath(*file.key.split("/"), file.name)


def find(file: ModelFile) -> Path | None:
    """Where `file` lies on this disk, verified when it came here; None when it is not here.

    A person's own file is answered whether or not it is still there, so that the error can name it.
    """
    if file.path is not None:
        return file.path
    own = place(file)
    # A file fetched when the menu named another hash is not the one it names now.
    if _has_size(own, file.size) and (file.sha256 is None or fetched_hash(own) in (None, file.sha256)):
        return own
    return _located(file) or hubcache.find(file)


def fetched(path: Path) -> bool:
    """Whether localspec brought this file."""
    return path.with_name(path.name + FETCHED).is_file()


def fetched_hash(path: Path) -> str | None:
    """The sha256 that was verified when localspec fetched this file; None when there is no note of it."""
    try:
        note = json.loads(path.with_name(path.name + FETCHED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = note.get("sha256") if isinstance(note, dict) else None
    return found if isinstance(found, str) else None


def fetched_bytes(file: ModelFile) -> int:
    """Bytes of `file` that an unfinished download left, the most of any source."""
    folder = place(file).parent
    sizes = [0]
    for source in SOURCES:
        try:
            sizes.append((folder / f"{file.name}.{source}.part").stat().st_size)
        except OSError:
            continue
    return max(sizes)


def remember(file: ModelFile, path: Path) -> None:
    """Note that `path`, outside the store, was verified to be `file`."""
    known = _read_located()
    stat = path.stat()
    known[file.key] = {"path": str(path), "size": stat.st_size, "mtime": stat.st_mtime_ns, "sha256": file.sha256}
    write_atomically(_located_file(), json.dumps(known, indent=1))


def _located_file() -> Path:
    return paths.models_dir() / "found-elsewhere.json"


def _read_located() -> dict[str, dict[str, object]]:
    try:
        known = json.loads(_located_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in known.items() if isinstance(v, dict)} if isinstance(known, dict) else {}


def _located(file: ModelFile) -> Path | None:
    note = _read_located().get(file.key)
    if note is None or note.get("sha256") != file.sha256:
        return None
    path = Path(str(note.get("path")))
    try:
        stat = path.stat()
    except OSError:
        return None
    return path if (stat.st_size, stat.st_mtime_ns) == (note.get("size"), note.get("mtime")) else None


def _has_size(path: Path, size: int | None) -> bool:
    try:
        return path.is_file() and (size is None or path.stat().st_size == size)
    except OSError:
        return False


def resolve(spec: str, *, draft: str | None = None, settings: Settings | None = None) -> Resolved:
    """Find the files for `spec`: a pair's name, a file's key, a path, or OWNER/REPO[:QUANT]; `draft` likewise.

    A bare file name is also looked for in the folders of the settings. Raises ModelError with the reason and the next
    command when the files are not on this disk or are no whole GGUFs.
    """
    known = menu.load()
    pair = known.pairs.get(spec)
    notes: list[str] = []
    if pair is not None:
        target = _of_key(known, pair.target, spec)
        chosen = find(known.files[pair.draft]) if pair.draft and draft is None else None
        if pair.draft and draft is None and chosen is None:
            notes.append(f"the draft {pair.draft} is not on this disk: fetch it with `localspec models pull {spec}`")
    else:
        target, chosen = _single(known, spec, settings), None
    if draft is not None:
        named_pair = known.pairs.get(draft)
        chosen = _of_key(known, named_pair.target, draft) if named_pair else _single(known, draft, settings)
    for path in (target, chosen):
        if path is not None:
            require_whole(path)
    return Resolved(target, chosen, pair, tuple(notes))


def locate(spec: str, settings: Settings | None = None) -> Path:
    """The one file that `spec` (a file's key, a path, OWNER/REPO[:QUANT]) means, whole or not.

    Raises ModelError when it is not on this disk.
    """
    return _single(menu.load(), spec, settings)


def _of_key(known: Catalog, key: str, spec: str) -> Path:
    path = find(known.files[key])
    if path is None:
        left = fetched_bytes(known.files[key])
        state = "only partly on this disk" if left else "not on this disk"
        raise ModelError(f"{key} is {state}: fetch it with `localspec models pull {spec}`")
    return path


def _single(known: Catalog, spec: str, settings: Settings | None) -> Path:
    if spec in known.files:
        return _of_key(known, spec, spec)
    path = Path(spec).expanduser()
    for candidate in (path, *(folder / path for folder in (settings.folders if settings else ()))):
        if candidate.exists():
            return candidate
    asked = reference.parse(spec)
    if asked is not None and (asked.which or not spec.lower().endswith(".gguf")):
        found = find_reference(known, asked)
        if found is None:
            raise ModelError(f"{plain(spec)} is not on this disk: fetch it with `localspec models pull {plain(spec)}`")
        return found
    if spec.lower().endswith(".gguf") or "/" in spec or "\\" in spec:
        raise UnreadableFile(f"{named(path)}: there is no such file")
    raise ModelError(f"{plain(spec)!r} is not on the menu: `localspec models list` shows what is")


def find_reference(known: Catalog, asked: reference.Reference) -> Path | None:
    """The first file of a hub repository that `asked` means: in the store, by the menu, or in the hub's cache."""
    folder = paths.models_dir().joinpath(*asked.repo.split("/"))
    candidates = {path.name: path for path in (*hubcache.files_of(asked.repo), *_models_in(folder))}
    for file in known.files.values():
        if file.hub and file.hub.repo == asked.repo and (path := find(file)):
            candidates[file.name] = path
    try:
        names = reference.choose(candidates, asked)
    except ModelError:
        return None
    return candidates[names[0]]


def on_menu(known: Catalog, asked: reference.Reference) -> ModelFile | None:
    """The menu's file that `asked` means beyond doubt: by its name, its quantisation, or as the first preference."""
    for file in known.files.values():
        if file.hub is None or file.hub.repo != asked.repo:
            continue
        wanted = (asked.which or reference.PREFERENCE[0]).upper()
        if asked.which in (file.name, file.hub.path) or file.quantisation == wanted:
            return file
    return None


def _models_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".gguf" and path.is_file())
    except OSError:
        return []


def require_whole(path: Path) -> None:
    """Check that `path` is a model whose parts are all here and as long as their tensors need.

    Raises ModelError: D4 of the known faults is answered here, before the native loader sees the file.
    """
    from localspec.models.gguf_split import read_model  # its own cost only where a file is opened

    read_model(path)
