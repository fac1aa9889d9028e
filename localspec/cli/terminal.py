"""What a terminal is sent: untrusted text made visible, one-line messages, a line that comes and goes."""

import os
import sys
from collections.abc import Callable
from typing import TextIO

from localspec.chat.visible import VisibleStream as VisibleStream
from localspec.chat.visible import one_line as one_line
from localspec.chat.visible import visible as visible


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream; a closed or missing one is none."""
    try:
        return stream.isatty()
    except (ValueError, AttributeError):
        return False


def takes_escapes(stream: TextIO) -> bool:
    """Whether the stream is a terminal that knows escape sequences."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def say(text: str) -> None:
    """A sentence for the person, on stderr, on a line of its own."""
    if not in_vims_filter():
        complain(text)


def complain(text: str) -> None:
    """`say`, for why nothing came of a command: wherever it lands."""
    write_quietly(sys.stderr, f"localspec: {one_line(text)}\n")


def aside(text: str) -> None:
    """Something less important: dim where the terminal can."""
    if in_vims_filter():
        return
    line = one_line(text)
    write_quietly(sys.stderr, f"\x1b[2m{line}\x1b[0m\n" if takes_escapes(sys.stderr) else f"{line}\n")


def in_vims_filter() -> bool:
    """Whether Vim takes what is written as text: Neovim, and Vim with `shelltemp`, put stderr into it too, and Vim
    without lets it run over the screen. Both name their files to what they start."""
    return "VIMRUNTIME" in os.environ and not is_terminal(sys.stdout)


def write_quietly(stream: TextIO, text: str) -> None:
    """Diagnostics: when nobody takes them any more the answer still counts."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        return


class StatusLine:
    """One line on stderr that is replaced, and gone before anything else is written; nothing where it cannot go."""

    def __init__(self) -> None:
        self._on = takes_escapes(sys.stderr)
        self._shown = False

    def show(self, text: str) -> None:
        if self._on:
            self._shown = True
            write_quietly(sys.stderr, f"\r\x1b[2K\x1b[2m{one_line(text)[: _width() - 1]}\x1b[0m")

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            write_quietly(sys.stderr, "\r\x1b[2K")

    def progress(self, text: str) -> Callable[[float], None]:
        """A callback for a fraction done."""
        return lambda fraction: self.show(f"{text} {fraction:.0%}")


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80
