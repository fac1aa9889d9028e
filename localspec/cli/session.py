"""From the model options to a running engine: which files, do they belong together, what to do when a draft fails."""

from dataclasses import dataclass, replace
from typing import Any

from localspec import paths
from localspec.cli import settings
from localspec.cli.errors import Failure
from localspec.cli.options import engine_config
from localspec.cli.terminal import StatusLine, say
from localspec.engine.client import EngineClient
from localspec.engine.errors import EngineError
from localspec.engine.requests import EngineConfig, EngineInfo, Speculate

LOOKUP_INSTEAD = "drafting by prompt lookup only"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to load and how to speculate. `explicit`: the person asked for the draft, so without it nothing runs."""

    config: EngineConfig
    speculate: Speculate
    explicit: bool


def choose(options: dict[str, Any]) -> Choice:
    """The files for the options, checked as a pair before anything is loaded.

    Raises `ModelError` or `Failure` when the target, or a draft that was asked for, cannot be used; a draft that comes
    with the pair is left out instead, with a line on stderr.
    """
    from localspec.models import catalog, store
    from localspec.models import settings as model_settings
    from localspec.models.pairs import check_pair

    mine = settings.load()
    for problem in mine.problems:
        say(problem)
    if options["pair"] and options["target"]:
        raise Failure("--pair and --target both name a target: give one of them")
    if options["target"] is not None:
        spec = options["target"]
    else:
        spec = options["pair"] or mine.pair or _starter(catalog.load())
    found = store.resolve(spec, draft=options["draft"], settings=model_settings.load(offline=options["offline"]))
    asked = options["speculate"] or mine.speculate
    suggested = found.pair.speculate if found.pair and found.pair.speculate in settings.CHOICES["speculate"] else "auto"
    speculate: Any = asked or ("auto" if options["draft"] else suggested)
    explicit = options["draft"] is not None or options["speculate"] == "draft"
    draft = found.draft
    if speculate in ("off", "lookup"):
        draft = None
        if options["draft"]:
            say(f"the draft is not loaded: --speculate {speculate} does not use it")
    elif draft is None:
        if speculate == "draft":
            raise Failure(found.notes[0] if found.notes else "--speculate draft needs a draft: name one with --draft")
        for note in found.notes:
            say(f"{note}; {LOOKUP_INSTEAD}")
    elif not (verdict := check_pair(found.target, draft, paths.cache_dir())).compatible:
        reason = f"{draft.name} cannot draft for {found.target.name}: {verdict.reason}"
        if explicit:
            raise Failure(reason)
        say(f"{reason}; {LOOKUP_INSTEAD}")
        draft = None
    config = engine_config(str(found.target), str(draft) if draft else None, options, str(paths.cache_dir()))
    return Choice(config, speculate, explicit)


def _starter(menu: Any) -> str:
    pair = menu.starter()
    if pair is None:
        raise Failure("the menu has no starter pair: name a model with --pair or --target")
    return str(pair.key)


def start(choice: Choice, status: StatusLine) -> tuple[EngineClient, EngineInfo]:
    """A running engine, with progress on the status line. The caller closes it.

    Raises `EngineError`. A draft nobody asked for that cannot be loaded is left out, with a line on stderr.
    """
    reason = None
    for config in (choice.config, replace(choice.config, draft=None)):
        client = EngineClient(config)
        try:
            info = client.start(status.progress("loading the model"))
        except EngineError as error:
            client.close()
            if reason is not None or config.draft is None or choice.explicit:
                raise
            reason = str(error)
            continue
        except BaseException:
            client.close()
            raise
        finally:
            status.clear()
        if reason is not None:
            say(f"the draft could not be loaded ({reason}); {LOOKUP_INSTEAD}")
        for notice in info.notices:
            say(notice)
        return client, info
    raise AssertionError("the second round has no draft and either returns or raises")
