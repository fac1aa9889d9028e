"""A chat as one HTML file with its colours: nothing is fetched, no script runs, every text is escaped.

Light and dark follow the reader's system. Each look has an attribute of its own, so it reads in print too.
"""

from collections.abc import Iterator
from html import escape
from itertools import groupby

from localspec.chat.export_words import model_of, note_of, when
from localspec.chat.history import History
from localspec.chat.looks import LOOKS, NAMES, Look, look_of
from localspec.chat.splitting import Part
from localspec.chat.turns import Turn
from localspec.chat.visible import visible

COLORS: dict[Look, tuple[str, str]] = {
    "lookup": ("#1a6b2f", "#7fd88f"),
    "draft": ("#0b6372", "#6cc7d9"),
    "resampled": ("#8d2a7c", "#e59ad6"),
    "bonus": ("#274fb8", "#8fb4ff"),
    "plain": ("#24292f", "#d5d8de"),
}
"""On light and on dark: at least 4.5 to 1 against the page (a test computes it)."""

PAGE = ("#ffffff", "#16181d")

_ATTRIBUTES: dict[Look, str] = {
    "lookup": "font-weight: 600",
    "draft": "font-style: italic",
    "resampled": "text-decoration: underline",
    "bonus": "font-weight: 600; text-decoration: underline",
    "plain": "",
}

_STYLE = """
body { margin: 0 auto; max-width: 52rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--plain);
  font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; }
.when, .note, .legend { color: var(--quiet); font-size: .85rem; }
.legend { margin: .75rem 0 2rem; }
.legend span { margin-right: 1rem; }
h2 { font-size: .8rem; font-weight: 600; color: var(--quiet); margin: 2rem 0 .4rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.user .text { border-left: 3px solid var(--line); padding-left: .9rem; }
.assistant .text, .thoughts { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .9rem; }
.thoughts { color: var(--quiet); margin-bottom: .8rem; }
.thoughts div { white-space: pre-wrap; overflow-wrap: anywhere; padding: .4rem 0 0 .9rem; }
summary { cursor: pointer; }
.note { margin: .5rem 0 0; }
"""


def to_html(history: History, chat_id: int) -> str:
    """The branch that is shown, as one page."""
    chat = history.chat(chat_id)
    turns = history.turns(chat_id)
    title = _shown(chat.title or "Untitled chat")
    body = [f"<h1>{title}</h1>", f'<p class="when">{when(chat.created)}</p>', _legend(turns)]
    if chat.system:
        body.append(f'<section class="user"><h2>System</h2><div class="text">{_shown(chat.system)}</div></section>')
    body += [_section(turn) for turn in turns]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{_palette()}{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _palette() -> str:
    def variables(place: int, quiet: str, line: str) -> str:
        looks = " ".join(f"--{look}: {COLORS[look][place]};" for look in LOOKS)
        return f":root {{ --page: {PAGE[place]}; --quiet: {quiet}; --line: {line}; {looks} }}"

    rules = "\n".join(f".{look} {{ color: var(--{look}); {_ATTRIBUTES[look]} }}" for look in LOOKS)
    light, dark = variables(0, "#59636e", "#d1d9e0"), variables(1, "#9198a1", "#3d444d")
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n{rules}"


def _legend(turns: list[Turn]) -> str:
    """The looks that occur; nothing when no answer has colours."""
    seen = {look_of(part.token.kind, part.token.drafter) for turn in turns for part in turn.parts}
    if seen <= {"plain"}:
        return ""
    spans = "".join(f'<span class="{look}">{NAMES[look]}</span>' for look in LOOKS if look in seen)
    return f'<p class="legend">{spans}</p>'


def _section(turn: Turn) -> str:
    name = "You" if turn.role == "user" else _shown(model_of(turn))
    lines = [f'<section class="{turn.role}"><h2>{name}</h2>']
    if turn.thoughts:
        lines.append(
            f'<details class="thoughts"><summary>Thoughts</summary><div>{_shown(turn.thoughts)}</div></details>'
        )
    text = "".join(_runs(turn)) if turn.parts else _shown(turn.text)
    lines.append(f'<div class="text">{text}</div>')
    if note := note_of(turn):
        lines.append(f'<p class="note">{_shown(note)}</p>')
    return "\n".join([*lines, "</section>"])


def _runs(turn: Turn) -> Iterator[str]:
    """Neighbours of one cycle and one look as one element; what the cycle did is its tooltip."""
    cycles = {cycle.cycle: cycle for cycle in turn.cycles}

    def of(part: Part) -> tuple[int, Look]:
        return part.token.cycle, look_of(part.token.kind, part.token.drafter)

    for (number, look), parts in groupby((part for part in turn.parts if part.text), key=of):
        text = _shown("".join(part.text for part in parts))
        cycle = cycles.get(number)
        if look == "plain":
            yield text
        elif cycle is None:
            yield f'<span class="{look}">{text}</span>'
        else:
            told = f"{NAMES[look]}: {cycle.proposed} proposed, {cycle.accepted} kept"
            if cycle.accepted < cycle.proposed:
                told += f"; guessed {cycle.proposed_text!r}"
            yield f'<span class="{look}" title="{_shown(told)}">{text}</span>'


def _shown(text: str) -> str:
    return escape(visible(text.replace("\r\n", "\n")))
