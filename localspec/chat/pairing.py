"""From what a person asked for to a running engine: which files, do they belong together, what if the draft fails."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_args

from localspec import paths
from localspec.engine.errors import EngineError
from localspec.engine.events import MODEL_DRAFTERS, ModelDrafterName
from localspec.engine.requests import EngineConfig, EngineInfo, Speculate
from localspec.models.errors import ModelError

LOOKUP_INSTEAD = "drafting by prompt lookup only"
OWN_HEADS_INSTEAD = "drafting by prompt lookup and the model's own MTP heads"
SPECULATE: tuple[Speculate, ...] = get_args(Speculate)


class CannotChoose(ModelError):
    """What was asked for does not name a target and a draft that go together."""


class Starts(Protocol):
    """What `start` needs of an engine's client."""

    def start(self, on_progress: Callable[[float], None] | None = None) -> EngineInfo: ...

    def close(self) -> None: ...


Client = TypeVar("Client", bound=Starts)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to load and how to speculate.

    `explicit`: a draft was asked for, here or in the settings, so without it nothing runs. `name` is the pair's name on
    the menu, or what was asked for; `notes` are lines for the person. `shared`: an engine that runs already may answer.
    """

    config: EngineConfig
    speculate: Speculate
    explicit: bool = False
    name: str = ""
    notes: tuple[str, ...] = ()
    shared: bool = True

    @property
    def again(self) -> tuple[str, str | None]:
        """What chooses the same later and from any folder: the pair's name, the hub reference or the file, and the
        draft when the person named it."""
        target, draft = Path(self.config.target), self.config.draft
        named = self.name and not Path(self.name).is_file()
        mine = self.explicit and self.config.drafter == "draft"
        return self.name if named else str(target.absolute()), draft if mine else None


def choose(
    spec: str | None,
    configure: Callable[[str, str | None], EngineConfig],
    *,
    draft: str | None = None,
    speculate: Speculate | None = None,
    usual: Speculate | None = None,
    offline: bool = False,
) -> Choice:
    """The files for `spec` (a pair, a file, a hub reference; None: the menu's starter), checked as a pair before
    anything is loaded. `configure` makes the engine's configuration of target and draft; `speculate` was asked for
    here, `usual` is what the settings say.

    Raises `ModelError` when the target, or a draft that was asked for, cannot be used; a draft that merely comes with
    the pair is left out instead, with a note.
    """
    from localspec.models import catalog, store
    from localspec.models import settings as model_settings
    from localspec.models.pairs import check_pair

    spec = spec or _starter(catalog.load())
    found = store.resolve(spec, draft=draft, settings=model_settings.load(offline=offline))
    suggested: Any = found.pair.speculate if found.pair and found.pair.speculate in SPECULATE else "auto"
    mode: Speculate = speculate or usual or ("auto" if draft else suggested)
    explicit = draft is not None or mode in MODEL_DRAFTERS
    notes: list[str] = []
    file = found.draft
    drafter: ModelDrafterName = "draft"
    headed = _own_heads(found.target, mode, draft)
    own = None if headed else _own_layers(found.target, spec, mode, draft)
    instead = OWN_HEADS_INSTEAD if headed else "drafting with its own layers" if own else LOOKUP_INSTEAD
    if mode in ("off", "lookup", "mtp", "self"):
        file = None
        if draft:
            notes.append(f"the draft is not loaded: --speculate {mode} does not use it")
    elif file is None:
        if mode == "draft":
            raise CannotChoose(
                found.notes[0] if found.notes else "--speculate draft needs a draft: name one with --draft"
            )
        notes += [f"{note}; {instead}" for note in found.notes]
    elif not (verdict := check_pair(found.target, file, paths.cache_dir())).compatible:
        reason = f"{file.name} cannot draft for {found.target.name}: {verdict.reason}"
        if explicit:
            raise CannotChoose(reason)
        notes.append(f"{reason}; {instead}")
        file = None
    if file is None and headed:
        drafter = "mtp"
    elif file is None and own is not None:
        file, drafter = own, "self"
    name = found.pair.key if found.pair else spec
    config = replace(configure(str(found.target), str(file) if file else None), drafter=drafter)
    return Choice(config, mode, explicit, name, tuple(notes))


def _own_heads(target: Path, mode: Speculate, draft: str | None) -> bool:
    """Whether MTP heads in the target's own file draft when no draft model does: they were asked for, or `auto` may
    take them. Raises `CannotChoose` when they were asked for and cannot run."""
    from localspec.models import heads

    if mode != "mtp" and (mode != "auto" or draft is not None):
        return False
    found = heads.of_file(target)
    if mode == "mtp" and found is None:
        raise CannotChoose(f"{target.name} carries no MTP heads that can run; a draft model or lookup may do")
    return found is not None and (mode == "mtp" or heads.draft_unasked(found))


def _own_layers(target: Path, spec: str, mode: Speculate, draft: str | None) -> Path | None:
    """The draft made of the target's own layers, where it may be used: asked for, or in `auto` found to be worth it.

    Raises `CannotChoose` when it was asked for and there is none, `NoSelfDraft` when there cannot be one.
    """
    from localspec.models import selfdraft

    if mode not in ("auto", "self"):
        return None
    found = selfdraft.find(target)
    if mode == "auto":
        return found.path if found and found.measured and found.measured.worth and draft is None else None
    if found is None:
        with suppress(OSError):
            # A model of which none can be made says so itself.
            selfdraft.ways(target)
        raise CannotChoose(
            f"there is no draft made of the layers of {target.name}: `localspec models make-draft {shlex.quote(spec)}` "
            "makes one"
        )
    return found.path


def _starter(menu: Any) -> str:
    pair = menu.starter()
    if pair is None:
        raise CannotChoose("the menu has no starter pair: name a model with --pair or --target")
    return str(pair.key)


def start(
    choice: Choice, make: Callable[[EngineConfig], Client], on_progress: Callable[[float], None] | None = None
) -> tuple[Client, EngineInfo, tuple[str, ...]]:
    """A running engine's client (the caller closes it), what it loaded, and notes for the person.

    Raises `EngineError`. A draft nobody asked for that cannot be loaded, heads of the target's own among them, is left
    out, with a note.
    """
    notes: tuple[str, ...] = ()
    for config in (choice.config, replace(choice.config, draft=None, drafter="draft")):
        client = make(config)
        try:
            info = client.start(on_progress)
        except EngineError as error:
            client.close()
            drafts = config.draft is not None or config.drafter == "mtp"
            if notes or not drafts or choice.explicit:
                raise
            what = "the MTP heads" if config.drafter == "mtp" else "the draft"
            notes = (f"{what} could not be loaded ({error}); {LOOKUP_INSTEAD}",)
            continue
        except BaseException:
            client.close()
            raise
        return client, info, (*notes, *info.notices)
    raise AssertionError("the second round has no draft and either returns or raises")
