"""How chats look in the history: a line in the list, and a preview in the colours of their tokens."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text
from textual.content import Content

from localspec.chat.export_words import model_of, note_of, when
from localspec.chat.history_rows import Branch, Chat
from localspec.chat.history_search import Hit, words_of
from localspec.chat.looks import look_of
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.chat.visible import one_line, visible
from localspec.tui.looks import STYLES

UNTITLED = "Untitled chat"

PREVIEW_CHARACTERS = 6000
"""What a preview shows of a chat at most, from its end: more than a screen, little enough to draw at once."""


def title_of(chat: Chat) -> str:
    return one_line(chat.title) or UNTITLED


def line(chat: Chat, *, is_open: bool = False) -> Table:
    """One chat in the list: what is open is marked, the title gives way to the figures."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=1)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(Text("●" if is_open else " "), Text(title_of(chat)), Text(when(chat.updated), style="dim"))
    return grid


def branch_line(branch: Branch) -> Table:
    """One way through a chat."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=1)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    figures = f"{_count(branch.messages, 'message')} · {when(branch.created)}"
    grid.add_row(Text("●" if branch.shown else " "), Text(branch.question or "…"), Text(figures, style="dim"))
    return grid


def facts(chat: Chat, branches: int) -> str:
    """A chat in a line: size, branches, models, when it began."""
    model = re.split(r"[\\/]", one_line(chat.target or ""))[-1].removesuffix(".gguf")
    parts = [_count(chat.messages, "message"), f"{branches} branches" if branches > 1 else "", model]
    return " · ".join(part for part in [*parts, f"begun {when(chat.created)}"] if part)


def preview(chat: Chat, turns: Sequence[Turn], branches: int, hit: Hit | None, query: str) -> Content:
    """A chat's end as it was said, each token in its look; the words of the search stand out."""
    blocks = [Content.styled(title_of(chat), "bold"), Content.styled(facts(chat, branches), "dim")]
    if hit is not None and hit.message is not None:
        found = Content(visible(hit.snippet))
        # A mark for a control character may be wider than the character: then nothing is marked.
        for start, end in hit.spans if len(found.plain) == len(hit.snippet) else ():
            found = found.stylize("reverse", start, end)
        blocks.append(found)
    blocks.append(Content())
    shown: list[Content] = []
    left = PREVIEW_CHARACTERS
    for turn in reversed(turns):
        block = _turn(turn, left)
        shown[:0] = [block, Content()]
        left -= len(block.plain)
        if left <= 0:
            shown[:0] = [Content.styled("…", "dim"), Content()]
            break
    body = Content("\n").join(shown)
    for word in words_of(query):
        for match in re.finditer(re.escape(word), body.plain, re.IGNORECASE):
            body = body.stylize("reverse", *match.span())
    return Content("\n").join([*blocks, body])


def _turn(turn: Turn, most: int) -> Content:
    name = "You" if turn.role == "user" else one_line(model_of(turn))
    lines = [Content.styled(name, "bold $text-primary" if turn.role == "user" else "bold $text-secondary")]
    cut = max(0, len(turn.text) - most)
    if turn.parts:
        text = Content.assemble(*_painted(turn.parts, cut))
    else:
        text = Content(visible(turn.text[cut:].replace("\r\n", "\n")))
    if cut:
        text = Content.assemble(("…", "dim"), text)
    lines.append(text.rstrip())
    if note := note_of(turn):
        lines.append(Content.styled(one_line(note), "dim"))
    return Content("\n").join(lines)


def _painted(parts: Sequence[Part], cut: int) -> Iterator[tuple[str, str]]:
    """Runs of one look, without the answer's first `cut` characters."""
    at = 0
    for look, run in groupby(parts, key=lambda part: look_of(part.token.kind, part.token.drafter)):
        text = "".join(part.text for part in run)
        at += len(text)
        if at > cut:
            yield visible(text[max(0, len(text) - (at - cut)) :].replace("\r\n", "\n")), STYLES[look]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("s" if number != 1 else "")
