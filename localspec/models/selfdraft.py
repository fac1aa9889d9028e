"""Drafts made of a model's own layers: where they lie, making one, finding it again, and what was measured of it.

A self-draft is a file beside its model, named after it; one model has one at most. The file itself says which model it
was made of, so that after the model was replaced an old one is not taken for its draft. Beside it lies a note of what
was measured: whether it is worth using on this machine.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import filelock

from localspec import paths
from localspec.models.errors import ModelError, named
from localspec.models.gguf import Header, read_header
from localspec.models.gguf_split import read_model, read_parts
from localspec.models.gguf_write import Extra, size_of, write_shortened
from localspec.models.layers import NoSelfDraft, Shortening, plans
from localspec.models.partial import FULL, DiskFull, human, lock_of, write_atomically

ENDING = ".self-draft"
"""What a self-draft adds to its model's name: not .gguf, so that nobody takes it for a model to talk to."""

PART = ".part"
NOTE = ".json"
"""What an unfinished one and its note add to that."""

FOLDER = "self-drafts"
"""Below the store: where those of models lie that are not in the store themselves."""

_NOTE_OF = "left_out"

_OF, _OF_BYTES, _LEFT_OUT = (f"localspec.self_draft.{key}" for key in ("of", "of_bytes", "left_out"))


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found on this machine. `agreement` is the share of the model's own greedy tokens that the draft guesses,
    in all and `by_category`; `token_cost` a token of the draft in plain passes of the model. `length` is the draft
    length that should pay best and `expected` its speed against plain decoding, `speedup` that measured by the clock at
    `measured_length`. `worth`: it is faster than plain decoding, so that drafting by itself uses it."""

    agreement: float
    by_category: dict[str, float]
    token_cost: float
    length: int
    expected: float
    measured_length: int
    speedup: float | None
    worth: bool


@dataclass(frozen=True, slots=True)
class SelfDraft:
    """One that is here: `layers` of the whole model without those `left_out`. `measured` None: nothing is known yet."""

    target: Path
    path: Path
    size: int
    layers: int
    left_out: tuple[int, ...]
    measured: Findings | None = field(default=None, compare=False)

    @property
    def kept(self) -> int:
        return self.layers - len(self.left_out)


def path_of(target: Path) -> Path:
    """Where the self-draft of a model lies: beside it in the store; for models that are elsewhere, in a folder of their
    own in the store."""
    if paths.models_dir() in target.absolute().parents:
        folder = target.absolute().parent
    else:
        where = hashlib.sha256(str(target.absolute()).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        folder = paths.models_dir() / FOLDER / where
    return folder / (target.name + ENDING)


def files_of(target: Path) -> list[Path]:
    """The files there are of the model's self-draft: itself, its note, what an unfinished one left."""
    path = path_of(target)
    return [one for one in (path, path.with_name(path.name + PART), _note_of(path)) if one.is_file()]


def find(target: Path) -> SelfDraft | None:
    """The self-draft of the model in `target`, when there is a whole one made of this very file."""
    path = path_of(target)
    try:
        found = _read(path, target)
        return found if found is not None and _fits(read_header(path), target) else None
    except (ModelError, OSError):
        return None


def here() -> list[SelfDraft]:
    """All self-drafts in the store, by path; those whose model is gone too."""
    found = []
    with suppress(OSError):
        for path in sorted(paths.models_dir().rglob(f"*{ENDING}")):
            with suppress(ModelError):
                if (one := _read(path, path.with_name(path.name.removesuffix(ENDING)))) is not None:
                    found.append(one)
    return found


def made_of(header: Header) -> str | None:
    """The name of the model that a file is a self-draft of; None: it is none."""
    name = header.metadata.get(_OF)
    return name if isinstance(name, str) else None


def ways(target: Path, keep: int | None = None) -> list[Shortening]:
    """Which layers of the model in `target` may be left out, the likeliest choice first. Raises `NoSelfDraft`, or what
    `read_model` does."""
    whole = read_model(target)
    if (of := made_of(whole)) is not None:
        raise NoSelfDraft(f"{named(target)} is itself a draft made of {of}")
    return plans(whole, keep)


def make(
    target: Path,
    keep: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    cut: Shortening | None = None,
) -> SelfDraft:
    """Write the self-draft of the model in `target`: with `keep` layers when that is said, with those of `cut` when it
    is given. One that is there is replaced once the new one is whole. `progress` gets bytes done and in all.

    Raises `NoSelfDraft`, `NoSpace`, `DiskFull` or another ModelError in words. Nothing half-written is left, also when
    interrupted.
    """
    parts = read_parts(target)
    whole = read_model(target)
    cut = cut or ways(target, keep)[0]
    path = path_of(target)
    size = size_of(parts, cut)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        part = path.with_name(path.name + PART)
        part.unlink(missing_ok=True)
        _require_space(path.parent, size)
        try:
            with part.open("wb") as out:
                write_shortened(parts, cut, out, _extra(whole, target, cut), lambda done: progress(done, size))
                out.flush()
                os.fsync(out.fileno())
            # Held against its own table before it gets its name.
            read_model(part)
            # What was measured of the one before says nothing of this one.
            _note_of(path).unlink(missing_ok=True)
            part.replace(path)
        except OSError as error:
            raise _words(error, path, size) from None
        finally:
            part.unlink(missing_ok=True)
    made = find(target)
    assert made is not None, "it was read back before it got its name"
    return made


def remember(draft: SelfDraft, measured: Findings) -> None:
    """Keep what was measured beside the file, and of which layers: another process may have put another draft there
    meanwhile, of which it says nothing. Raises OSError."""
    note = {_NOTE_OF: draft.left_out, **asdict(measured)}
    write_atomically(_note_of(draft.path), json.dumps(note, indent=1))


def _note_of(path: Path) -> Path:
    return path.with_name(path.name + NOTE)


def _read(path: Path, target: Path) -> SelfDraft | None:
    if not path.is_file():
        return None
    header = read_header(path)
    left_out = header.metadata.get(_LEFT_OUT)
    if made_of(header) is None or not isinstance(left_out, tuple):
        return None
    layers = header.block_count + len(left_out)
    numbers = tuple(int(i) for i in left_out)
    return SelfDraft(target, path, header.file_bytes, layers, numbers, _measured(path, numbers))


def _measured(path: Path, left_out: tuple[int, ...]) -> Findings | None:
    try:
        note = json.loads(_note_of(path).read_text(encoding="utf-8"))
        return Findings(**note) if tuple(note.pop(_NOTE_OF)) == left_out else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _fits(header: Header, target: Path) -> bool:
    return made_of(header) == target.name and header.metadata.get(_OF_BYTES) == target.stat().st_size


def _extra(whole: Header, target: Path, cut: Shortening) -> Extra:
    left_out = ", ".join(map(str, cut.left_out))
    return {
        "general.name": f"{whole.name or target.stem} without layers {left_out}",
        _OF: target.name,
        _OF_BYTES: target.stat().st_size,
        _LEFT_OUT: cut.left_out,
    }


def _require_space(folder: Path, size: int) -> None:
    from localspec.models.pull import MARGIN, NoSpace, free_bytes  # the sources of downloads come with it

    free = free_bytes(folder)
    if size + MARGIN > free:
        raise NoSpace(
            f"{human(size)} to write and {human(MARGIN)} to spare, but only {human(free)} are free in {named(folder)}: "
            "make room, or choose another place with LOCALSPEC_HOME"
        )


def _words(error: OSError, path: Path, size: int) -> ModelError:
    if error.errno in FULL:
        return DiskFull(f"the disk is full: {human(size)} did not fit in {named(path.parent)}; nothing was kept")
    return ModelError(f"cannot write {named(path)}: {error.strerror or error}; nothing was kept")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    try:
        with filelock.FileLock(lock_of(path), timeout=0):
            yield
    except filelock.Timeout:
        raise ModelError(f"another localspec is making {named(path)}: wait for it, or cancel it first") from None
