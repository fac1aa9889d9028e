"""Bringing real models to this disk for the tests, into the directories of the person who runs them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localspec.models import pull as pulling
from localspec.models.errors import ModelError
from localspec.models.progress import Moved, PullEvent, Said
from localspec.models.pull import Pulled
from localspec.models.settings import Settings


class Unavailable(Exception):
    """No source answered; the message names each with its reason."""


@dataclass
class _Watcher:
    """Prints what a pull says, and notices whether any source sent a byte."""

    answered: bool = False
    _first: dict[tuple[str, str], int] = field(default_factory=dict)

    def __call__(self, event: PullEvent) -> None:
        match event:
            case Said():
                print(f"{event.key}: {event.text}", flush=True)
            case Moved():
                # What an earlier, broken download left is no sign of an answer; what comes on top of it is.
                first = self._first.setdefault((event.key, event.source), event.done)
                self.answered = self.answered or event.done > first or event.phase == "verifying"


def fetch(
    names: Sequence[str], settings: Settings | None = None, pull: Callable[..., list[Pulled]] = pulling.pull
) -> list[Path]:
    """Paths of the files of `names`, fetched where they are not here: targets and drafts in the order of the menu.

    Raises `Unavailable` when no source answered, which is no fault of the program; and whatever else `pull` raises,
    which is one: a full disk, a wrong hash, a download that began and failed.
    """
    watcher = _Watcher()
    try:
        return [pulled.path for pulled in pull(names, report=watcher, settings=settings)]
    except ModelError as error:
        nowhere = type(error) is ModelError and not isinstance(error.__cause__, OSError)
        if nowhere and not watcher.answered:
            raise Unavailable(str(error)) from error
        raise
