"""The side panel: what is decided now, and what speculation has gained since the chat was opened, and why."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from localspec.chat.decisions import reason
from localspec.chat.looks import DRAFTER_NAMES, MISSING, number, share
from localspec.chat.session import Live, Session, Use
from localspec.engine.events import Kind

SPARKS = "▁▂▃▄▅▆▇█"

KINDS: tuple[tuple[Kind, str], ...] = (
    ("accepted", "lookup"),
    ("resampled", "resampled"),
    ("bonus", "bonus"),
    ("plain", "plain"),
)
"""The kinds of tokens and the look whose colour each has."""

FILLS: dict[Kind, str] = {"accepted": "█", "resampled": "▓", "bonus": "▒", "plain": "░"}
"""The bar's pattern of each kind, so that it reads without hue."""

USES: tuple[tuple[Use, str], ...] = (("chat", "chat"), ("edits", "edits"))

WIDTH = 34
"""Cells for its text."""

DECISIONS_S = 0.5
"""Between two decisions that are shown: sentences that change faster cannot be read."""

RUN_BUCKETS = ((0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 64))


def sparkline(values: Sequence[float], width: int) -> Content:
    """The last `width` values as bars, from 0 to the highest; what is below 1 (slower than plain) in another colour."""
    shown = values[-width:]
    top = max([1.5, *shown])
    parts = []
    for value in shown:
        spark = SPARKS[min(7, max(0, round(value / top * 8) - 1))]
        parts.append((spark, "$text-success" if value >= 1.0 else "$text-warning"))
    return Content.assemble(*parts) if parts else Content.styled(MISSING, "$text-muted")


def shares(counts: Sequence[int], width: int) -> list[int]:
    """Cells for each count, together `width`; what is there at all has at least one."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    cells = [max(1, round(count * width / total)) if count else 0 for count in counts]
    while sum(cells) != width:
        step = 1 if sum(cells) < width else -1
        largest = max(range(len(cells)), key=lambda at: cells[at])
        cells[largest] += step
    return cells


def kind_bar(session: Session, width: int) -> Content:
    """The split of the tokens by kind as one bar."""
    counts = [session.kinds[kind] for kind, _ in KINDS]
    cells = shares(counts, width)
    parts = [(FILLS[kind] * cell, f"$look-{look}") for (kind, look), cell in zip(KINDS, cells, strict=True)]
    return Content.assemble(*parts) if any(cells) else Content.styled("░" * width, "$text-disabled")


def runs(session: Session, width: int) -> list[Content]:
    """A histogram of how many tokens of a draft were kept: one line a bucket."""
    buckets = [
        (f"{low}" if low == high else f"{low}+" if high == 64 else f"{low}-{high}",
         sum(count for length, count in session.runs.items() if low <= length <= high))
        for low, high in RUN_BUCKETS
    ]  # fmt: skip
    top = max((count for _, count in buckets), default=0)
    room = max(4, width - 12)
    lines = []
    for name, count in buckets:
        bar = "█" * max(1 if count else 0, round(room * count / top)) if top else ""
        lines.append(
            Content.assemble((f"{name:>5} ", "$text-muted"), (bar, "$look-lookup"), (f" {count}" if count else "", ""))
        )
    return lines


def drafters(session: Session) -> list[Content]:
    """One line a drafter: proposed, accepted, time spent."""
    lines = [Content.styled("            proposed kept   time", "$text-muted")]
    for name, figures in sorted(session.drafters.items()):
        kept = share(figures.accepted / figures.proposed if figures.proposed else None)
        lines.append(Content(f"{DRAFTER_NAMES[name]:<11}{figures.proposed:>9,} {kept:>4} {figures.draft_s:>5.1f} s"))
    if not session.drafters:
        lines.append(Content.styled(f"nothing drafted yet {MISSING}", "$text-muted"))
    return lines


def uses(session: Session) -> list[Content]:
    """One line a use, once there is more than chat: an edit is sped up far more, and a sum would hide both."""
    if not session.uses.keys() - {"chat"}:
        return []
    lines = [Content.styled("             speed-up tokens/cycle", "$text-muted")]
    for use, name in USES:
        if (figures := session.uses.get(use)) is not None:
            speed = number(figures.speedup, ".2f", "x")
            count = f"{figures.answers} {name.removesuffix('s') if figures.answers == 1 else name}"
            lines.append(Content(f"{count:<13}{speed:>8} {number(figures.tokens_per_cycle, '.2f'):>12}"))
    return lines


def panel(session: Session, width: int) -> Content:
    """All of it, for a panel of so many cells."""

    def title(text: str) -> Content:
        return Content.styled(text, "bold $text-primary")

    speed = f"{number(session.speedup, '.2f')}x plain" if session.speedup is not None else MISSING
    names = [
        Content.assemble((FILLS[kind], f"$look-{look}"), f" {session.kinds[kind]:,} {kind}") for kind, look in KINDS
    ]
    rows = [
        title("This session"),
        Content.styled(session.saved(), "bold"),
        Content.assemble(title("Speed-up"), f"  {speed}"),
        sparkline(session.speedups, width),
        *uses(session),
        Content(""),
        title("Why"),
        Content.styled(session.why(), "$foreground"),
        Content(""),
        title("Tokens by kind"),
        kind_bar(session, width),
        *names,
        Content(""),
        title("Drafters"),
        *drafters(session),
        Content(""),
        title("Kept in a row"),
        *runs(session, width),
    ]
    return Content("\n").join(rows)


class SidePanel(VerticalScroll, can_focus=True):
    """Shows a session. With the focus its arrow keys scroll it, where it is longer than the screen."""

    DEFAULT_CSS = """
    SidePanel { display: none; width: 38; padding: 1 1 0 2; background: $surface; scrollbar-size-vertical: 1; }
    SidePanel Static { height: auto; }
    SidePanel #decision { height: 5; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = Session()
        self._live = Live()
        self._decided = ""
        self._due: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="decision", markup=False)
        yield Static("", id="session", markup=False)

    def on_mount(self) -> None:
        self.show(self._session)
        self._decide()

    def show(self, session: Session) -> None:
        self._session = session
        if self.is_mounted:
            self.query_one("#session", Static).update(panel(session, WIDTH))

    def decide(self, live: Live) -> None:
        """What the controller decided last, in words; at most two a second while the answer is being made."""
        self._live = live
        if self.is_mounted and (self._due is None or live.stats is not None):
            self._decide()

    def _decide(self) -> None:
        if self._due is not None:
            self._due.stop()
        self._due = None
        sentence = reason(self._live.decided)
        if sentence == self._decided:
            return
        self._decided = sentence
        told = Content.assemble(("Decision", "bold $text-primary"), "\n", sentence)
        self.query_one("#decision", Static).update(told, layout=False)
        self._due = self.set_timer(DECISIONS_S, self._decide)
