"""Where other programs keep GGUF files, and what they call them. Nothing here opens a model or writes anything.

Layouts: huggingface_hub's cache (its `HF_*` variables), LM Studio (publisher/repository/file, its folder named in
`settings.json` and `~/.lmstudio-home-pointer`), Ollama (manifests that name blobs), Jan (`llamacpp/models/<id>` with a
`model.yml`; `models/` in older versions), llama.cpp's download cache (`LLAMA_CACHE`).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_DEPTH = 12
MAX_FOLDERS = 100_000
"""A named folder may be a whole disk: the walk ends somewhere."""

MAX_MANIFEST = 1 << 20

_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_OLLAMA_REGISTRY = "registry.ollama.ai"
_JAN_PATH = re.compile(r"^model_path:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that should be a GGUF: the program it belongs to, and the name it has there."""

    program: str
    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A place that could not be looked into."""

    program: str
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class System:
    """What decides where programs keep things: the home folder, the environment, `sys.platform`."""

    home: Path
    environ: Mapping[str, str]
    platform: str

    def variable(self, name: str) -> Path | None:
        value = self.environ.get(name)
        return Path(value).expanduser() if value else None

    def cache(self) -> Path:
        return self.variable("XDG_CACHE_HOME") or self.home / ".cache"


def candidates(system: System, folders: list[Path]) -> Iterator[Candidate | Unreadable]:
    """All GGUF files in the five programs' places and in `folders`, in that order."""
    for place in hub_places(system):
        yield from _hub(place)
    for place in lm_studio_places(system):
        yield from _tree("LM Studio", place)
    for place in ollama_places(system):
        yield from _ollama(place)
    for place in jan_places(system):
        yield from _jan(place)
    for place in llama_cpp_places(system):
        yield from _tree("llama.cpp", place)
    for place in folders:
        if place.is_dir():
            yield from _tree("folder", place)
        else:
            yield Unreadable("folder", place, "is not a folder: correct it in the settings")


def hub_places(system: System) -> list[Path]:
    home = system.variable("HF_HOME") or system.cache() / "huggingface"
    return [system.variable("HF_HUB_CACHE") or system.variable("HUGGINGFACE_HUB_CACHE") or home / "hub"]


def lm_studio_places(system: System) -> list[Path]:
    homes = [system.home / ".lmstudio", system.home / ".cache" / "lm-studio"]
    pointer = _small_text(system.home / ".lmstudio-home-pointer")
    if pointer and pointer.strip():
        homes.insert(0, Path(pointer.strip()))
    places = []
    for home in homes:
        settings = _json(home / "settings.json")
        if isinstance(settings, dict) and isinstance(settings.get("downloadsFolder"), str):
            places.append(Path(settings["downloadsFolder"]))
        places.append(home / "models")
    return places


def ollama_places(system: System) -> list[Path]:
    own = system.variable("OLLAMA_MODELS") or system.home / ".ollama" / "models"
    # The Linux installer runs Ollama as a user of its own, with this home.
    return [own, Path("/usr/share/ollama/.ollama/models")] if system.platform == "linux" else [own]


def jan_places(system: System) -> list[Path]:
    if system.platform == "darwin":
        data = system.home / "Library" / "Application Support" / "Jan" / "data"
    elif system.platform == "win32":
        data = (system.variable("APPDATA") or system.home / "AppData" / "Roaming") / "Jan" / "data"
    else:
        data = (system.variable("XDG_DATA_HOME") or system.home / ".local" / "share") / "Jan" / "data"
    older = (system.variable("XDG_CONFIG_HOME") or system.home / ".config") / "Jan" / "data"
    return [data, older, system.home / "jan"] if system.platform == "linux" else [data, system.home / "jan"]


def llama_cpp_places(system: System) -> list[Path]:
    if named := system.variable("LLAMA_CACHE"):
        return [named]
    if system.platform == "darwin":
        return [system.home / "Library" / "Caches" / "llama.cpp"]
    if system.platform == "win32":
        return [(system.variable("LOCALAPPDATA") or system.home / "AppData" / "Local") / "llama.cpp"]
    return [system.cache() / "llama.cpp"]


def _hub(place: Path) -> Iterator[Candidate | Unreadable]:
    """`models--OWNER--NAME/snapshots/REVISION/...`; the blobs behind the links have no names."""
    for found in _tree("Hugging Face cache", place):
        if isinstance(found, Candidate):
            parts = found.path.relative_to(place).parts
            if len(parts) < 4 or not parts[0].startswith("models--") or parts[1] != "snapshots":
                continue
            repository = parts[0].removeprefix("models--").replace("--", "/")
            found = Candidate(found.program, f"{repository}/{'/'.join(parts[3:])}", found.path)
        yield found


def _ollama(place: Path) -> Iterator[Candidate | Unreadable]:
    """`manifests/HOST/NAMESPACE/MODEL/TAG` are JSON and name the blob that holds the weights."""
    root = place / "manifests"
    for manifest in _walk("Ollama", root):
        if isinstance(manifest, Unreadable):
            yield manifest
            continue
        parts = manifest.relative_to(root).parts
        if len(parts) < 3 or manifest.name.startswith("."):
            continue
        document = _json(manifest)
        layers = document.get("layers") if isinstance(document, dict) else None
        if not isinstance(layers, list):
            yield Unreadable("Ollama", manifest, "is no manifest that can be read: pull the model again")
            continue
        *hosts, model, tag = parts
        spaces = [part for part in hosts if part not in (_OLLAMA_REGISTRY, "library")]
        name = "/".join([*spaces, model]) + f":{tag}"
        for layer in layers:
            if not isinstance(layer, dict) or layer.get("mediaType") != _OLLAMA_MODEL:
                continue
            digest = str(layer.get("digest", ""))
            # The digest becomes a file name, so it must be nothing else than a digest.
            if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
                yield Unreadable("Ollama", manifest, "names a blob in a way that is not understood")
                continue
            blob = place / "blobs" / digest.replace(":", "-")
            older = place / "blobs" / digest
            yield Candidate("Ollama", name, older if not blob.exists() and older.exists() else blob)


def _jan(place: Path) -> Iterator[Candidate | Unreadable]:
    """The folder is the model's name; a `model.yml` can name a file that lies elsewhere."""
    for root in (place / "llamacpp" / "models", place / "models"):
        for found in _walk("Jan", root):
            if isinstance(found, Unreadable):
                yield found
            elif found.suffix.lower() == ".gguf":
                folder = found.parent.relative_to(root).as_posix()
                plain_name = found.name == "model.gguf" and folder != "."
                yield Candidate("Jan", folder if plain_name else found.relative_to(root).as_posix(), found)
            elif found.name == "model.yml":
                said = _JAN_PATH.search(_small_text(found) or "")
                if said:
                    yield Candidate("Jan", found.parent.relative_to(root).as_posix(), place / said[1])


def _tree(program: str, place: Path) -> Iterator[Candidate | Unreadable]:
    for found in _walk(program, place):
        if isinstance(found, Unreadable):
            yield found
        elif found.suffix.lower() == ".gguf":
            yield Candidate(program, found.relative_to(place).as_posix(), found)


def _walk(program: str, place: Path) -> Iterator[Path | Unreadable]:
    """All files below `place`, sorted; linked folders are followed, each folder once. A missing `place` has none."""
    waiting = [(place, 0)] if place.is_dir() else []
    seen: set[tuple[int, int]] = set()
    while waiting:
        folder, depth = waiting.pop()
        try:
            facts = folder.stat()
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield Unreadable(program, folder, f"cannot be looked into: {error.strerror or error}")
            continue
        if len(seen) >= MAX_FOLDERS:
            yield Unreadable(program, place, f"has more than {MAX_FOLDERS:,} folders: name a smaller one")
            return
        files = []
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            if not is_folder:
                files.append(Path(entry.path))
            elif depth < MAX_DEPTH:
                waiting.append((Path(entry.path), depth + 1))
        yield from reversed(files)


def _small_text(path: Path) -> str | None:
    """A small settings file; None when it is missing, large or no text."""
    try:
        if path.stat().st_size > MAX_MANIFEST:
            return None
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None


def _json(path: Path) -> object:
    try:
        return json.loads(_small_text(path) or "")
    except (ValueError, RecursionError):
        return None
