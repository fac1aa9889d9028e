"""`localspec run` and the history: going on with the last chat, keeping the answer, the chat's figures."""

from dataclasses import dataclass
from typing import Any

from localspec.chat.budget import fit, room_wanted
from localspec.chat.history import History
from localspec.chat.kv import KvStore
from localspec.chat.pairing import Choice
from localspec.chat.recording import Recorder
from localspec.chat.session import Session
from localspec.chat.settings import Settings
from localspec.chat.splitting import Part
from localspec.chat.talk import Prompt, Talk
from localspec.chat.templates import ChatTemplate
from localspec.chat.thinking import Thinking
from localspec.cli.answering import Sink
from localspec.cli.errors import Failure
from localspec.cli.session import Engine
from localspec.cli.terminal import say
from localspec.engine.events import Cycle, Finished, Started
from localspec.engine.requests import EngineInfo


@dataclass(slots=True)
class Kept:
    """What a command knows of the chat it answers in. `session` sums over the chat's answers when one is gone on with;
    `store` is None when nothing is kept."""

    talk: Talk
    store: KvStore | None
    session: Session | None = None
    recorder: Recorder | None = None


def begin(held: Settings, kept: bool) -> Kept:
    """A new chat, kept in the history when `kept`."""
    history = History.open() if kept else History.in_memory()
    if history.problem:
        say(history.problem)
    store = KvStore(held.kv_disk_gb * 1e9) if kept and history.kept else None
    return Kept(Talk(history, system=held.system), store)


def options_of_last(values: dict[str, Any]) -> dict[str, Any]:
    """The command's options, with the last chat's models where none were given. Raises `Failure` without a chat.

    A chat whose caches were saved is taken up by an engine of its own: a running one cannot load them.
    """
    history = _opened()
    try:
        chat = history.last()
    finally:
        history.close()
    if chat is None:
        raise Failure('there is no chat to go on with: `localspec run "your question"` begins one')
    if KvStore(0).has(chat.id):
        values = values | {"no_server": True}
    if values["pair"] or values["target"] or chat.target is None:
        return values
    return values | {"target": chat.target, "draft": values["draft"] or chat.draft}


def go_on(values: dict[str, Any], held: Settings, kept: bool) -> Kept:
    """The last chat, ready for the next question."""
    history = _opened()
    chat = history.last()
    if chat is None:
        history.close()
        raise Failure("the last chat is gone: another localspec deleted it")
    turns = history.turns(chat.id)
    session = Session()
    for turn in turns:
        for cycle in turn.cycles:
            session.cycle(cycle)
        if turn.stats is not None:
            session.finished(turn.stats)
    system = chat.system if values["system"] is None else held.system
    if kept:
        talk = Talk(history, turns, chat.id, system)
        return Kept(talk, KvStore(held.kv_disk_gb * 1e9), session)
    history.close()
    for turn in turns:
        turn.id = None
    return Kept(Talk(History.in_memory(), turns, system=system), None, session)


def prompt_for(
    kept: Kept, template: ChatTemplate, thinking: Thinking, client: Engine, info: EngineInfo, held: Settings
) -> Prompt:
    """The prompt for the talk's last question; what no longer fits the context is left out, with a line on stderr."""
    talk = kept.talk
    whole = talk.prompt(template, thinking)
    if len(talk.turns) <= 2:
        return whole
    budget = fit(
        talk.turns[:-1],
        lambda dropped: client.count(talk.prompt(template, thinking, dropped).segments),
        info.context,
        room_wanted(info.context, held.max_tokens),
    )
    if words := budget.words():
        say(words)
    return talk.prompt(template, thinking, budget.dropped) if budget.dropped else whole


def restore(kept: Kept, client: Engine) -> None:
    """Takes up the caches of the chat that is gone on with."""
    if kept.store is not None and kept.talk.chat_id is not None:
        kept.store.restore(client, kept.talk.chat_id)


def report(kept: Kept) -> None:
    """Says why the answer was not kept, when it was not."""
    problem = kept.talk.problem or (kept.recorder.problem if kept.recorder is not None else None)
    if problem:
        say(problem)


def save(kept: Kept, client: Engine, finished: Finished) -> None:
    """Keeps the caches for the next question."""
    if kept.store is not None and kept.talk.chat_id is not None and kept.talk.history.kept:
        kept.store.save(client, kept.talk.chat_id, finished.stats.prompt_tokens + finished.stats.tokens)


class KeepingSink:
    """Passes an answer on to `sink`, and into the history as it comes."""

    def __init__(self, sink: Sink, kept: Kept, info: EngineInfo, choice: Choice) -> None:
        self._sink, self._kept, self._info = sink, kept, info
        kept.talk.model = choice.again

    def started(self, event: Started) -> None:
        # Only now: a request that is refused leaves nothing in the history.
        self._kept.recorder = self._kept.talk.recorder(self._kept.talk.turns[-1], self._info)
        self._kept.recorder.started(event)
        self._sink.started(event)

    def part(self, part: Part) -> None:
        if self._kept.recorder is not None:
            self._kept.recorder.part(part)
        self._sink.part(part)

    def cycle(self, event: Cycle) -> None:
        if self._kept.recorder is not None:
            self._kept.recorder.cycle(event)
        if self._kept.session is not None:
            self._kept.session.cycle(event)
        self._sink.cycle(event)

    def finished(self, event: Finished, text: str, thoughts: str) -> None:
        if self._kept.recorder is not None:
            self._kept.recorder.finished(event)
        if self._kept.session is not None:
            self._kept.session.finished(event.stats)
        self._sink.finished(event, text, thoughts)

    def broken(self) -> None:
        if self._kept.recorder is not None:
            self._kept.recorder.broken()
        self._sink.broken()


def _opened() -> History:
    history = History.open()
    if history.problem:
        raise Failure(history.problem)
    return history
