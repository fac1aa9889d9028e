"""The chat's desk: what is asked, whether it fits, what comes of it. The screen is told what to show."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.chat.attach import CannotAttach, mentions
from localspec.chat.errors import HistoryError, TemplateError, reason_of
from localspec.chat.history import History
from localspec.chat.session import Live, Session, Use
from localspec.chat.splitting import Part
from localspec.chat.talk import Talk
from localspec.chat.turns import Turn
from localspec.engine.errors import EngineError
from localspec.engine.events import Cycle, Finished, Notice, Started
from localspec.tui.asking import Ready, prepare, sizes, with_attachments
from localspec.tui.commands import Edit, parse
from localspec.tui.editing import Editing
from localspec.tui.engine import Arrived, Broken, EngineState
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from localspec.tui.screens.chat import ChatScreen

SIZES_AFTER_S = 0.25
"""A pause in typing after which attached files are counted."""

Say = Callable[[Talk], Turn | None]
"""Adds to a copy of the talk what is to be said; the answer to be made, None when there is nothing to say."""

WAY_BACK = "F9 starts the engine again, F3 shows other models. "
"""Said with what broke, whether the answer or the engine is the first to tell of it."""


class ChatDesk:
    """Owns the talk, the session and the live figures. Methods are for the app's thread."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._home = screen.home
        self.talk = Talk(self._home.history or History.in_memory(), system=self._home.settings.system)
        self.session = Session()
        self.live = Live()
        self.answer: Turn | None = None
        self.editing: Turn | None = None
        self.assist = Editing(self, screen)
        self.preparing = False
        self._use: Use = "chat"
        self._waiting = ""
        self._sure: tuple[str, int] | None = None
        self._problem: str | None = None
        self._seen: EngineState | None = None

    def begin(self) -> None:
        """An empty chat on the screen."""
        self._screen.show_turns(self.talk.turns)
        self._screen.show_session()
        if self.talk.history.problem:
            self._screen.say(self.talk.history.problem, "warning")

    # -- asking ------------------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """A question; it stays in the box until it is really asked."""
        if not text.strip():
            return
        if self._home.engine.phase == "loading":
            self._waiting = text
            self._screen.say("The model is loading: this is sent when it is there. Esc takes it back.")
            return
        edited = self.editing
        if (command := parse(text)) is not None:
            self.assist.do(command, text, edited)
            return

        def say(talk: Talk) -> Turn | None:
            full = with_attachments(text, Path.cwd())
            return talk.edit(edited, full) if edited in talk.turns and edited is not None else talk.ask(full)

        self._prepare(text, say)

    def regenerate(self) -> None:
        """Another answer to the last question."""
        last = next((turn for turn in reversed(self.talk.turns) if turn.role == "user"), None)
        if last is not None and isinstance(command := parse(last.text), Edit) and command.complete:
            self.assist.do(command, last.text, last)
            return
        self._prepare("another answer", Talk.regenerate)

    def go_on(self) -> None:
        """On with the answer that stopped."""
        if self.talk.resumable() is None:
            self._screen.say("The last answer came to its end: there is nothing to go on with.")
            return
        if len(self.talk.turns) > 1 and isinstance(parse(self.talk.turns[-2].text), Edit):
            self._screen.say("Half an edit cannot be gone on with: Ctrl+R asks for it again.")
            return
        self._prepare("go on", Talk.resumable)

    def edit(self, turn: Turn | None) -> None:
        """An earlier question into the box."""
        if turn is None or not self.idle():
            return
        self.editing = turn
        prompt = self._screen.query_one(Prompt)
        prompt.fill(turn.text)
        prompt.focus()
        self._screen.say("Enter sends this in place of the old question, which stays in the history. Esc leaves it.")

    def idle(self) -> bool:
        """Whether something can be asked now; says why not."""
        state = self._home.engine
        if state.phase == "ready" and not self.preparing:
            return True
        words = {
            "answering": "An answer is being made: Esc stops it.",
            "loading": "The model is still loading.",
            "broken": "The engine has stopped: F9 starts it again, F3 shows other models.",
            "none": "No model is loaded: F3 shows the models.",
        }
        self._screen.say(words.get(state.phase, ""), "warning")
        return False

    def _prepare(self, what: str, say: Say) -> None:
        """Works out the request in a thread: files are read and tokens counted there."""
        state = self._home.engine
        info, choice = state.info, state.choice
        if not self.idle() or info is None or choice is None:
            return
        self.preparing = True
        settings, keeper, talk = self._home.settings, self._home.keeper, self.talk.copy()

        def work() -> None:
            ready: Ready | str | None
            try:
                answer = say(talk)
                ready = prepare(talk, answer, info, choice, settings, keeper.count) if answer is not None else None
            except (CannotAttach, TemplateError, EngineError) as error:
                ready = str(error)
            except Exception as error:
                ready = reason_of(error)
            self._home.call_later(self._prepared, what, ready)

        self._screen.run_worker(work, thread=True, group="prepare")

    def _prepared(self, what: str, ready: "Ready | str | None") -> None:
        self.preparing = False
        if ready is None:
            return
        if isinstance(ready, str):
            self._screen.say(ready, "error")
            return
        budget = ready.budget
        if budget.too_long_by:
            self._screen.say(budget.words(), "error")
            return
        if budget.dropped and self._sure != (what, budget.dropped):
            self._sure = (what, budget.dropped)
            self._screen.say(f"{budget.words()} The same key again sends it so.", "warning")
            return
        self.ask(ready, from_prompt=self._screen.query_one(Prompt).exact == what)

    def ask(self, ready: Ready, *, from_prompt: bool) -> None:
        """Asks the engine what has been prepared."""
        info = self._home.engine.info
        if info is None or not self._home.engine.can_answer:
            self.idle()
            return
        # The engine is free before its last words are painted: they are of the answer before.
        self.take(self._home.keeper.take())
        self._sure, self._waiting, self.editing = None, "", None
        self.talk, self.answer, self._use = ready.talk, ready.answer, ready.use
        if self._home.engine.choice is not None:
            self.talk.model = self._home.engine.choice.again
        self.live = Live(before=self.live.stats or self.live.before)
        self._home.keeper.ask(ready.request, ready.splitter, partial(self.talk.recorder, ready.answer, info))
        if from_prompt:
            self._screen.query_one(Prompt).taken()
        self._screen.say("")
        self._screen.show_turns(self.talk.turns)
        self._screen.show_live()

    # -- stopping ----------------------------------------------------------------------------------------------------

    def stop(self) -> bool:
        """Ends the answer being made, or what waits to be asked or edited; whether there was any."""
        if self._home.engine.phase == "answering":
            self._home.keeper.cancel()
            return True
        if self.assist.running:
            # Between two of its questions.
            self.assist.drop()
            return True
        if self._waiting or self.editing is not None or self._sure is not None:
            if self.editing is not None:
                self._screen.query_one(Prompt).fill("")
            self._waiting, self.editing, self._sure = "", None, None
            self._screen.say("")
            return True
        return False

    def restart(self) -> None:
        if self._home.engine.choice is None:
            self._home.load_pair(None, None)
        else:
            self._home.keeper.restart()

    # -- other chats -------------------------------------------------------------------------------------------------

    def new(self) -> None:
        """An empty chat; the old one is in the history."""
        self._switch(Talk(self.talk.history, system=self._home.settings.system))
        self._screen.query_one(Prompt).focus()

    def open(self, chat_id: int, leaf: int | None) -> None:
        """A chat out of the history, with every token's colour."""
        history = self.talk.history
        try:
            turns = history.turns(chat_id, leaf)
            system = history.chat(chat_id).system
        except HistoryError as error:
            self._screen.say(str(error), "error")
            return
        self._switch(Talk(history, turns, chat_id, system))

    def _switch(self, talk: Talk) -> None:
        self.stop()
        self.assist.drop()
        # What still comes of the old answer goes into the history, not onto this screen.
        self.answer = None
        self._home.caches.opened(talk.chat_id)
        self.talk, self.session, self.live = talk, Session(), Live(before=self.live.stats or self.live.before)
        self._screen.say("")
        self._screen.show_turns(talk.turns)
        self._screen.show_session()
        self._screen.show_live()

    # -- what the engine says ----------------------------------------------------------------------------------------

    def engine_changed(self, state: EngineState) -> None:
        """The engine has another state."""
        if state == self._seen:
            return
        if state.phase == "ready" and (self._seen is None or self._seen.phase == "loading"):
            self._home.caches.loaded(self.talk.chat_id)
        self._seen = state
        if state.phase == "broken":
            self._screen.say(WAY_BACK + state.error, "error")
        elif state.phase == "ready" and state.notes:
            self._told(state.notes)
        if state.phase == "ready" and self._waiting:
            text, self._waiting = self._waiting, ""
            self.send(text)
        self.assist.go_on()
        self._screen.show_live()

    def _told(self, notes: Sequence[str]) -> None:
        words = " ".join(notes)
        if words != self._problem:
            self._problem = words
            self._screen.say(words, "warning")

    def take(self, events: Sequence[Arrived]) -> None:
        """What came since the last paint."""
        if self.answer is None:
            return
        grown = False
        for event in events:
            match event:
                case Part():
                    grown = True
                    self.live.take(event.token)
                case Notice():
                    self._screen.say(event.text, "warning")
                case Broken():
                    self._broken(event)
                    return
                case _:
                    self.live.take(event)
                    self._counted(event)
        if grown and self.answer is not None:
            self._screen.query_one(Transcript).grown()
        self._screen.show_live()

    def _counted(self, event: Arrived) -> None:
        answer = self.answer
        assert answer is not None
        match event:
            case Started():
                self._screen.query_one(Transcript).changed(answer)
                self._screen.show_legend()
            case Cycle():
                self.session.cycle(event)
            case Finished():
                self.session.finished(event.stats, self._use)
                kept = event.stats.prompt_tokens + event.stats.tokens
                # After an edit the engine's caches hold its question, which is no part of the chat's next prompt.
                self._home.caches.answered(self.talk.chat_id if self._use == "chat" else None, kept)
                self._screen.query_one(Transcript).changed(answer)
                self._screen.show_session()
                self.answer = None
                if self.assist.running:
                    self.assist.answered(answer, event.reason)
                elif event.reason == "cancelled":
                    self._screen.say("Stopped. Ctrl+G goes on from here.")

    def _broken(self, event: Broken) -> None:
        """The answer ended with an error: what there is of it stays; a question nobody began to answer goes back."""
        answer, self.answer = self.answer, None
        assert answer is not None
        self.assist.drop()
        if answer.started is None and not answer.parts:
            text = self.talk.take_back()
            self._screen.show_turns(self.talk.turns)
            prompt = self._screen.query_one(Prompt)
            if not prompt.exact:
                prompt.fill(text)
        else:
            self._screen.query_one(Transcript).changed(answer)
        again = WAY_BACK if event.engine_died else ""
        self._screen.say(again + event.error, "error")
        self._screen.show_live()

    # -- attached files ----------------------------------------------------------------------------------------------

    def typed(self) -> None:
        """The prompt has changed: attached files are counted when the person pauses."""
        text = self._screen.query_one(Prompt).exact
        if self._sure is not None and self._sure[0] != text:
            self._sure = None
        if not mentions(text):
            self._screen.show_attached(())
            return
        self._screen.set_timer(SIZES_AFTER_S, partial(self._count_files, text))

    def _count_files(self, text: str) -> None:
        if text != self._screen.query_one(Prompt).exact or not self._home.engine.can_answer:
            return
        keeper = self._home.keeper

        def work() -> None:
            try:
                found = sizes(text, Path.cwd(), keeper.count)
            except EngineError:
                return
            self._home.call_later(self._screen.show_attached, found)

        self._screen.run_worker(work, thread=True, group="sizes")
