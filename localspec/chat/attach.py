"""Files in a question: read as text, and set below it in fenced blocks that nothing inside them can close."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.chat.visible import one_line
from localspec.engine.requests import SourceText

MAX_BYTES = 8_000_000
"""More text than any context here holds; a larger file is a mistake that would only cost time."""

MENTION = re.compile(r"(?<!\S)@(\"[^\"\n]+\"|\S+)")
"""`@path`, or `@"a path with blanks"`, at the start of a word."""


class CannotAttach(Exception):
    """A file that cannot be attached; `str(error)` is one line."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file's name (None for text that has none), its text, and the suffix that tells its language."""

    name: str | None
    text: str
    suffix: str = ""

    def fenced(self) -> str:
        """The file as a fenced block under its name."""
        language = self.suffix[1:] if re.fullmatch(r"\.[A-Za-z0-9+]{1,10}", self.suffix) else ""
        longest = max((len(run) for run in re.findall("`{3,}", self.text)), default=2)
        fence = "`" * (longest + 1)
        end = "" if self.text.endswith("\n") else "\n"
        title = f"{self.name}:\n" if self.name else ""
        return f"{title}{fence}{language}\n{self.text}{end}{fence}"


_BLOCK = re.compile(r"^([^\n]+):\n(`{3,})([A-Za-z0-9+]*)\n(.*?\n)\2$", re.MULTILINE | re.DOTALL)


def sources_in(text: str) -> tuple[SourceText, ...]:
    """The files that stand in a question as `Attached.fenced` set them there, so that what is copied from one can be
    named, also when the question comes out of the history. A fenced block with other words above it is no file."""
    found = []
    for name, _, language, content in _BLOCK.findall(text):
        suffix = Path(name).suffix[1:]
        if suffix == language if language else "/" in name or "\\" in name:
            found.append(SourceText(name, content))
    return tuple(found)


def decoded(data: bytes, name: str) -> str:
    """UTF-8 text, a byte order mark left out; line ends and everything else as they are. Raises `CannotAttach`."""
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CannotAttach(f"{name} is not UTF-8 text (byte {error.start}): convert it first") from None


def read(path: Path, title: str | None = None) -> Attached:
    """A file, called `title` in errors. Raises `CannotAttach` when it cannot be read or is no text."""
    title = title or one_line(str(path))
    try:
        size = path.stat().st_size
        if path.is_file() and size > MAX_BYTES:
            raise CannotAttach(f"{title} has {size / 1e6:.0f} MB: attach the part that matters")
        data = path.read_bytes()
    except OSError as error:
        raise CannotAttach(f"{title}: {error.strerror or error}") from None
    return Attached(one_line(str(path)), decoded(data, title), path.suffix)


def mentions(text: str, folder: Path | None = None) -> list[tuple[str, Path]]:
    """The files that `@path` in a text means, with the spelling; words that name no file are left alone."""
    found: list[tuple[str, Path]] = []
    for match in MENTION.finditer(text):
        name = match.group(1).strip('"')
        path = (folder or Path.cwd()) / Path(name).expanduser()
        try:
            exists = path.is_file()
        except (OSError, ValueError):
            continue
        if exists and all(path != known for _, known in found):
            found.append((match.group(), path))
    return found


def with_files(text: str, files: Sequence[Attached]) -> str:
    """A question with its files below it."""
    return "\n\n".join([text, *(file.fenced() for file in files)])
