"""The files around a file that may tell how it goes on: in a git repository what git knows of, else its folder.

Never ignored files, never binary ones, never what looks like a secret, nothing outside the project, and no link: what
is read here goes into a prompt without anybody having named it.
"""

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

MAX_BYTES = 200_000
"""Larger files are data or made by a program."""

MAX_FILES = 200
"""Files read for one completion: reading takes milliseconds, ranking a tenth of a second."""

MAX_LOOKED_AT = 1000
"""Files whose date and size are asked for, the nearest first: a large repository has ten thousands."""

GIT_PATIENCE_S = 5.0

SECRETS = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".htpasswd", ".pgpass", ".my.cnf",
    ".git-credentials", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.asc", "*.gpg", "*.ovpn",
    "*.tfstate", "*.tfvars", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*credential*", "*secret*", "*password*",
    "*passwd*", "token.json", "*[-_]token.json", "*service*account*.json",
)  # fmt: skip
"""File names that are left out, whatever they hold. `tokens.py` is code; a file named after secrets is not worth it."""

_PRIVATE = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b")
_MADE = ("*.min.js", "*.min.css", "*.lock", "package-lock.json", "*.map", "*_pb2.py", "*.generated.*")
_FOLDERS = frozenset((".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", "dist", "build", "target"))

_KINDS = (
    (".py", ".pyi", ".pyx"),
    (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".cu", ".m", ".mm"),
    (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue", ".svelte"),
    (".java", ".kt", ".kts", ".scala", ".groovy"),
    (".html", ".htm", ".css", ".scss", ".less"),
    (".md", ".rst", ".txt"),
    (".sh", ".bash", ".zsh"),
)
"""Suffixes of one language: only such files are neighbours, unless they are imported."""

_IMPORTS = re.compile(
    r"""^[ \t]*(?:
        from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]+(?P<names>[(\w \t,]+)
      | import[ \t]+(?P<modules>[\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)
      | \#[ \t]*include[ \t]+"(?P<include>[^"\n]+)"
      | .*?\b(?:from|require\(|import\()[ \t]*["'](?P<path>\.{1,2}/[^"'\n]+)["']
    )""",
    re.VERBOSE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Project:
    """Where a file belongs: `root` is the repository's top folder, or the file's own when there is no repository."""

    root: Path
    in_git: bool

    @property
    def name(self) -> str:
        return self.root.name

    def name_of(self, file: Path) -> str:
        """The path of a file of the project from its root."""
        return _real(file).relative_to(self.root).as_posix()


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A file near by. `name` is its path from the project's root; `imported` by the file itself; `modified` in seconds
    since the epoch."""

    name: str
    text: str
    imported: bool
    same_folder: bool
    modified: float


def project_of(file: Path) -> Project:
    """The repository that `file` lies in, or its folder when git knows none (or there is no git)."""
    folder = _real(file).parent
    top = _git(folder, "rev-parse", "--show-toplevel")
    return Project(Path(os.fsdecode(top.rstrip(b"\n"))), True) if top else Project(folder, False)


def neighbours(file: Path, text: str, project: Project) -> list[Neighbour]:
    """The files near `file`, whose text is `text` (the disk may have an older one): what it imports, then the nearest,
    then the newest. A file that cannot be read is left out."""
    file = _real(file)
    imported = set(_imported(file, text, project.root))
    kind = _kind(file.suffix)
    wanted = {path for path in _candidates(file, project) if path.suffix and path.suffix in kind} | imported
    nearest = sorted((path not in imported, _distance(file, path), path) for path in wanted - {file})
    looked_at: list[tuple[bool, int, float, Path]] = []
    for foreign, distance, path in nearest[:MAX_LOOKED_AT]:
        if _may_be_read(path, project.root) and (facts := _facts(path)) and facts.st_size <= MAX_BYTES:
            looked_at.append((foreign, distance, -facts.st_mtime, path))
    near = []
    for foreign, _, age, path in sorted(looked_at)[:MAX_FILES]:
        content = _read(path)
        if content is not None and content.strip():
            name = path.relative_to(project.root).as_posix()
            near.append(Neighbour(name, content, not foreign, path.parent == file.parent, -age))
    return near


def is_secret(name: str) -> bool:
    """Whether a file of this name is left out unless somebody names it."""
    return any(fnmatch(name.lower(), pattern) for pattern in SECRETS)


def _real(file: Path) -> Path:
    """The path git would name: without links on the way, the file's own name kept."""
    return file.parent.resolve() / file.name


def _facts(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _candidates(file: Path, project: Project) -> Iterable[Path]:
    if project.in_git:
        listed = _git(project.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listed is not None:
            return [project.root / os.fsdecode(name) for name in listed.split(b"\0") if name]
    try:
        return list(file.parent.iterdir())
    except OSError:
        return []


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git prints; None when it fails or is not there. In a hook git's own variables point to another place."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_PATIENCE_S, check=False,
            env={**others, "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _may_be_read(path: Path, root: Path) -> bool:
    """An ordinary file of the project, reached through no link, that is no secret and was written by a person."""
    try:
        inside = path.relative_to(root)
    except ValueError:
        return False
    if any(part in _FOLDERS for part in inside.parts[:-1]) or is_secret(path.name):
        return False
    if any(fnmatch(path.name, pattern) for pattern in _MADE):
        return False
    try:
        return path.is_file() and path.resolve() == root.resolve() / inside
    except OSError:
        return False


def _read(path: Path) -> str | None:
    """The file's text; None for what is no text or holds a key."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text or _PRIVATE.search(text) else text


def _kind(suffix: str) -> frozenset[str]:
    return next((frozenset(kind) for kind in _KINDS if suffix in kind), frozenset({suffix}))


def _distance(file: Path, other: Path) -> int:
    """Steps from one folder to the other."""
    shared = len(Path(os.path.commonpath([file.parent, other.parent])).parts)
    return len(file.parent.parts) + len(other.parent.parts) - 2 * shared


def _imported(file: Path, text: str, root: Path) -> Iterable[Path]:
    """Files of the project that the text imports. By pattern, not by parser: the text is being written and may be no
    program yet."""
    for match in _IMPORTS.finditer(text):
        if include := match["include"]:
            places = [file.parent / include, root / include, root / "include" / include]
        elif relative := match["path"]:
            stem = file.parent / relative
            ends = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", "/index.ts", "/index.js")
            places = [Path(f"{stem}{end}") for end in ends]
        elif file.suffix in _KINDS[0]:
            places = [place for module in _modules(match) for place in _module_files(module, file, root)]
        else:
            continue
        for place in places:
            path = Path(os.path.normpath(place))
            if path.is_file():
                yield path


def _modules(match: re.Match[str]) -> list[str]:
    if match["modules"]:
        return [name.strip() for name in match["modules"].split(",")]
    base = match["base"]
    names = [name.split()[0] for name in match["names"].strip("( \t").split(",") if name.split()]
    dot = "" if base.endswith(".") else "."
    return [base, *(f"{base}{dot}{name}" for name in names)]


def _module_files(module: str, file: Path, root: Path) -> Iterable[Path]:
    name = module.lstrip(".")
    dots = len(module) - len(name)
    parts = [part for part in name.split(".") if part]
    bases = [file.parents[min(dots, len(file.parents)) - 1]] if dots else [root, root / "src", file.parent]
    for base in bases:
        stem = base.joinpath(*parts)
        if parts:
            yield stem.with_name(stem.name + ".py")
        yield stem / "__init__.py"
