"""Events of an answer to where they go: text to stdout, thoughts and figures to stderr, or JSON lines."""

import sys
from collections.abc import Callable, Iterable
from typing import Protocol, TextIO

from localspec.chat.looks import look_of, looks_of
from localspec.chat.session import Session
from localspec.chat.splitting import Part, Splitter
from localspec.cli import jsonlines, render
from localspec.cli.terminal import StatusLine, VisibleStream, aside, is_terminal, say, takes_escapes, write_quietly
from localspec.engine.events import Cycle, Event, Finished, Notice, Prefill, Started, Token


class Sink(Protocol):
    """Where an answer goes."""

    def started(self, event: Started) -> None: ...

    def part(self, part: Part) -> None: ...

    def cycle(self, event: Cycle) -> None: ...

    def finished(self, event: Finished, text: str, thoughts: str) -> None: ...

    def broken(self) -> None:
        """The answer ended with an error: leave the terminal in order."""


def follow(events: Iterable[Event], splitter: Splitter, sink: Sink, status: StatusLine) -> tuple[Finished, str, str]:
    """Sends every event on, in order; returns the last one with the answer's text and the thoughts.

    The events are read to their end: until then the engine counts the answer as being made.
    """
    text: list[str] = []
    thoughts: list[str] = []
    result: tuple[Finished, str, str] | None = None

    def pass_on(parts: Iterable[Part]) -> None:
        for part in parts:
            text.append(part.text)
            thoughts.append(part.thought)
            sink.part(part)

    try:
        for event in events:
            match event:
                case Token():
                    status.clear()
                    pass_on(splitter.push(event))
                case Cycle():
                    sink.cycle(event)
                case Prefill():
                    if event.done < event.total:
                        status.show(f"reading the prompt: {event.done} of {event.total} tokens")
                case Notice():
                    status.clear()
                    say(event.text)
                case Started():
                    status.clear()
                    sink.started(event)
                case Finished():
                    status.clear()
                    pass_on(splitter.finish())
                    result = (event, "".join(text), "".join(thoughts))
                    sink.finished(*result)
    except BaseException:
        status.clear()
        sink.broken()
        raise
    assert result is not None, "an answer without a Finished raises in the client"
    return result


class TextSink:
    """The answer as text, to `out` (stdout). On a terminal: coloured, control characters visible, thoughts dim on
    stderr, figures after it. In a pipe: the text, unchanged."""

    def __init__(
        self,
        mode: render.Mode,
        start_line: Callable[[Started], str],
        *,
        with_legend: bool = True,
        session: Session | None = None,
        out: TextIO | None = None,
    ) -> None:
        self._out = out or sys.stdout
        self._with_legend = with_legend
        self._session = session
        self._painter = render.Painter(mode)
        self._mode = mode
        self._start_line = start_line
        self._terminal = is_terminal(self._out)
        self._watched = is_terminal(sys.stderr)
        self._dim = ("\x1b[2m", "\x1b[0m") if takes_escapes(sys.stderr) else ("", "")
        self._visible = VisibleStream()
        self._thought_visible = VisibleStream()
        self._at_line_start = True
        self._in_thought = False

    def started(self, event: Started) -> None:
        aside(self._start_line(event))
        if self._watched and (legend := render.legend(self._mode, looks_of(event))):
            write_quietly(sys.stderr, legend + "\n")

    def part(self, part: Part) -> None:
        if part.thought and self._watched:
            self._in_thought = True
            text = self._thought_visible.push(part.thought)
            write_quietly(sys.stderr, f"{self._dim[0]}{text}{self._dim[1]}" if text else "")
        if part.text:
            self._end_thought()
            text = self._visible.push(part.text) if self._terminal else part.text
            self._write(self._painter.paint(text, look_of(part.token.kind, part.token.drafter)))

    def cycle(self, event: Cycle) -> None:
        pass

    def finished(self, event: Finished, text: str, thoughts: str) -> None:
        self._end_thought()
        self._close()
        if self._watched and event.stats.tokens:
            aside(render.stats_line(event.stats))
            if self._session is not None:
                aside(render.session_line(self._session))

    def broken(self) -> None:
        self._end_thought()
        self._close()

    def _close(self) -> None:
        self._write((self._visible.finish() if self._terminal else "") + self._painter.finish())
        if self._terminal and not self._at_line_start:
            self._write("\n")

    def _end_thought(self) -> None:
        if self._in_thought:
            self._in_thought = False
            write_quietly(sys.stderr, self._thought_visible.finish() + "\n\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._at_line_start = text.removesuffix("\x1b[0m").endswith("\n")


class JsonSink:
    """One event a line on stdout. With a `session` the end line has its figures."""

    def __init__(self, session: Session | None = None) -> None:
        self._session = session

    def started(self, event: Started) -> None:
        jsonlines.emit(jsonlines.start(event))

    def part(self, part: Part) -> None:
        jsonlines.emit(jsonlines.token(part))

    def cycle(self, event: Cycle) -> None:
        jsonlines.emit(jsonlines.cycle(event))

    def finished(self, event: Finished, text: str, thoughts: str) -> None:
        line = jsonlines.end(event, text, thoughts)
        if self._session is not None:
            line["session"] = jsonlines.session(self._session)
        jsonlines.emit(line)

    def broken(self) -> None:
        pass
