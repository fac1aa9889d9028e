"""`localspec complete`: fills in the gap at a place in a file."""

import contextlib
import io
import secrets
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.chat.settings import AUTO, Settings
from localspec.cli import options
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.json_command import JsonCommand
from localspec.cli.options import Number

if TYPE_CHECKING:
    from localspec.assist.complete import FillIn
    from localspec.assist.edit_file import EditFile
    from localspec.assist.place import Place
    from localspec.cli.completing import Completion
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.session import Engine
    from localspec.cli.terminal import StatusLine
    from localspec.engine.requests import EngineInfo, Request

STDIN = "-"
VARIED = 0.4
"""Temperature of the alternatives after the first: enough to differ, little enough to stay sensible code."""


class _Tokens(Number):
    """A number of tokens, or `auto`, or `off`."""

    def __init__(self) -> None:
        super().__init__(int, 0, auto=True)
        self.name = "n|auto|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float | str:
        return 0 if value == "off" else super().convert(value, param, ctx)


@click.command(cls=JsonCommand)
@click.argument("spot", metavar="FILE:LINE[:COL]")
@click.option("--at", metavar="LINE[:COL]", help="The place, when FILE is - (the text is piped in).")
@click.option("--name", type=click.Path(path_type=Path), metavar="PATH", help="What the piped text is called.")
@click.option("--lines", type=Number(int, 0), metavar="N", help="Lines at most; 0: all.  [default: see below]")
@click.option("--max-tokens", type=Number(int, 1), help="Longest completion.  [default: 256]")
@click.option("-n", "--n", "count", type=Number(int, 1, 16), default=1, help="Alternatives; the same text counts once.")
@click.option(
    "--context",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A file the completion should know, whole; may be repeated.",
)
@click.option(
    "--neighbours",
    type=_Tokens(),
    default="auto",
    metavar="auto|off|N",
    help="Tokens for pieces of the files around, in the repository or the folder.  [default: auto: 384, 1536 on a GPU]",
)
@click.option("--show", is_flag=True, help="Show the completion between the lines around it, by provenance.")
@click.option("--apply", is_flag=True, help="Write it into FILE.")
@options.provenance_color
@click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but why it failed.")
@click.option("--json", "as_json", is_flag=True, help="One event a line, as JSON.")
@options.model_options
@options.shared_option
@options.sampling_options
def complete(spot: str, **values: Any) -> int:
    """Fill in what is missing at a place in FILE: in front of column COL of LINE, both counted from 1; without COL at
    the line's end. Only the completion comes to stdout.

    \b
        localspec complete app.py:12
        localspec complete app.py:12:9 --n 3
        localspec complete - --at 12:9 --name app.py < app.py

    With text behind the gap in its line one line is filled in, otherwise the block that the gap is in; --lines changes
    that. The temperature is 0 unless --temp or --n says otherwise. What the model repeats of the text behind the gap
    is left out, and told.
    """
    from localspec.assist.complete import NoRoom
    from localspec.assist.edit_file import CannotEdit
    from localspec.assist.fim import NoFim
    from localspec.assist.place import BadPlace
    from localspec.chat.attach import CannotAttach

    unheard = contextlib.redirect_stderr(io.StringIO()) if values["quiet"] else contextlib.nullcontext()
    try:
        with unheard:
            return _complete(spot, values)
    except (BadPlace, NoRoom, NoFim, CannotEdit, CannotAttach) as error:
        raise Failure(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is completed: the text, the gap in it, and where the text belongs (None: nobody said)."""

    file: "EditFile"
    place: "Place"
    path: Path | None


def _complete(spot: str, values: dict[str, Any]) -> int:
    from localspec.cli import completing, render, session, settings
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, aside, say

    asked = _asked(spot, values)
    held = settings.in_force(values)
    choice = session.choose(values)
    status = StatusLine()
    client, info = session.engine(choice, status)
    try:
        max_tokens = values["max_tokens"] or _usual_tokens(info)
        fill = _fill_in(asked, values, client, info, max_tokens)
        held = replace(held, speculate=choice.speculate, max_tokens=max_tokens)
        with Interrupts(client.cancel) as interrupts:
            made = _Alternatives(client, fill, held, values, status, interrupts).answers(asked)
        if not values["as_json"]:
            mode = render.mode_for(held.color, sys.stdout)
            aside(render.start_line(info, made[0].started, options.left_to_the_program(held)))
            for number, each in enumerate(made):
                if len(made) > 1:
                    sys.stdout.write(f"--- {number + 1} of {len(made)}\n")
                completing.show(each, mode, asked.place if values["show"] else None, ended=len(made) > 1)
                completing.explain(each, values["lines"], max_tokens)
            completing.legend(made[0], mode)
        if interrupts.hit:
            say("interrupted: the completion is not complete")
            return INTERRUPTED
        if values["count"] > len(made):
            say(f"{len(made)} of {values['count']} alternatives differ")
        if values["apply"]:
            _apply(asked, made[0])
        return 0
    finally:
        status.clear()
        client.close()


def _usual_tokens(info: "EngineInfo") -> int:
    from localspec.assist.complete import MAX_TOKENS

    return max(1, min(MAX_TOKENS, info.context // 4))


def _asked(spot: str, values: dict[str, Any]) -> _Asked:
    """The text and the place. Raises `UsageError`, `BadPlace`, `CannotEdit`."""
    from localspec.assist import edit_file
    from localspec.assist.place import parse_file_spot, parse_spot, place_in

    if values["apply"] and values["count"] > 1:
        raise click.UsageError("--apply writes one completion: --n asks for several")
    if spot != STDIN:
        if values["at"] or values["name"]:
            raise click.UsageError("--at and --name belong to a piped text: FILE is - then")
        name, line, column = parse_file_spot(spot)
        file = edit_file.read(Path(name))
        return _Asked(file, place_in(file.text, line, column), Path(name))
    if not values["at"]:
        raise click.UsageError("a piped text needs --at LINE[:COL]")
    if values["apply"]:
        raise click.UsageError("--apply needs a file to write into, not a piped text")
    line, column = parse_spot(values["at"])
    file = edit_file.of_bytes(_piped(), "standard input")
    return _Asked(file, place_in(file.text, line, column), values["name"])


def _piped() -> bytes:
    from localspec.cli.prompt import PATIENCE_S
    from localspec.cli.terminal import is_terminal, say

    if sys.stdin is None or sys.stdin.closed or is_terminal(sys.stdin):
        raise click.UsageError("FILE is -, but nothing is piped in")
    patience = threading.Timer(PATIENCE_S, say, ("waiting for standard input to end",))
    patience.daemon = True
    patience.start()
    try:
        return sys.stdin.buffer.read()
    finally:
        patience.cancel()


def _fill_in(asked: _Asked, values: dict[str, Any], client: "Engine", info: "EngineInfo", max_tokens: int) -> "FillIn":
    """The prompt, with what the other files give; what it is made of is told on stderr."""
    from localspec.assist.complete import excerpt_of, fill_in, room_for_others
    from localspec.assist.neighbours import neighbours, project_of
    from localspec.assist.relevance import Piece, pieces_for
    from localspec.chat.attach import read
    from localspec.cli.terminal import aside, one_line, say
    from localspec.engine.requests import Segment

    def tokens_of(text: str) -> int:
        return client.count((Segment(text),))

    files = [read(path, f"--context {path}") for path in values["files"]]
    given = [Piece(file.name or "", file.text, 1) for file in files]
    fixed = sum(tokens_of(f"{piece.name}\n{piece.text}\n") for piece in given)
    excerpt = excerpt_of(info, client.count, asked.place, max_tokens, fixed)
    wanted = None if values["neighbours"] == AUTO else values["neighbours"]
    budget = room_for_others(info, excerpt, max_tokens, fixed, wanted)
    name, repo = asked.file.name, ""
    found: list[Piece] = []
    if asked.path is not None:
        project = project_of(asked.path)
        name, repo = project.name_of(asked.path), project.name
        if budget:
            named = {path.resolve() for path in values["files"]}
            near = neighbours(asked.path, asked.file.text, project)
            near = [each for each in near if project.root / each.name not in named]
            found = pieces_for(asked.place, near, budget, tokens_of)
    fill = fill_in(info, excerpt, name, repo, [*found, *given])
    if not fill.native:
        say(f"{info.target} has no fill-in-the-middle tokens: it is asked in words, which works less well")
    if not values["as_json"]:
        others = "".join(f", and {piece.name} from line {piece.first_line}" for piece in [*found, *given])
        aside(f"prompt: lines {fill.shown[0]}-{fill.shown[1]} of {one_line(name)}{others}")
    return fill


@dataclass(slots=True)
class _Alternatives:
    """Asks for completions one after the other; the first is the most likely one, the others are drawn."""

    client: "Engine"
    fill: "FillIn"
    held: Settings
    values: dict[str, Any]
    status: "StatusLine"
    interrupts: "Interrupts"

    def answers(self, asked: _Asked) -> list["Completion"]:
        """The completions without repetitions, at least one."""
        from localspec.assist.middle import Rules
        from localspec.cli.answering import follow
        from localspec.cli.completing import Gatherer

        rules = Rules(asked.place, self.values["lines"])
        made: list[Completion] = []
        base = self.held.seed if self.held.seed is not None else secrets.randbits(32)
        for number in range(self.values["count"]):
            seen = frozenset(each.middle.text for each in made)
            sink = Gatherer(
                self.fill, rules, self.client.cancel, self.status,
                as_json=self.values["as_json"], alternative=number + 1, seen=seen,
            )  # fmt: skip
            events = self.interrupts.watch(self.client.generate(self._request(number, base)))
            follow(events, self.fill.splitter(), sink, self.status)
            assert sink.made is not None, "an answer without a Finished raises"
            if sink.made.middle.text not in seen:
                made.append(sink.made)
            if self.interrupts.hit:
                break
        return made

    def _request(self, number: int, base: int) -> "Request":
        temperature = self.values["temp"]
        if temperature is None:
            temperature = VARIED if number else 0.0
        # Without a seed of the person's the draws differ by themselves, and nothing promises to repeat them.
        seed = (base + number) % 2**64 if self.held.seed is not None else None
        held = replace(self.held, temperature=temperature, seed=seed)
        request = held.request(self.fill.prompt, keep_control=self.fill.keep_control, stop=self.fill.stop)
        return replace(request, sources=self.fill.sources)


def _apply(asked: _Asked, made: "Completion") -> None:
    """Writes the file with the completion in the gap, in one step; line ends become the file's."""
    from localspec.assist.writing import replace_file
    from localspec.cli.terminal import say

    place = asked.place
    middle = made.middle.text.replace("\r\n", "\n").replace("\n", place.newline)
    if not middle or asked.path is None:
        return
    replace_file(asked.path, asked.file.digest, asked.file.encoded(place.prefix + middle + place.suffix))
    lines = middle.count("\n") + 1
    say(f"{asked.file.name}: {lines} {'line' if lines == 1 else 'lines'} filled in at line {place.line}")
