"""The menu as a person looks at it: what each pair costs to fetch, whether it fits, what is known of it here.

Data only; the command line and the screens draw it. Nothing here touches the network.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from localspec import paths
from localspec.models import measured, store
from localspec.models.catalog import Catalog, ModelFile, Pair
from localspec.models.errors import ModelError, plain
from localspec.models.fit import Fit, fit
from localspec.models.gguf import Header
from localspec.models.gguf_split import read_model
from localspec.models.hardware import Machine
from localspec.models.memory import Shape, shape_from_facts
from localspec.models.pairs import check_pair

State = Literal["here", "partly", "absent"]

CONTEXT = 4096
"""Tokens for which the menu says whether a pair fits: a chat of some turns, or a source file and its edit."""


@dataclass(frozen=True, slots=True)
class FileState:
    """One file: where it is (None: not here), bytes of an unfinished download, and its header, None when it is not here
    or damaged. What the menu does not say of `file` is filled in from the header."""

    file: ModelFile
    path: Path | None
    partial: int
    header: Header | None = None

    @property
    def state(self) -> State:
        return "here" if self.path else "partly" if self.partial else "absent"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the menu. `to_fetch` and `size` in bytes, None where a size is not known.

    `compatible` is how it is known that the two belong together, `verdict` whether they do (None: not checked here).
    `measured` are speed-ups measured on this machine, by category.
    """

    pair: Pair
    files: tuple[FileState, ...]
    size: int | None
    to_fetch: int | None
    fit: Fit | None
    verdict: bool | None
    compatible: str
    measured: dict[str, float]

    @property
    def state(self) -> Literal["here", "target only", "partly", "absent"]:
        states = [one.state for one in self.files]
        if all(state == "here" for state in states):
            return "here"
        if states[0] == "here":
            return "target only"
        return "absent" if all(state == "absent" for state in states) else "partly"


def rows(known: Catalog, machine: Machine) -> list[Row]:
    """The pairs of the menu, in its order."""
    known_here = measured.read()
    return [_row(pair, known, machine, known_here.get(pair.key, {})) for pair in known.pairs.values()]


def singles(known: Catalog) -> list[FileState]:
    """Files that belong to no pair: a target can be used without a draft model."""
    used = {key for pair in known.pairs.values() for key in (pair.target, pair.draft)}
    return [state_of(file) for file in known.files.values() if file.key not in used]


def state_of(file: ModelFile) -> FileState:
    """Whether a file is here."""
    path = store.find(file)
    if path is not None and not path.exists():
        path = None
    if path is None:
        return FileState(file, None, store.fetched_bytes(file))
    try:
        header = read_model(path)
    except ModelError:
        return FileState(file, path, 0)  # what is wrong with it is for `check` to say
    return FileState(_learned(file, header), path, 0, header)


def _learned(file: ModelFile, header: Header) -> ModelFile:
    """`file` with what its header says where the menu is silent."""
    facts: dict[str, str | int | None] = {
        "size": header.file_bytes,
        "licence": plain(header.licence, 60) if header.licence else None,
        "architecture": plain(header.architecture, 60),
        "quantisation": header.quantisation,
        "layers": header.block_count,
        "kv_heads": max(header.head_count_kv, default=0),
        "head_size": header.key_length,
        "vocab_size": header.vocab_size,
        "context_length": header.context_length,
    }
    new = {name: value for name, value in facts.items() if value and getattr(file, name) is None}
    return replace(file, **new)  # type: ignore[arg-type]


def _row(pair: Pair, known: Catalog, machine: Machine, speedups: dict[str, float]) -> Row:
    files = tuple(state_of(file) for file in known.files_of(pair))
    sizes = [one.file.size for one in files]
    missing = [
        None if one.file.size is None else one.file.size - one.partial for one in files if one.path is None
    ]  # fmt: skip
    verdict, words = _compatible(pair, files)
    return Row(
        pair=pair,
        files=files,
        size=sum(size for size in sizes if size is not None) if None not in sizes else None,
        to_fetch=sum(rest for rest in missing if rest is not None) if None not in missing else None,
        fit=_fit(files, machine),
        verdict=verdict,
        compatible=words,
        measured=speedups,
    )


def _compatible(pair: Pair, files: tuple[FileState, ...]) -> tuple[bool | None, str]:
    if pair.draft is None:
        return None, "no draft"
    target, draft = (one.path for one in files)
    if target is None or draft is None:
        return None, pair.compatible or "not checked yet"
    try:
        verdict = check_pair(target, draft, paths.cache_dir())
    except ModelError as error:
        return False, str(error)
    return verdict.compatible, "yes, checked here" if verdict.compatible else f"no: {verdict.reason}"


def _fit(files: tuple[FileState, ...], machine: Machine) -> Fit | None:
    """By the headers of what is here, by the menu's facts of what is not; None when not even a size is known."""
    shapes = [_shape(one) for one in files]
    target, draft = shapes[0], shapes[1] if len(shapes) > 1 else None
    if target is None or (len(shapes) > 1 and draft is None):
        return None
    return fit(target, draft, CONTEXT, "f16", machine)


def _shape(one: FileState) -> Header | Shape | None:
    if one.header is not None:
        return one.header
    file = one.file
    if file.size is None:
        return None
    return shape_from_facts(
        file.size, layers=file.layers, kv_heads=file.kv_heads, head_size=file.head_size, vocabulary=file.vocab_size,
        context_length=file.context_length,
    )  # fmt: skip
