"""What a person picks out of the chat to send on: a code block or a selection, and where it stands in which file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.chat.attach import Attached, sources_in
from localspec.chat.turns import Turn

UNNAMED = ("prompt", "answer", "prediction")
"""What the engine calls texts that are no file."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Text out of a turn: its characters from `start` up to `end`. `language` is what its fence says; None: no block of
    code."""

    text: str
    turn: Turn | None = None
    start: int = 0
    end: int = 0
    language: str | None = None

    def quoted(self) -> str:
        """As it is put into a question."""
        if self.language is None and "\n" not in self.text.strip("\n"):
            return self.text.strip("\n")
        suffix = f".{self.language}" if self.language else ""
        return Attached(None, self.text, suffix).fenced() + "\n"


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file, counted from 1, both included."""

    file: str
    first: int
    last: int


def blocks(turn: Turn) -> list[Picked]:
    """The fenced code blocks of a turn, with what stands between their fences."""
    from markdown_it import MarkdownIt

    starts = [0]
    for line in turn.text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for token in MarkdownIt().parse(turn.text):
        if token.type == "fence" and token.map is not None:
            first, last = token.map[0] + 1, token.map[0] + 1 + token.content.count("\n")
            words = token.info.split()
            found.append(Picked(token.content, turn, starts[first], starts[last], words[0] if words else ""))
    return found


def block_at(turn: Turn, token: int) -> Picked | None:
    """The code block that a token of an answer is in."""
    at = sum(len(part.text) for part in turn.parts[:token])
    return next((block for block in blocks(turn) if block.start <= at < block.end), None)


def selected(turns: Sequence[Turn], text: str) -> Picked:
    """A selection, found again in the newest turn that has it."""
    for turn in reversed(turns):
        at = turn.text.find(text)
        if at >= 0:
            return Picked(text, turn, at, at + len(text))
    return Picked(text)


def place_of(picked: Picked, turns: Sequence[Turn]) -> Lines | None:
    """The lines of a file that a text was copied from: as its tokens tell, else as it stands in a file that was
    attached to the chat."""
    return _by_tokens(picked) or _by_text(picked.text, turns)


def _by_tokens(picked: Picked) -> Lines | None:
    seen: list[tuple[str, int]] = []
    at = 0
    for part in picked.turn.parts if picked.turn is not None else ():
        inside = picked.start < at + len(part.text) and at < picked.end
        at += len(part.text)
        source = part.token.source
        if inside and source is not None and source.name not in UNNAMED:
            seen.append((source.name, source.line))
    if not seen:
        return None
    file = Counter(name for name, _ in seen).most_common(1)[0][0]
    lines = [line for name, line in seen if name == file]
    return Lines(file, min(lines), max(lines))


def _by_text(text: str, turns: Sequence[Turn]) -> Lines | None:
    wanted = text.strip("\n")
    for turn in reversed(turns):
        for source in sources_in(turn.text) if turn.role == "user" and wanted.strip() else ():
            at = source.text.find(wanted)
            if at >= 0:
                first = source.text.count("\n", 0, at) + source.first_line
                return Lines(source.name, first, first + wanted.count("\n"))
    return None
