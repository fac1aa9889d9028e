"""A chat of the history on a terminal, each token in its look; in a pipe the text."""

import sys
from collections.abc import Sequence

from localspec.chat.export_words import model_of, note_of, when
from localspec.chat.history_rows import Chat
from localspec.chat.looks import LOOKS, look_of
from localspec.chat.turns import Turn
from localspec.cli.render import Mode, Painter, legend
from localspec.cli.terminal import VisibleStream, is_terminal, one_line, takes_escapes


def print_chat(chat: Chat, turns: Sequence[Turn], mode: Mode) -> None:
    """Title, turns and figures. Control characters are visible on a terminal and unchanged in a pipe."""
    terminal = is_terminal(sys.stdout)
    bold, dim, end = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if takes_escapes(sys.stdout) else ("", "", "")
    write = sys.stdout.write
    write(f"{bold}{one_line(chat.title) or 'Untitled chat'}{end}\n{dim}chat {chat.id} · {when(chat.created)}{end}\n")
    looks = {look_of(part.token.kind, part.token.drafter) for turn in turns for part in turn.parts}
    if mode != "none" and looks - {"plain"}:
        write(legend(mode, [look for look in LOOKS if look in looks]) + "\n")
    for turn in turns:
        name = "You" if turn.role == "user" else one_line(model_of(turn))
        write(f"\n{bold}{name}{end}\n")
        if turn.thoughts:
            write(f"{dim}{_shown(turn.thoughts.strip(), terminal)}{end}\n\n")
        text = _painted(turn, mode, terminal) if turn.parts else _shown(turn.text, terminal)
        write(text if text.removesuffix("\x1b[0m").endswith("\n") else text + "\n")
        if note := note_of(turn):
            write(f"{dim}{one_line(note)}{end}\n")
    sys.stdout.flush()


def _painted(turn: Turn, mode: Mode, terminal: bool) -> str:
    painter, shown = Painter(mode), VisibleStream()
    pieces = []
    for part in turn.parts:
        text = shown.push(part.text) if terminal else part.text
        pieces.append(painter.paint(text, look_of(part.token.kind, part.token.drafter)))
    return "".join(pieces) + (shown.finish() if terminal else "") + painter.finish()


def _shown(text: str, terminal: bool) -> str:
    if not terminal:
        return text
    shown = VisibleStream()
    return shown.push(text) + shown.finish()
