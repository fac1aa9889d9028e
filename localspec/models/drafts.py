"""Drafts for a target that came without one: by vocabulary, among the files on this disk."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localspec import paths
from localspec.models import catalog, scan, store
from localspec.models.catalog import Catalog, ModelFile
from localspec.models.errors import ModelError
from localspec.models.gguf import Header
from localspec.models.gguf_split import read_model
from localspec.models.pairs import LARGEST_DRAFT, MAX_SIZE_DIFFERENCE, USUAL_DRAFT, propose_drafts
from localspec.models.settings import Settings


@dataclass(frozen=True, slots=True)
class Proposals:
    """`here`: files on this disk whose vocabulary was compared. `menu`: files to fetch, of the same family by what the
    menu knows. Best first."""

    here: tuple[Path, ...]
    menu: tuple[ModelFile, ...]


def propose(target: Path, settings: Settings) -> Proposals:
    """What can draft for `target`. Raises ModelError when it is no whole model."""
    header = read_model(target)
    known = catalog.load()
    here = propose_drafts(header, _candidates(known, settings), paths.cache_dir())
    menu = sorted(
        (
            file for file in known.files.values()
            if file.architecture == header.architecture and file.vocab_size and file.size
            and abs(file.vocab_size - header.vocab_size) <= MAX_SIZE_DIFFERENCE
            and file.size <= LARGEST_DRAFT * header.file_bytes and store.find(file) is None
        ),
        key=lambda file: abs(math.log((file.size or 1) / header.file_bytes / USUAL_DRAFT)),
    )  # fmt: skip
    return Proposals(tuple(one.draft.path for one in here), tuple(menu))


def _candidates(known: Catalog, settings: Settings) -> Iterator[Header]:
    seen: set[Path] = set()
    own = (path for file in known.files.values() if (path := store.find(file)))
    for path in (*own, *(found.path for found in scan.scan(settings.folders).files)):
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        try:
            yield read_model(path)
        except ModelError:
            continue
