"""A change on its way to the person: the diff on stdout, the question on stderr."""

import sys
from collections.abc import Sequence

from localspec.assist import diff
from localspec.assist.diff import Hunk
from localspec.chat.settings import Color
from localspec.cli import render
from localspec.cli.terminal import is_terminal, visible, write_quietly

STYLES = {"file": "1", "hunk": "36", "-": "31", "+": "32"}
"""SGR codes of the lines of a diff, as git has them."""


def show_diff(name: str, hunks: Sequence[Hunk], color: Color) -> None:
    """The diff to stdout: for a pipe to the byte as `git apply` reads it, on a terminal coloured and with control
    characters visible."""
    terminal = is_terminal(sys.stdout)
    mode = render.mode_for(color, sys.stdout)
    if not terminal and mode != "color":
        write_bytes(diff.unified(name, hunks).encode("utf-8", "surrogateescape"))
        return
    for kind, line in diff.rows(name, hunks):
        text = line[:-1]
        if terminal:
            text = visible(text.removesuffix("\r"))
        style = STYLES.get(kind) if mode == "color" else None
        sys.stdout.write(f"\x1b[{style}m{text}\x1b[0m\n" if style else f"{text}\n")
    sys.stdout.flush()


def write_bytes(data: bytes) -> None:
    """Bytes to stdout as they are, on systems that rewrite line ends too."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def can_ask() -> bool:
    """Whether a person sees the diff and can answer."""
    return is_terminal(sys.stdin) and is_terminal(sys.stdout)


def ask(question: str) -> bool:
    """A yes or no from the keyboard; no when nothing or something else is typed."""
    write_quietly(sys.stderr, f"{visible(question)} [y/N] ")
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        write_quietly(sys.stderr, "\n")
    return answer.strip().lower() in ("y", "yes")
