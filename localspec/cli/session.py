"""From the model options to a running engine, with what there is to say on stderr."""

from typing import Any

from localspec import paths
from localspec.chat import pairing
from localspec.chat.pairing import Choice
from localspec.cli import settings
from localspec.cli.errors import Failure
from localspec.cli.terminal import StatusLine, say
from localspec.engine.client import EngineClient
from localspec.engine.requests import EngineInfo


def choose(options: dict[str, Any]) -> Choice:
    """The files for the options, checked as a pair before anything is loaded.

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
    return choice


def start(choice: Choice, status: StatusLine) -> tuple[EngineClient, EngineInfo]:
    """A running engine, with progress on the status line. The caller closes it.

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
