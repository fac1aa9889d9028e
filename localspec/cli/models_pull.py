"""`localspec models pull` on a terminal: sentences and bars on stderr, or one JSON event a line."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from localspec.cli.errors import title_of
from localspec.cli.models_progress import Spoken, doing
from localspec.cli.output import print_json, progress_bars
from localspec.cli.terminal import is_terminal, one_line, say
from localspec.models import pull as pulling
from localspec.models import reference
from localspec.models.catalog import ModelFile
from localspec.models.errors import ModelError
from localspec.models.partial import human
from localspec.models.progress import KEPT, PullEvent, Said
from localspec.models.settings import Settings


def pull_to_terminal(
    names: Sequence[str], *, target_only: bool, offline: bool, accept_licence: bool, ignore_space: bool, as_json: bool
) -> None:
    """Fetch `names`, showing how it goes. Raises what `pull` raises."""
    from localspec.models import settings as model_settings

    settings = model_settings.load(offline=offline)
    for problem in settings.problems:
        say(str(problem))
    view: _Bars | _Lines = _Lines() if as_json else _Bars()

    def consent(file: ModelFile) -> bool:
        return accept_licence or view.consent(file)

    try:
        with view:
            done = pulling.pull(
                names, target_only=target_only, ignore_space=ignore_space, consent=consent, report=view.report,
                settings=settings,
            )  # fmt: skip
    except ModelError as error:
        if as_json:
            print_json({"type": "error", "title": title_of(error), "message": str(error)})
        raise
    except KeyboardInterrupt:
        say(KEPT)
        raise
    view.done(done)
    for name in names:
        _propose_drafts(name, settings, as_json)


def _propose_drafts(name: str, settings: Settings, as_json: bool) -> None:
    """Say what can draft for a repository's model, which came without a draft of its own."""
    from localspec.cli.models_show import show_drafts
    from localspec.models import catalog, store

    known = catalog.load()
    if name in known.pairs or name in known.files or reference.parse(name) is None:
        return
    try:
        target = store.locate(name, settings)
        found = show_drafts(target, quiet=as_json)
    except ModelError as error:
        say(str(error))
        return
    if as_json:
        print_json({"type": "drafts", "target": target, "proposed": found})


class _Lines:
    """Events as JSON lines on stdout."""

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def consent(self, file: ModelFile) -> bool:
        return False

    def report(self, event: PullEvent) -> None:
        print_json({"type": "said" if isinstance(event, Said) else "moved", **asdict(event)})

    def done(self, pulled: Sequence[pulling.Pulled]) -> None:
        for one in pulled:
            print_json({"type": "pulled", "key": one.file.key, "path": one.path, "source": one.source})


class _Bars:
    """Sentences and progress bars for a person, on stderr."""

    def __init__(self) -> None:
        self._progress = progress_bars()
        self._task: Any = None
        self._shown: tuple[str, str, str] | None = None
        self._spoken = Spoken()

    def __enter__(self) -> "_Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._progress.__exit__(*details)

    def consent(self, file: ModelFile) -> bool:
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            return False
        self._progress.stop()
        where = f": {file.licence_url}" if file.licence_url else ""
        click.echo(
            one_line(f"{file.key} comes under the licence {file.licence}, which asks for your consent{where}"), err=True
        )
        agreed = click.confirm("Do you agree to its terms?", err=True)
        self._progress.start()
        return agreed

    def report(self, event: PullEvent) -> None:
        if isinstance(event, Said):
            self._say(f"{event.key}: {event.text}")
            return
        if self._progress.disable:
            self._spoken.at(event)
            return
        if event.phase == "done":
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._shown = None
            return
        if self._shown != (event.key, event.name, event.phase):
            self._shown = (event.key, event.name, event.phase)
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(one_line(f"{doing(event)} {event.name}"), total=event.total)
        self._progress.update(self._task, completed=event.done, total=event.total)

    def _say(self, text: str) -> None:
        if self._progress.disable:
            say(text)
        else:
            from rich.text import Text

            self._progress.console.print(Text(one_line(text)))

    def done(self, pulled: Sequence[pulling.Pulled]) -> None:
        for one in pulled:
            size = human(one.path.stat().st_size)
            how = "was here already" if one.source is None else f"is here (from {one.source})"
            say(f"{one.file.key} {how}: {size}, {one.path}")
