"""One entry of a TOML file, read field by field with the type each must have.

A wrong value makes the entry unusable (a hash that is not one must not switch the check off), an unknown key is only
mentioned.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from localspec.models.toml_blocks import Document, Problem

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._{}-]*")


class Reader:
    """Takes typed fields out of one raw entry; faults go to `problems`, and `finish` says whether it can be used.

    `mine` is what this document itself says when `raw` also holds values merged from elsewhere: only its keys are
    checked for being unknown.
    """

    def __init__(
        self, document: Document, path: tuple[str, ...], raw: Any, problems: list[Problem], mine: Any = None
    ) -> None:
        self.document = document
        self.path = path
        self.problems = problems
        self.usable = True
        self.raw: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
        self.mine: Mapping[str, Any] = mine if isinstance(mine, dict) else self.raw
        if not isinstance(raw, dict):
            self.fault("", "must be a table")

    def fault(self, name: str, reason: str) -> None:
        """Note that `name` is wrong: the entry is not used."""
        self.usable = False
        self._note(name, reason, "error")

    def _note(self, name: str, reason: str, severity: Any) -> None:
        keys = (*self.path, name) if name else self.path
        line = self.document.line_of(*keys)
        self.problems.append(Problem(self.document.file, line, ".".join(keys), reason, severity))

    def finish(self, known: Iterable[str]) -> bool:
        """Warn of keys not in `known`; True when every field was right."""
        for name in sorted(self.mine.keys() - set(known)):
            self._note(name, "unknown key, not used", "warning")
        return self.usable

    def text(self, name: str, *, required: bool = False) -> str | None:
        """A text of at least one character, on one line."""
        value = self.raw.get(name)
        if value is None:
            if required:
                self.fault(name, "is missing")
            return None
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            self.fault(name, "must be a text on one line, and not empty")
            return None
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty when absent."""
        value = self.raw.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item.isprintable() for item in value):
            self.fault(name, "must be a list of texts")
            return []
        return value

    def positive(self, name: str) -> int | None:
        """A whole number from 1."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63:
            self.fault(name, "must be a whole number, 1 or more")
            return None
        return value

    def flag(self, name: str) -> bool:
        """true or false; false when absent."""
        value = self.raw.get(name, False)
        if not isinstance(value, bool):
            self.fault(name, "must be true or false")
            return False
        return value

    def choice(self, name: str, among: tuple[str, ...]) -> str | None:
        """One of the given words."""
        value = self.raw.get(name)
        if value is not None and value not in among:
            self.fault(name, f"must be one of {', '.join(among)}")
            return None
        return value

    def table(self, name: str) -> "Reader | None":
        """An inner table, with a reader of its own whose faults also count against this entry."""
        if name not in self.raw:
            return None
        return _Inner(self, name)

    def tables(self, name: str, texts: tuple[str, ...]) -> list[dict[str, str]]:
        """A list of tables that hold exactly the given texts."""
        value = self.raw.get(name, [])
        if not isinstance(value, list):
            self.fault(name, "must be a list of tables")
            return []
        for item in value:
            if not isinstance(item, dict) or set(item) != set(texts) or not all(
                isinstance(text, str) and text.isprintable() for text in item.values()
            ):  # fmt: skip
                self.fault(name, f"must be tables with the texts {' and '.join(texts)}")
                return []
        return value

    def key_name(self) -> str:
        """The entry's own key, which becomes a folder's name."""
        key = self.path[-1]
        if not is_key(key):
            self.fault("", "a name is made of letters, digits, '.', '_' and '-'")
        return key

    def file_name(self, name: str, *, default: str | None = None) -> str:
        """A plain file name, without a folder."""
        value = self.text(name) if name in self.raw else default
        if value is None:
            if name not in self.raw:
                self.fault(name, "is missing")
            return ""
        if re.search(r'[/\\:*?"<>|]', value) or value.startswith("."):
            self.fault(name, "must be a plain file name")
        return value

    def absolute_path(self, name: str) -> Path | None:
        """A path on this disk; `~` is the person's home."""
        value = self.text(name)
        if value is None:
            return None
        path = Path(value).expanduser()
        if not path.is_absolute():
            self.fault(name, "must be an absolute path")
        return path

    def relative_path(self, name: str, *, default: Any = None) -> str | None:
        """A path inside a repository, with forward slashes."""
        value = self.text(name) if name in self.raw else default
        if not isinstance(value, str):
            return None
        if "\\" in value or any(part in ("", ".", "..") for part in value.split("/")):
            self.fault(name, "must be a path inside the repository")
        return value

    def sha256(self, name: str) -> str | None:
        """64 hex digits, answered in lower case."""
        value = self.text(name)
        if value is not None and not _SHA256.fullmatch(value.lower()):
            self.fault(name, "must be 64 hex digits")
        return value.lower() if value else None

    def repository(self, name: str) -> str | None:
        """`OWNER/REPO`."""
        value = self.text(name, required=True)
        if value is not None and not is_repository(value):
            self.fault(name, "must be OWNER/REPO")
        return value

    def requirement(self, name: str) -> str | None:
        """A package's name or version: nothing that pip could take for an option, an address or a path."""
        value = self.text(name, required=True)
        if value is not None and not _REQUIREMENT.fullmatch(value):
            self.fault(name, "must be a plain package name or version")
        return value


class _Inner(Reader):
    def __init__(self, outer: Reader, name: str) -> None:
        self.outer = outer
        super().__init__(outer.document, (*outer.path, name), outer.raw[name], outer.problems)

    def fault(self, name: str, reason: str) -> None:
        super().fault(name, reason)
        self.outer.usable = False


def is_key(text: str) -> bool:
    """Whether `text` can be the name of an entry: also a folder's name, on every system."""
    return _KEY.fullmatch(text) is not None and not text.endswith(".")


def is_repository(text: str) -> bool:
    """Whether `text` has the form OWNER/REPO."""
    return _REPOSITORY.fullmatch(text) is not None and ".." not in text
