"""The answers of `localspec complete`: gathered until the gap is filled, then shown."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from localspec.assist.complete import FillIn
from localspec.assist.middle import Middle, Rules
from localspec.assist.place import Place
from localspec.chat.looks import look_of, looks_of
from localspec.chat.splitting import Part
from localspec.cli import jsonlines, render
from localspec.cli.render import Mode, Painter
from localspec.cli.terminal import StatusLine, VisibleStream, aside, is_terminal, say, visible, write_quietly
from localspec.engine.events import Cycle, Finished, Reason, Started, Stats

AROUND = 6
"""Lines shown before and behind a gap."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What came for the gap. `parts` are the whole answer's tokens, of which `middle.text` begins at `start`."""

    middle: Middle
    start: int
    parts: tuple[Part, ...]
    reason: Reason
    stats: Stats
    started: Started

    def pieces(self) -> list[Part]:
        """The tokens of the middle, the first and last with their share of it."""
        at, end = 0, self.start + len(self.middle.text)
        pieces = []
        for part in self.parts:
            text = part.text[max(0, self.start - at) : max(0, end - at)]
            at += len(part.text)
            if text:
                pieces.append(Part(part.token, text))
        return pieces


class Gatherer:
    """Takes the events of one answer (a `Sink`), and ends it by `cancel` once nothing that may come would be kept.

    With `as_json` each event is a line at once, number `alternative` in those of the start and the end. `seen` are the
    middles that came before.
    """

    def __init__(
        self,
        fill: FillIn,
        rules: Rules,
        cancel: Callable[[], None],
        status: StatusLine,
        *,
        as_json: bool,
        alternative: int,
        seen: frozenset[str],
    ) -> None:
        self._fill, self._rules, self._cancel, self._status = fill, rules, cancel, status
        self._as_json, self._alternative, self._seen = as_json, alternative, seen
        self._text = ""
        self._parts: list[Part] = []
        self._started: Started | None = None
        self._ended = False
        self.made: Completion | None = None

    def started(self, event: Started) -> None:
        self._started = event
        self._emit(lambda: {**jsonlines.start(event), "alternative": self._alternative})

    def part(self, part: Part) -> None:
        self._parts.append(part)
        self._text += part.text
        self._emit(lambda: jsonlines.token(part))
        self._status.show(f"completing: {len(self._parts)} tokens")
        if not self._ended and self._fill.is_complete(self._text, self._rules):
            self._ended = True
            self._cancel()

    def cycle(self, event: Cycle) -> None:
        self._emit(lambda: jsonlines.cycle(event))

    def finished(self, event: Finished, text: str, thoughts: str) -> None:
        self._status.clear()
        assert self._started is not None
        start, end = self._fill.middle_of(text)
        middle = self._rules.middle(text[start:end])
        reason: Reason = "stop" if self._ended and event.reason == "cancelled" else event.reason
        self.made = made = Completion(middle, start, tuple(self._parts), reason, event.stats, self._started)

        def line() -> dict[str, Any]:
            end = jsonlines.end(replace(event, reason=reason), text, thoughts)
            end |= {"alternative": self._alternative, "completion": made.middle.text, "ended": made.middle.ended}
            return end | {"dropped": made.middle.dropped, "duplicate": made.middle.text in self._seen}

        self._emit(line)

    def broken(self) -> None:
        self._status.clear()

    def _emit(self, line: Callable[[], dict[str, Any]]) -> None:
        if self._as_json:
            jsonlines.emit(line())


def explain(made: Completion, lines: int | None, max_tokens: int) -> None:
    """Says on stderr why the completion ends where it does, when that is not the model's own end."""
    if made.reason == "max_tokens":
        say(f"the completion is cut at {max_tokens} tokens: --max-tokens allows more")
    elif made.reason == "context_full":
        say("the completion is cut: the context is full (raise it with --ctx)")
    if made.middle.ended == "suffix":
        repeated = made.middle.dropped.strip().split("\n")[0]
        aside(f"left out what stands behind the gap already: {repeated}")
    elif made.middle.ended == "block":
        aside("the block ends here; --lines 0 takes all that the model writes")
    elif made.middle.ended == "lines" and lines is None:
        aside("the line ends here; --lines 0 takes all that the model writes")
    if copied := copied_from(made.pieces()):
        aside(f"copied from {copied}")
    if not made.middle.text:
        say("the model would fill in nothing here")


def copied_from(parts: Sequence[Part]) -> str:
    """The places that tokens were copied from, in the order of the text: "a.py lines 3-5, b.py line 9"."""
    lines: dict[str, set[int]] = {}
    for part in parts:
        if (source := part.token.source) is not None:
            lines.setdefault(source.name, set()).add(source.line)
    places = []
    for name, numbers in lines.items():
        first, last = min(numbers), max(numbers)
        places.append(f"{name} line {first}" if first == last else f"{name} lines {first}-{last}")
    return ", ".join(places)


def show(made: Completion, mode: Mode, around: Place | None, *, ended: bool) -> None:
    """Writes the completion to stdout; with `around` between the lines that stand before and behind the gap. `ended`:
    with a line end after it, which a pipe otherwise gets only when it is part of the completion."""
    terminal = is_terminal(sys.stdout)
    painter, stream = Painter(mode), VisibleStream()
    out: list[str] = []
    if around is not None:
        out.append(_dim("\n".join(around.prefix.split("\n")[-AROUND - 1 :]), mode, terminal))
    for part in made.pieces():
        text = stream.push(part.text) if terminal else part.text
        out.append(painter.paint(text, look_of(part.token.kind, part.token.drafter)))
    out.append((stream.finish() if terminal else "") + painter.finish())
    if around is not None:
        out.append(_dim("\n".join(around.suffix.split("\n")[: AROUND + 1]), mode, terminal))
    text = "".join(out)
    bare = text.removesuffix("\x1b[0m")
    if bare and not bare.endswith("\n") and (terminal or ended or around is not None):
        text += "\n"
    sys.stdout.write(text)
    sys.stdout.flush()


def legend(made: Completion, mode: Mode) -> None:
    """What the colours mean, and the figures, for a person who looks on."""
    if is_terminal(sys.stderr):
        if words := render.legend(mode, looks_of(made.started)):
            write_quietly(sys.stderr, words + "\n")
        if made.stats.tokens:
            aside(render.stats_line(made.stats))


def _dim(text: str, mode: Mode, terminal: bool) -> str:
    shown = visible(text.replace("\r\n", "\n")) if terminal else text
    if mode not in ("color", "attributes") or not shown:
        return shown
    return "\n".join(f"\x1b[2m{line}\x1b[0m" if line else "" for line in shown.split("\n"))
