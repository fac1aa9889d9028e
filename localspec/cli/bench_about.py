"""When, how and where something was measured, for a table, JSON and a page; and the page of those with plots."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli.errors import Failure

if TYPE_CHECKING:
    from localspec.bench.results import Machine
    from localspec.engine.requests import EngineConfig, EngineInfo


@dataclass(frozen=True, slots=True)
class About:
    """When, with which command and on which machine something was measured."""

    date: str
    command: str
    machine: "Machine"

    @classmethod
    def now(cls, info: "EngineInfo", config: "EngineConfig") -> "About":
        """Of the command that runs."""
        from localspec.bench import where

        date = datetime.now().astimezone().isoformat(timespec="seconds")
        return cls(date, common.command_line(click.get_current_context()), where.here(info, config))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Sequence[str]:
        """For people; text from outside is made visible."""
        from localspec.bench import where

        return [common.shown(line) for line in (*where.words(self.machine), f"{self.date}: {self.command}")]


html_option = click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with the plots."
)


def check_page(file: Path | None) -> None:
    """Raises `Failure` when the page cannot be written: better before a measurement than after it."""
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        raise Failure(f"{file} cannot be written: no such folder, or a folder itself")


def write_page(
    file: Path | None, title: str, about: About, charts: Sequence[tuple[str, str]], after: Sequence[str] = ()
) -> None:
    """The page with its charts, each a picture and its table, and what stands `after` them; all of it is markup.

    Raises OSError.
    """
    from localspec.bench.html import frame
    from localspec.bench.svg import shown
    from localspec.cli.terminal import say

    if file is None:
        return
    body = [f"<h1>{shown(title)}</h1>", f'<p class="quiet">{"<br>".join(map(shown, about.lines()))}</p>']
    body += [f"<figure>{picture}<details open><summary>The figures</summary>{table}</details></figure>"
             for picture, table in charts]  # fmt: skip
    file.write_text(frame(shown(title), [*body, *after]), encoding="utf-8")
    say(f"the page is {file}")
