"""What a person asks: the argument, what is piped in, and files, made into one text."""

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.chat.attach import Attached, CannotAttach, decoded, read
from localspec.cli.errors import Failure
from localspec.cli.terminal import is_terminal, say
from localspec.engine.requests import SourceText

PATIENCE_S = 3.0
"""A pipe that nobody closes looks like a program that hangs: after this long it is said what is waited for."""

HOW = 'give it as an argument, `localspec run "your question"`, or pipe text in'


STDIN = "standard input"


@dataclass(frozen=True, slots=True)
class Asked:
    """The prompt, and the texts in it that have a name: what is copied from one can be told. `pieces` are the argument,
    what was piped in and the files, as they are."""

    text: str
    sources: tuple[SourceText, ...] = ()
    pieces: tuple[str, ...] = ()

    @property
    def one_text(self) -> str:
        """The prompt for a model that reads one text: the task in front of what it is about, as in "summarize: ...",
        without fences and names."""
        return " ".join(piece.strip() for piece in self.pieces if piece.strip())


def read_prompt(argument: str | None, files: Sequence[Path], *, raw: bool = False) -> Asked:
    """The prompt. Text that is piped in stands below the argument in a fenced block, files likewise with their names;
    with `raw` the pieces are just joined.

    Raises `Failure` when a piece is not UTF-8, a file cannot be read, or there is nothing to answer.
    """
    if argument is not None:
        _require_text(argument)
    piped = _piped()
    blocks = [_read(path) for path in files]
    named = [(block.name or "", block.text) for block in blocks] + [(STDIN, piped or "")]
    sources = tuple(SourceText(name, text) for name, text in named if text.strip())
    if raw:
        text = "".join([*(block.text for block in blocks), piped or "", argument or ""])
    elif argument is None or not argument.strip():
        text = "\n\n".join(
            [*([piped] if piped is not None and piped.strip() else []), *(block.fenced() for block in blocks)]
        )
    else:
        if piped is not None and piped.strip():
            blocks.insert(0, Attached(None, piped))
        text = "\n\n".join([argument, *(block.fenced() for block in blocks)])
    if not text.strip():
        raise Failure(f"the prompt is empty: {HOW}")
    return Asked(text, sources, (argument or "", piped or "", *(text for _, text in named[:-1])))


def _piped() -> str | None:
    """Standard input when it is not a terminal; None otherwise."""
    if sys.stdin is None or sys.stdin.closed or is_terminal(sys.stdin):
        return None
    patience = threading.Timer(PATIENCE_S, say, ("waiting for standard input to end; `< /dev/null` gives it none",))
    patience.daemon = True
    patience.start()
    try:
        data = sys.stdin.buffer.read()
    finally:
        patience.cancel()
    return _decoded(data, "standard input")


def _read(path: Path) -> Attached:
    try:
        return read(path, f"--file {path}")
    except CannotAttach as error:
        raise Failure(str(error)) from None


def _decoded(data: bytes, name: str) -> str:
    try:
        return decoded(data, name)
    except CannotAttach as error:
        raise Failure(str(error)) from None


def _require_text(argument: str) -> None:
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        raise Failure("the prompt is not UTF-8 text: check the terminal's encoding, or pipe it in") from None
