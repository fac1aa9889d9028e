"""What a person asks: the argument, what is piped in, and files, made into one text."""

import codecs
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from localspec.cli.errors import Failure
from localspec.cli.terminal import is_terminal, one_line, say

PATIENCE_S = 3.0
"""A pipe that nobody closes looks like a program that hangs: after this long it is said what is waited for."""

HOW = 'give it as an argument, `localspec run "your question"`, or pipe text in'


def read_prompt(argument: str | None, files: Sequence[Path], *, raw: bool = False) -> str:
    """The prompt. Text that is piped in stands below the argument in a fenced block, files likewise with their names;
    with `raw` the pieces are just joined.

    Raises `Failure` when a piece is not UTF-8, a file cannot be read, or there is nothing to answer.
    """
    if argument is not None:
        _require_text(argument)
    piped = _piped()
    blocks = [_File(_named(path), _read(path), path.suffix) for path in files]
    if raw:
        text = "".join([*(block.text for block in blocks), piped or "", argument or ""])
    elif argument is None or not argument.strip():
        text = "\n\n".join([*([piped] if piped is not None and piped.strip() else []), *map(_fenced, blocks)])
    else:
        if piped is not None and piped.strip():
            blocks.insert(0, _File(None, piped, ""))
        text = "\n\n".join([argument, *map(_fenced, blocks)])
    if not text.strip():
        raise Failure(f"the prompt is empty: {HOW}")
    return text


class _File:
    def __init__(self, name: str | None, text: str, suffix: str) -> None:
        self.name, self.text = name, text
        self.language = suffix[1:] if re.fullmatch(r"\.[A-Za-z0-9+]{1,10}", suffix) else ""


def _fenced(file: _File) -> str:
    """A fenced block that no fence inside the text can close."""
    longest = max((len(run) for run in re.findall("`{3,}", file.text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if file.text.endswith("\n") else "\n"
    title = f"{file.name}:\n" if file.name else ""
    return f"{title}{fence}{file.language}\n{file.text}{end}{fence}"


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


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Failure(f"--file {path}: {error.strerror or error}") from None
    return _decoded(data, f"--file {path}")


def _decoded(data: bytes, name: str) -> str:
    """UTF-8 text, a byte order mark left out; line ends and everything else as they are."""
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"{name} is not UTF-8 text (byte {error.start}): convert it first") from None


def _require_text(argument: str) -> None:
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError:
        raise Failure("the prompt is not UTF-8 text: check the terminal's encoding, or pipe it in") from None


def _named(path: Path) -> str:
    return one_line(str(path))
