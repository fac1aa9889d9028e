"""A file as text that can be edited and written back byte for byte.

Only UTF-8 is edited, with or without a byte order mark; everything else is refused with the reason, because a guess at
an encoding would damage the bytes that are not part of the edit.
"""

import codecs
import hashlib
from dataclasses import dataclass
from pathlib import Path

from localspec.chat.attach import MAX_BYTES
from localspec.chat.visible import one_line

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class CannotEdit(Exception):
    """A file or an edit that is refused; `str(error)` is one line."""


@dataclass(frozen=True, slots=True)
class EditFile:
    """What is edited: `data` as it lies on the disk, `text` decoded from it, line ends as they are, without the byte
    order mark. `name` is how the person called it; `path` is None for text out of a pipe."""

    name: str
    data: bytes
    text: str
    path: Path | None = None

    @property
    def digest(self) -> str:
        return digest_of(self.data)

    @property
    def suffix(self) -> str:
        return self.path.suffix if self.path is not None else ""

    def encoded(self, text: str) -> bytes:
        """`text` as the file keeps it: UTF-8, with the byte order mark when the file has one.

        Raises `CannotEdit` for text that has no UTF-8 form (half of a surrogate pair)."""
        mark = codecs.BOM_UTF8 if self.data.startswith(codecs.BOM_UTF8) else b""
        try:
            return mark + text.encode("utf-8")
        except UnicodeEncodeError:
            raise CannotEdit(f"{self.name}: the new text cannot be written as UTF-8") from None


def digest_of(data: bytes) -> str:
    """What tells whether bytes changed: their sha256."""
    return hashlib.sha256(data).hexdigest()


def read(path: Path) -> EditFile:
    """The file at `path`, through a symlink too. Raises `CannotEdit` with the reason when it is no text to edit."""
    name = one_line(str(path))
    try:
        if not path.is_file():
            kind = "a directory" if path.is_dir() else "not a regular file"
            reason = f"{name} is {kind}" if path.exists() else f"{name}: no such file"
            raise CannotEdit(reason)
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CannotEdit(f"{name} has {size / 1e6:.0f} MB: more than any context here holds")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise CannotEdit(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    return of_bytes(data, name, path)


def of_bytes(data: bytes, name: str, path: Path | None = None) -> EditFile:
    """Bytes as a text to edit. Raises `CannotEdit` for UTF-16, binary data and anything else that is not UTF-8."""
    if data.startswith(_UTF32):
        raise CannotEdit(f"{name} is UTF-32 text: convert it to UTF-8 first")
    if data.startswith(_UTF16) or _looks_like_utf16(data):
        raise CannotEdit(f"{name} is UTF-16 text: convert it to UTF-8 first")
    if b"\0" in data:
        raise CannotEdit(f"{name} is binary (byte {data.index(0)} is zero)")
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CannotEdit(f"{name} is not UTF-8 text (byte {error.start}): convert it first") from None
    if "\r" in text and "\n" not in text:
        raise CannotEdit(f"{name} ends its lines with carriage returns alone: convert it first")
    return EditFile(name, data, text, path)


def _looks_like_utf16(data: bytes) -> bool:
    """UTF-16 without its mark: every other byte of Latin text is zero, and no byte between."""
    start = data[: min(len(data), 512) // 2 * 2]
    even, odd = start[::2], start[1::2]
    return len(start) >= 4 and ((all(even) and not any(odd)) or (all(odd) and not any(even)))
