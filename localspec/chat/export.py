"""A chat as a file: Markdown to read, JSON with everything (and back), HTML with the colours.

Markdown and HTML show one branch; JSON has all of them and every token's provenance.
"""

import json
from typing import Literal

from localspec.chat.export_html import to_html
from localspec.chat.export_json import to_json
from localspec.chat.export_words import model_of, note_of, when
from localspec.chat.history import History

Format = Literal["markdown", "json", "html"]

SUFFIXES: dict[str, Format] = {
    ".md": "markdown", ".markdown": "markdown", ".json": "json", ".html": "html", ".htm": "html",
}  # fmt: skip
"""Of file names."""


def export(history: History, chat_id: int, form: Format) -> str:
    """The chat as text. Raises `HistoryError`."""
    if form == "json":
        return json.dumps(to_json(history, chat_id), ensure_ascii=False, indent=1) + "\n"
    return to_html(history, chat_id) if form == "html" else to_markdown(history, chat_id)


def to_markdown(history: History, chat_id: int) -> str:
    """The branch that is shown; texts as they were written, thoughts as quotes, figures under each answer."""
    chat = history.chat(chat_id)
    blocks = [f"# {chat.title or 'Untitled chat'}", f"*{when(chat.created)}*"]
    if chat.system:
        blocks += ["## System", chat.system]
    for turn in history.turns(chat_id):
        blocks.append("## You" if turn.role == "user" else f"## {model_of(turn)}")
        if turn.thoughts:
            blocks.append("\n".join(f"> {line}".rstrip() for line in turn.thoughts.strip().splitlines()))
        blocks.append(turn.text.rstrip("\n"))
        if note := note_of(turn):
            blocks.append(f"*{note}*")
    return "\n\n".join(block for block in blocks if block) + "\n"
