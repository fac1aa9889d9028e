"""What can go wrong with model files, said in one line each: the cause and the next step."""

from pathlib import Path


class ModelError(Exception):
    """A failure with a reason a person can act on. `str(error)` is one line."""


class UnreadableFile(ModelError):
    """The file is missing, is not a plain file, or may not be read."""


class NotGGUF(ModelError):
    """The file is readable and is something else than a GGUF this program can load."""


class DamagedGGUF(ModelError):
    """The file begins like a GGUF and contradicts itself, or ends too early."""


class NotAModel(ModelError):
    """A sound GGUF that is no language model to load: an adapter, a projector, a later part of a split file."""


def plain(text: str | bytes, limit: int = 200) -> str:
    """Untrusted text as one printable line: escapes for control characters, cut at `limit` characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def named(path: Path) -> str:
    """A path for an error message."""
    return plain(str(path), 400)
