"""From the model options to a running engine, with what there is to say on stderr."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from localspec import paths
from localspec.chat import pairing
from localspec.chat.pairing import Choice
from localspec.cli import settings
from localspec.cli.errors import Failure
from localspec.cli.terminal import StatusLine, say
from localspec.engine.client import EngineClient
from localspec.engine.errors import EngineDied
from localspec.engine.events import MODEL_DRAFTERS, Event
from localspec.engine.requests import EngineInfo, Request, Segment

if TYPE_CHECKING:
    from localspec.server.remote import RemoteEngine

OWN_ENGINE = "LOCALSPEC_NO_SERVER"
"""Set to anything: no command takes a running engine."""

WAITING = "waiting: the engine that runs already is answering somebody else"


class Engine(Protocol):
    """What commands need of an engine, of their own or a running one. Whoever got it closes it."""

    def generate(self, request: Request) -> Iterator[Event]: ...

    def cancel(self) -> None: ...

    def count(self, prompt: tuple[Segment, ...]) -> int: ...

    def save(self, path: Path) -> int: ...

    def restore(self, path: Path) -> int: ...

    def close(self) -> None: ...


def choose(options: dict[str, Any]) -> Choice:
    """The files for the options, checked as a pair before anything is loaded. Commands that take a running engine
    (`no_server` is among their options) and name no model get the choice of the one that runs, whichever it is.

    Raises `ModelError` or `Failure` when the target, or a draft that was asked for, cannot be used; a draft that comes
    with the pair is left out instead, with a line on stderr.
    """
    known = settings.load()
    for problem in known.problems:
        say(str(problem))
    if options["pair"] and options["target"]:
        raise Failure("--pair and --target both name a target: give one of them")
    cache = str(paths.cache_dir())
    held = settings.in_force(options, known)
    shared = not options.get("no_server", True) and not os.environ.get(OWN_ENGINE)
    named = options["target"] or options["pair"] or options["draft"] or known.settings().pair
    if shared and not named and (running := _running(None)) is not None:
        found = running.running
        speculate = options["speculate"] or held.speculate or found.speculate
        if speculate not in MODEL_DRAFTERS or speculate == running.info.drafter:
            config = held.engine_config(found.config.target, found.config.draft, cache)
            config = replace(config, drafter=found.config.drafter)
            return Choice(config, speculate, speculate in MODEL_DRAFTERS, found.name)
    choice = pairing.choose(
        options["target"] if options["target"] is not None else options["pair"] or held.pair,
        lambda target, draft: held.engine_config(target, draft, cache),
        draft=options["draft"],
        speculate=options["speculate"],
        usual=held.speculate,
        offline=options["offline"],
    )
    for note in choice.notes:
        say(note)
    return replace(choice, shared=shared)


def engine(choice: Choice, status: StatusLine) -> tuple[Engine, EngineInfo]:
    """The engine that runs already when it does what was chosen, one of its own otherwise or when that is gone. The
    caller closes it.

    Raises `EngineError`, as `start` does.
    """
    if choice.shared and (running := _running(choice)) is not None:
        from localspec.cli.shared import SharedEngine

        # What is planned for the one must fit the other.
        config = replace(choice.config, context=choice.config.context or running.info.context)
        running.on_wait = lambda: status.show(WAITING)
        if running.busy:
            running.on_wait()

        def instead(reason: EngineDied) -> EngineClient:
            status.clear()
            say(f"{reason} The model is loaded here instead.")
            return start(replace(choice, config=config), status)[0]

        return SharedEngine(running, instead), running.info
    return start(choice, status)


def start(choice: Choice, status: StatusLine) -> tuple[EngineClient, EngineInfo]:
    """A running engine of its own, with progress on the status line. The caller closes it.

    Raises `EngineError`. A draft nobody asked for that cannot be loaded is left out, with a line on stderr.
    """
    try:
        client, info, notes = pairing.start(
            choice, lambda config: EngineClient(config), status.progress("loading the model")
        )
    finally:
        status.clear()
    for note in notes:
        say(note)
    return client, info


def _running(choice: Choice | None) -> "RemoteEngine | None":
    """The engine that runs, for a choice or for any; a fault in finding it costs a load, not the answer."""
    if not (paths.state_dir() / "engines").is_dir():
        # Most of the time: nothing more is imported to find nothing.
        return None
    from localspec.server import remote

    with suppress(Exception):
        if choice is None:
            return remote.find(None)
        return remote.find(choice.config, draft_needed=choice.explicit)
    return None
