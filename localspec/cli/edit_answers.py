"""The model's answers to an edit's questions, shown while they come."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from localspec.assist import edit
from localspec.assist.edit_file import EditFile
from localspec.assist.edit_job import Budget, EditJob, EditResult
from localspec.chat import attach
from localspec.chat.settings import Settings
from localspec.chat.splitting import Part
from localspec.cli import options, render, session, settings
from localspec.cli.answering import JsonSink, Sink, TextSink, follow
from localspec.cli.errors import Failure
from localspec.cli.interrupts import Interrupts
from localspec.cli.session import Engine
from localspec.cli.terminal import StatusLine, aside, is_terminal, one_line, say, visible, write_quietly
from localspec.engine.events import Cycle, Finished, Started
from localspec.engine.requests import EngineInfo, Request

SAMPLER_OPTIONS = (
    "top_k", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty",
)  # fmt: skip


class Interrupted(Exception):
    """The person stopped an answer."""


def results(
    files: Sequence[EditFile], instruction: str, values: dict[str, Any], *, shown: bool
) -> list[list[EditResult]]:
    """What the model makes of each file, every result with a text; `shown`: the answers are seen as they come.

    Raises `Failure` at the first answer that cannot be used, `Interrupted`, `CannotEdit`, `CannotAttach`, and the
    engine's errors.
    """
    beside = [attach.read(path, f"--context {path}") for path in values["files"]]
    held = settings.in_force(values)
    choice = session.choose(values)
    status = StatusLine()
    client, info = session.engine(choice, status)
    try:
        budget = Budget.of(info, client.count, think=held.think, max_tokens=values["max_tokens"])
        # All of them before the first answer: that a file is too large shows at once.
        jobs = [edit.plan(file, instruction, values["lines"], beside, budget) for file in files]
        base = _base(replace(held, speculate=choice.speculate, max_tokens=None), values)
        answerer = _Answerer(client, info, held, base, status, as_json=values["as_json"], shown=shown)
        with Interrupts(client.cancel) as interrupts:
            return [[answerer.take(job, interrupts) for job in of_file] for of_file in jobs]
    finally:
        status.clear()
        client.close()


def _base(held: Settings, values: dict[str, Any]) -> Request:
    """The request that all questions share: edits have a sampler of their own, which options alone change."""
    given = {name: values[name] for name in SAMPLER_OPTIONS if values[name] is not None}
    if values["temp"] is not None:
        given["temperature"] = values["temp"]
    return replace(held.request(()), sampling=replace(edit.SAMPLING, **given))


class _Answerer:
    """Asks one question after the other."""

    def __init__(
        self,
        client: Engine,
        info: EngineInfo,
        held: Settings,
        base: Request,
        status: StatusLine,
        *,
        as_json: bool,
        shown: bool,
    ) -> None:
        self._client, self._info, self._held, self._base, self._status = client, info, held, base, status
        self._as_json, self._shown = as_json, shown
        self._first = True

    def take(self, job: EditJob, interrupts: Interrupts) -> EditResult:
        """The result of one question, with a text."""
        if interrupts.hit:
            raise Interrupted
        if job.parts > 1:
            say(f"{job.file.name}: {job.region}, part {job.part} of {job.parts}")
        events = interrupts.watch(self._client.generate(job.request(self._base)))
        finished, answer, _ = follow(events, job.splitter(), self._sink(job), self._status)
        self._first = False
        if interrupts.hit or finished.reason == "cancelled":
            raise Interrupted
        result = edit.take(job, answer, finished.reason)
        if result.prose and not self._as_json:
            _show_prose(result.prose)
        if result.text is None:
            where = f"{job.file.name}: " + (f"{job.region}: " if job.parts > 1 else "")
            raise Failure(f"{where}{result.problem}: nothing was written{_advice(finished.reason)}")
        return result

    def _sink(self, job: EditJob) -> Sink:
        if self._as_json:
            return JsonSink()
        if not (self._shown and is_terminal(sys.stderr)):
            return _Quiet(self._status)
        mode = render.mode_for(self._held.color, sys.stderr)
        chosen = options.left_to_the_program(self._held)
        first = self._first

        def start_line(started: Started) -> str:
            return render.start_line(self._info, started, chosen) if first else f"{job.file.name}, {job.region}"

        return TextSink(mode, start_line, out=sys.stderr)


class _Quiet:
    """Nothing of the answer but how far it is, where a line can come and go."""

    def __init__(self, status: StatusLine) -> None:
        self._status = status
        self._tokens = 0

    def started(self, event: Started) -> None:
        pass

    def part(self, part: Part) -> None:
        self._tokens += 1
        self._status.show(f"editing: {self._tokens} tokens")

    def cycle(self, event: Cycle) -> None:
        pass

    def finished(self, event: Finished, text: str, thoughts: str) -> None:
        self._status.clear()

    def broken(self) -> None:
        self._status.clear()


def _show_prose(prose: str) -> None:
    """What the model said around the text, apart from it."""
    aside("the model says besides:")
    write_quietly(sys.stderr, "".join(f"  {visible(line)}\n" for line in prose.split("\n")))


def _advice(reason: str) -> str:
    if reason == "max_tokens":
        return " (--max-tokens allows more)"
    return " (--ctx allows more)" if reason == "context_full" else ""


def names_of(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return one_line(", ".join(names))
