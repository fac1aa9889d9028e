"""The live bar: two lines of figures on what speculation does now. Every figure has something behind it, or is –."""

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from localspec.chat.looks import MISSING, number, share
from localspec.chat.session import Live

SEPARATOR = "  "


def figures(live: Live, context: int) -> tuple[list[Content], list[Content]]:
    """The two lines' figures, the most important first."""
    plain = live.plain_tokens_per_s
    speedup = f"{number(live.speedup, '.2f')}x plain" if live.speedup is not None else f"speed-up {MISSING}"
    base = f" ({plain:.1f}, {live.baseline})" if live.speedup is not None and plain else ""
    good = live.speedup is not None and live.speedup >= 1.03
    first = [
        Content.assemble((number(live.tokens_per_s), "bold"), (" tokens/s", "$text-muted")),
        Content.assemble((speedup, "bold $text-success" if good else "bold"), (base, "$text-muted")),
        _pair("accepted", share(live.acceptance_rate)),
        _pair("tokens/cycle", number(live.tokens_per_cycle, ".2f")),
    ]
    used = live.context_used
    second = [
        Content.styled(live.drafting(), "$text-warning" if live.drafting().startswith("drafting paused") else "bold"),
        _pair("context", f"{used:,}/{context:,}" if context else MISSING),
        _pair("first token", number(live.ttft_s, ".2f", " s")),
        _pair("per token", number(live.itl_ms, ".0f", " ms")),
    ]
    return first, second


def reading(live: Live, width: int) -> Content:
    """How far the prompt is read."""
    progress = live.prefill
    if live.started is None or progress is None:
        return Content.styled("waiting for the engine", "$text-muted")
    total = max(1, progress.total)
    reused = f", {progress.reused:,} reused" if progress.reused else ""
    words = f" {progress.done:,} of {progress.total:,} prompt tokens{reused}"
    cells = max(4, min(30, width - len(words) - 10))
    return Content.assemble(("reading ", "bold"), meter(progress.done / total, cells), (words, "$text-muted"))


def meter(fraction: float, cells: int) -> Content:
    """A bar of so many cells, filled by eighths."""
    eighths = round(max(0.0, min(1.0, fraction)) * cells * 8)
    full, rest = divmod(eighths, 8)
    partial = "▏▎▍▌▋▊▉"[rest - 1] if rest else ""
    bar = "█" * full + partial
    return Content.assemble((bar, "$accent"), ("░" * (cells - len(bar)), "$text-disabled"))


def _pair(name: str, value: str) -> Content:
    return Content.assemble((f"{name} ", "$text-muted"), (value, "bold"))


def fitted(parts: list[Content], width: int) -> Content:
    """As many of the parts as fit into the width, in order."""
    line = Content("")
    for part in parts:
        longer = part if not line else line + Content(SEPARATOR) + part
        if line and cell_len(longer.plain) > width:
            break
        line = longer
    return line


class LiveBar(Static):
    """Shows the answer being made, or the last one's figures."""

    DEFAULT_CSS = """
    LiveBar { height: 2; padding: 0 1; background: $surface; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._live = Live()
        self._window = 0

    def show(self, live: Live, context: int) -> None:
        self._live, self._window = live, context
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width = self.content_size.width
        if width < 1:
            return
        first, second = figures(self._live, self._window)
        top = fitted(first, width)
        if self._live.started is not None and self._live.reading and self._live.prefill is not None:
            top = reading(self._live, width)
        self.update(Content("\n").join([top, fitted(second, width)]), layout=False)
