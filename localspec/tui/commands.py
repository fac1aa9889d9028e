"""What a person can type in the prompt besides questions: `/edit`, `/diff` and `/undo`.

Any other text is a question, also one that begins with a slash: paths do.
"""

import re
from dataclasses import dataclass
from pathlib import Path

COMPLETED = ("/edit ", "/diff", "/undo")
"""The commands as a person goes on typing after them."""

USAGE = "/edit FILE[:A-B] INSTRUCTION"

_COMMAND = re.compile(r"\s*/(edit|diff|undo)(?:\s+(.*))?\Z", re.DOTALL)
_TARGET = re.compile(r'@?(?:"([^"\n]+)"|([^\s"]+?))(?::([0-9]+(?:-[0-9]*)?))?(?:\s+(.*))?\Z', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """`lines` is `A-B`, None for the whole file. An empty `file` or `instruction` was left out: a form asks for it."""

    file: str = ""
    lines: str | None = None
    instruction: str = ""

    @property
    def complete(self) -> bool:
        return bool(self.file and self.instruction)

    @property
    def path(self) -> Path:
        """From where the app was started. Raises RuntimeError for the home of somebody unknown."""
        return Path(self.file).expanduser()

    def written(self) -> str:
        """The command as it is typed."""
        file = (
            f'"{self.file}"'
            if re.search(r"\s", self.file) or re.search(r":[0-9]+(-[0-9]*)?$", self.file)
            else self.file
        )
        target = f"{file}:{self.lines}" if self.lines else file
        return " ".join(part for part in ("/edit", target, self.instruction) if part)


@dataclass(frozen=True, slots=True)
class Diff:
    """Show the last edit's changes again."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Bring back what the last edit replaced, or the last edit of `file`."""

    file: str = ""


Command = Edit | Diff | Undo


def parse(text: str) -> Command | None:
    """The command in a prompt's text; None when it is a question."""
    match = _COMMAND.match(text)
    if match is None:
        return None
    name, rest = match.group(1), (match.group(2) or "").strip()
    if name == "diff":
        return Diff() if not rest else None
    if name == "undo":
        return Undo(rest.removeprefix("@").strip('"'))
    target = _TARGET.match(rest)
    if target is None:
        return Edit()
    quoted, bare, lines, instruction = target.groups()
    return Edit(quoted or bare, lines, (instruction or "").strip())
