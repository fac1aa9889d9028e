"""What the token under the cursor's cycle did: who drafted what, and what the target put instead."""

from textual.content import Content
from textual.widgets import Static

from localspec.chat.looks import DRAFTER_NAMES, look_of, place
from localspec.chat.turns import Turn, cycle_of
from localspec.chat.visible import visible
from localspec.tui.looks import STYLES


def describe(turn: Turn, token: int) -> Content:
    """Up to five lines on a token and its cycle. All texts are a model's: shown as they are, on one line each."""
    part = turn.parts[token]
    look = look_of(part.token.kind, part.token.drafter)
    words = [
        (_quoted(part.token.text), STYLES[look]),
        (f"  token {token + 1} of {len(turn.parts)}", "$text-muted"),
        (f"  {part.token.kind}", "bold"),
        (f"  at {part.token.t:.2f} s", "$text-muted"),
    ]
    lines = [Content.assemble(*words)]
    found = cycle_of(turn, token)
    if found is None:
        lines.append(Content("the first token: read off the pass over the prompt, outside every cycle"))
        return Content("\n").join(lines)
    cycle = found.cycle
    if not cycle.proposed:
        lines.append(Content(f"cycle {cycle.cycle}: nothing drafted, one plain pass ({cycle.verify_ms:.0f} ms)"))
        return Content("\n").join(lines)
    match = f", after a match of {cycle.match_length}" if cycle.match_length else ""
    lines.append(
        Content(
            f"cycle {cycle.cycle}: {DRAFTER_NAMES[cycle.drafter]}, draft length {cycle.proposed}, "
            f"judged {cycle.judged}, kept {cycle.accepted}, {cycle.draft_ms + cycle.verify_ms:.0f} ms{match}"
        )
    )
    lines.append(
        Content.assemble(
            ("proposed  ", "$text-muted"),
            (_line(found.kept), STYLES[look_of("accepted", cycle.drafter)]),
            (_line(found.refused), STYLES["rejected"]),
        )
    )
    if part.token.source is not None:
        lines.append(Content.assemble(("copied from  ", "$text-muted"), place(part.token.source)))
    end = found.ended_by
    if end is not None:
        instead = "the target put instead  " if end.token.kind == "resampled" else "the target went on with  "
        lines.append(Content.assemble((instead, "$text-muted"), (_quoted(end.token.text), STYLES[end.token.kind])))
    return Content("\n").join(lines)


def _quoted(text: str) -> str:
    return f"“{_line(text)}”"


def _line(text: str) -> str:
    return visible(text.replace("\n", "⏎").replace("\t", "⇥"))


class TokenPanel(Static):
    """Hidden while no token is under the cursor."""

    DEFAULT_CSS = """
    TokenPanel {
        height: auto; max-height: 5; padding: 0 1; background: $panel; display: none; text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    TokenPanel.-shown { display: block; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)

    def show(self, turn: Turn | None, token: int | None) -> None:
        shown = turn is not None and token is not None and token < len(turn.parts)
        self.set_class(shown, "-shown")
        if turn is not None and token is not None and shown:
            self.update(describe(turn, token))
