"""Copying: through the terminal (OSC 52), which never says whether it worked, and into a file when it is too much."""

import os

from textual.app import App

from localspec import paths

MOST_BYTES = 74_000
"""What every common terminal takes in one OSC 52 sequence (xterm and tmux are the strictest)."""


def copy(app: App[None], text: str, what: str) -> str:
    """Copies the exact text; returns a sentence on what became of it. Raises OSError when a file cannot be written."""
    data = text.encode("utf-8", "surrogatepass")
    app.copy_to_clipboard(text)
    size = f"{len(text):,} characters"
    if len(data) <= MOST_BYTES:
        return f"{what} sent to the terminal's clipboard ({size})."
    file = paths.state_dir() / "copied.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(number, "wb") as opened:
        opened.write(data)
    return f"{what} sent to the terminal ({size}); few terminals take that much, so it is also in {file}"


def code_blocks(text: str) -> list[str]:
    """The fenced code blocks of a Markdown text, exactly as they stand between their fences."""
    from markdown_it import MarkdownIt

    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]


def as_markdown(turns: list[tuple[str, str]]) -> str:
    """A chat of (role, text) as one Markdown text."""
    return "\n\n".join(f"**{role}**\n\n{text}" for role, text in turns) + "\n"
