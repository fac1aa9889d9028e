"""Code-assist at the chat's desk: `/edit` from the command to the changes a person accepts, and `/undo`.

The file is read and the questions are made in a thread; each question is asked like any other, so that its answer
streams in the transcript; what the answers come to is worked out in a thread again, and shown as a diff.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from localspec.chat.budget import Budget
from localspec.chat.errors import reason_of
from localspec.chat.turns import Turn
from localspec.chat.visible import one_line
from localspec.engine.events import Reason
from localspec.tui.asking import Ready
from localspec.tui.commands import Command, Diff, Edit, Undo
from localspec.tui.screens.base import hand_over

if TYPE_CHECKING:
    from localspec.assist.edit_job import EditJob, EditResult
    from localspec.tui.desk import ChatDesk
    from localspec.tui.proposal import Proposal
    from localspec.tui.screens.chat import ChatScreen

Found = TypeVar("Found")

NOT_WRITTEN = "Nothing was changed."


class Editing:
    """One edit at a time. `proposal` is the last one that came to changes. Methods are for the app's thread."""

    def __init__(self, desk: "ChatDesk", screen: "ChatScreen") -> None:
        self._desk, self._screen, self._home = desk, screen, screen.home
        self.proposal: Proposal | None = None
        self._text = ""
        self._command = Edit()
        self._in_place_of: Turn | None = None
        self._jobs: list[EditJob] = []
        self._results: list[EditResult] = []
        self._waits = False

    @property
    def running(self) -> bool:
        """Questions of an edit are being asked."""
        return bool(self._jobs)

    def do(self, command: Command, text: str, in_place_of: Turn | None = None) -> None:
        """Does what was typed as `text`. The question of an edit takes the place of an earlier one, if given."""
        match command:
            case Edit() if command.complete:
                self._plan(command, text, in_place_of)
            case Edit():
                self._screen.ask_for_edit(command)
            case Diff():
                self.show()
            case Undo():
                self.undo(command.file)

    def show(self) -> None:
        """The last edit's changes."""
        if self.proposal is None:
            self._screen.say("There are no changes to show yet: /edit FILE INSTRUCTION makes some.")
        else:
            self._screen.command_done()
            self._screen.show_changes(self.proposal)

    def drop(self) -> None:
        """The questions that are left are not asked: the answer was stopped, or broke off."""
        self._jobs, self._results, self._waits = [], [], False

    # -- asking ------------------------------------------------------------------------------------------------------

    def _plan(self, command: Edit, text: str, in_place_of: Turn | None) -> None:
        state, settings, keeper = self._home.engine, self._home.settings, self._home.keeper
        info = state.info
        if not self._desk.idle() or info is None:
            return
        self._desk.preparing = True

        def work() -> "list[EditJob]":
            from localspec.assist import edit, edit_file
            from localspec.chat.attach import mentions, read

            budget = edit.Budget.of(info, keeper.count, think=settings.think)
            beside = [read(path, spelled) for spelled, path in mentions(command.instruction)]
            return edit.plan(edit_file.read(command.path), command.instruction, command.lines, beside, budget)

        def planned(jobs: "list[EditJob]") -> None:
            self._desk.preparing = False
            self._text, self._command, self._in_place_of = text, command, in_place_of
            self._jobs, self._results = jobs, []
            self._next()

        def failed(error: Exception) -> None:
            self._desk.preparing = False
            self._screen.say(told(error), "error")

        self._screen.say("")
        self._in_thread(work, planned, failed)

    def _next(self) -> None:
        """Asks the next question."""
        job = self._jobs[len(self._results)]
        choice, info = self._home.engine.choice, self._home.engine.info
        if choice is None or info is None:
            self.drop()
            return
        from localspec.assist.edit import SAMPLING

        self._waits = False
        talk = self._desk.talk.copy()
        asked = self._text
        if job.parts > 1:
            asked = replace(self._command, lines=f"{job.region.first}-{job.region.last}").written()
        replaced, self._in_place_of = self._in_place_of, None
        answer = talk.edit(replaced, asked) if replaced in talk.turns and replaced is not None else talk.ask(asked)
        # An answer that is cut short cannot be used: the setting for the longest answer is for talk.
        settings = replace(self._home.settings, max_tokens=None)
        base = replace(settings.request((), suggested=choice.speculate), sampling=SAMPLING)
        fits = Budget(info.context, job.prompt_tokens)
        ready = Ready(talk, answer, job.request(base), job.splitter(), fits, use="edits")
        self._desk.ask(ready, from_prompt=self._screen.typed == self._text)
        if job.parts > 1:
            self._screen.say(f"{job.file.name}, part {job.part} of {job.parts}: {job.region}")

    def answered(self, answer: Turn, reason: Reason) -> None:
        """The answer to the question that was asked last is complete."""
        job, results = self._jobs[len(self._results)], self._results
        last = len(results) + 1 == len(self._jobs)
        if reason == "cancelled":
            self.drop()
            self._screen.say(f"Stopped. {NOT_WRITTEN}")
            return

        def work() -> "EditResult | Proposal":
            from localspec.assist import edit
            from localspec.assist.edit_file import CannotEdit
            from localspec.tui.proposal import Proposal

            result = edit.take(job, answer.text, reason)
            if result.text is None:
                raise CannotEdit(f"{job.file.name}: {result.problem}. {NOT_WRITTEN}")
            return Proposal.of(job.file, [*results, result]) if last else result

        def failed(error: Exception) -> None:
            if results is self._results:
                self.drop()
                self._screen.say(told(error), "error")

        self._in_thread(work, partial(self._come_to, results), failed)

    def _come_to(self, results: "list[EditResult]", outcome: "EditResult | Proposal") -> None:
        from localspec.tui.proposal import Proposal

        if results is not self._results or not self._jobs:
            # It was dropped meanwhile.
            return
        if not isinstance(outcome, Proposal):
            results.append(outcome)
            self._waits = True
            self.go_on()
            return
        self.drop()
        if not outcome.hunks:
            self._screen.say(f"{outcome.file.name}: the answer says what the file says already: nothing to change.")
            return
        self.proposal = outcome
        self._screen.show_changes(outcome)

    def go_on(self) -> None:
        """The engine is ready: for the next question, when one waits for it."""
        if self._waits and self._home.engine.can_answer:
            self._next()

    # -- taking back -------------------------------------------------------------------------------------------------

    def undo(self, file: str, *, force: bool = False) -> None:
        """Brings back what the last edit replaced; asks before it takes back what somebody did since."""

        def work() -> list[Path]:
            from localspec.tui.proposal import undo_last

            return undo_last(Path(file).expanduser() if file else None, force=force)

        def undone(files: list[Path]) -> None:
            self._screen.command_done()
            names = " and ".join(one_line(path.name) for path in files)
            self._screen.say(f"{names} {'is' if len(files) == 1 else 'are'} as before the edit.")
            if self.proposal is not None:
                self.proposal.undone(files)

        def failed(error: Exception) -> None:
            from localspec.tui.proposal import ChangedSince

            self._screen.command_done()
            if isinstance(error, ChangedSince):
                self._screen.ask_for_force(str(error), partial(self.undo, file, force=True))
            else:
                self._screen.say(told(error), "error")

        self._in_thread(work, undone, failed)

    def _in_thread(
        self, work: Callable[[], Found], then: Callable[[Found], None], failed: Callable[[Exception], None]
    ) -> None:
        """`work` in a thread; what it returns, or the error that it raised, back in the app's."""

        def run() -> None:
            try:
                found = work()
            except Exception as error:
                hand_over(self._screen, failed, error)
                return
            hand_over(self._screen, then, found)

        self._screen.run_worker(run, thread=True, group="edit")


def told(error: Exception) -> str:
    """Why an edit failed, in one line."""
    from localspec.assist.edit_file import CannotEdit
    from localspec.chat.attach import CannotAttach

    return one_line(str(error)) if isinstance(error, CannotEdit | CannotAttach) else reason_of(error)
