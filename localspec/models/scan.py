"""What other programs have on this disk, and which of it makes pairs. Files are read, never copied or changed."""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from localspec.models.errors import ModelError, NotAModel, named, plain
from localspec.models.gguf import Header, read_header
from localspec.models.gguf_split import part_name, read_model
from localspec.models.pairs import LARGEST_DRAFT, PairVerdict, bytes_per_token, plausible, propose_drafts
from localspec.models.scan_places import System, Unreadable, candidates

DRAFTS_PER_TARGET = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A model that can be loaded by naming `path`. `name` is what its program calls it; `also` lists other programs
    that have the same file. `size` in bytes, all parts together."""

    name: str
    program: str
    path: Path
    size: int
    header: Header
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A file or folder that cannot be used, and why, in one line."""

    program: str
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class FoundPair:
    """A pair among the found models. `share` is what the draft reads per token over what the target reads."""

    target: Found
    draft: Found
    share: float
    verdict: PairVerdict


@dataclass(frozen=True)
class Scan:
    """`files` are the models found. `left_out` counts sound files that are no language models: projectors, adapters,
    embedding models. `pairs` reads vocabularies the first time it is asked for, some tenths of a second."""

    files: tuple[Found, ...]
    broken: tuple[Broken, ...]
    left_out: int
    cache_dir: Path | None = None

    @cached_property
    def pairs(self) -> tuple[FoundPair, ...]:
        return tuple(propose_pairs(self.files, self.cache_dir))


def scan(folders: Sequence[Path] = (), *, system: System | None = None, cache_dir: Path | None = None) -> Scan:
    """Looks into the places of five programs and into `folders`; never raises for what it finds there.

    The same file under several names (links, two programs) is reported once. `system` is for tests; `cache_dir` keeps
    the verdicts on pairs.
    """
    here = system or System(Path.home(), os.environ, sys.platform)
    found: dict[tuple[int, int], Found] = {}
    broken: list[Broken] = []
    left_out: set[tuple[int, int]] = set()
    failed: set[Path] = set()
    for candidate in candidates(here, list(folders)):
        if isinstance(candidate, Unreadable):
            broken.append(Broken(candidate.program, candidate.path, f"{named(candidate.path)} {candidate.reason}"))
            continue
        if first := _first_part(candidate.path):
            if not first.exists():
                reason = f"{named(candidate.path)} is a later part, and the first part, {first.name}, is not beside it"
                broken.append(Broken(candidate.program, candidate.path, f"{plain(reason, 500)}: fetch it as well"))
            continue
        key = _identity(candidate.path)
        if key in left_out or candidate.path in failed:
            continue
        if key is not None and key in found:
            known = found[key]
            if candidate.program not in (known.program, *known.also):
                found[key] = replace(known, also=(*known.also, candidate.program))
            continue
        try:
            header = read_model(candidate.path)
        except NotAModel:
            left_out.update([key] if key else [])
            continue
        except ModelError as error:
            failed.add(candidate.path)
            broken.append(Broken(candidate.program, candidate.path, str(error)))
            continue
        if key is not None:
            found[key] = Found(candidate.name, candidate.program, candidate.path, header.file_bytes, header)
    files = tuple(sorted(found.values(), key=lambda one: (one.program, one.name)))
    return Scan(files, tuple(broken), len(left_out), cache_dir)


def propose_pairs(models: Sequence[Found], cache_dir: Path | None = None) -> list[FoundPair]:
    """The best few drafts for each model that has any, largest targets first."""
    by_path = {model.path: model for model in models}
    headers = list(_with_tokens([model.header for model in models]))
    pairs = []
    for target in sorted(headers, key=lambda h: (-bytes_per_token(h), str(h.path))):
        for proposal in propose_drafts(target, headers, cache_dir)[:DRAFTS_PER_TARGET]:
            draft = by_path[proposal.draft.path]
            pairs.append(FoundPair(by_path[target.path], draft, proposal.share, proposal.verdict))
    return pairs


def _with_tokens(headers: list[Header]) -> Iterable[Header]:
    """The headers, those that may be part of a pair with their tokens: read once, equal vocabularies kept once."""
    vocabularies: list[list[bytes]] = []
    for header in headers:
        if not any(_worth_comparing(header, other) or _worth_comparing(other, header) for other in headers):
            yield header
            continue
        try:
            tokens = read_header(header.path, tokens=True).tokens or []
        except ModelError:
            yield header
            continue
        known = next((v for v in vocabularies if v == tokens), None)
        if known is None:
            vocabularies.append(tokens)
        yield replace(header, tokens=tokens if known is None else known)


def _worth_comparing(target: Header, draft: Header) -> bool:
    if target.path == draft.path or draft.recurrent or draft.hybrid:
        return False
    return 0 < bytes_per_token(draft) <= LARGEST_DRAFT * bytes_per_token(target) and plausible(target, draft)


def _first_part(path: Path) -> Path | None:
    """Of a later part of a split model the first one, which stands for all; None for other files."""
    parsed = part_name(path.name)
    if parsed is None or parsed[1] == 1:
        return None
    stem, _, count = parsed
    return path.with_name(f"{stem}-00001-of-{count:05d}.gguf")


def _identity(path: Path) -> tuple[int, int] | None:
    """The file behind a name, whatever links lead to it; None when there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
