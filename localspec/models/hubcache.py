"""The hub's own cache on this disk, looked at without importing huggingface-hub, which costs 0.3 s of every start.

Layout (huggingface-hub, "Understand caching"): `models--OWNER--REPO/snapshots/REVISION/PATH`, links to
`blobs/ETAG`, where the ETag of a large file is its sha256; plain files where links are not possible.
"""

import os
import sys
from pathlib import Path

from localspec.models.catalog import ModelFile
from localspec.models.scan_places import System, hub_places


def directory() -> Path:
    """Where the cache is, by the hub's own environment variables."""
    return hub_places(System(Path.home(), os.environ, sys.platform))[0]


def _snapshots(repo: str) -> list[Path]:
    folder = directory() / f"models--{repo.replace('/', '--')}" / "snapshots"
    try:
        return sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda p: p.stat().st_mtime)
    except OSError:
        return []


def find(file: ModelFile) -> Path | None:
    """`file` in the cache when its identity shows without reading it: the blob it links to is named by its sha256."""
    for path in candidates(file):
        if file.sha256 is not None and path.resolve().name == file.sha256:
            return path
    return None


def candidates(file: ModelFile) -> list[Path]:
    """Cached files of this repository, path and size; the pinned revision first."""
    if file.hub is None:
        return []
    found: list[Path] = []
    for snapshot in _snapshots(file.hub.repo):
        path = snapshot.joinpath(*file.hub.path.split("/"))
        try:
            if path.is_file() and file.size in (None, path.stat().st_size):
                found.insert(0 if snapshot.name == file.hub.revision else len(found), path)
        except OSError:
            continue
    return found


def files_of(repo: str) -> list[Path]:
    """All GGUFs of a repository in the cache, the newest snapshot last."""
    return [path for snapshot in _snapshots(repo) for path in sorted(snapshot.rglob("*.gguf")) if path.is_file()]
