"""Where a report goes: a table or JSON on stdout, a file to read again, a page, and the menu's memory."""

import json
from dataclasses import dataclass
from pathlib import Path

from localspec.bench import results
from localspec.bench.results import Report
from localspec.cli.bench_table import print_report
from localspec.cli.errors import Failure
from localspec.cli.output import print_json
from localspec.cli.terminal import say


@dataclass(frozen=True, slots=True)
class Output:
    """What to do with a report."""

    as_json: bool = False
    verbose: bool = False
    save: Path | None = None
    html: Path | None = None

    def check(self) -> None:
        """Raises `Failure` when a file cannot be written: better before a long measurement than after it."""
        for file in (self.save, self.html):
            if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
                raise Failure(f"{file} cannot be written: no such folder, or a folder itself")

    def give(self, report: Report) -> None:
        """Raises OSError when a file cannot be written, after what goes to stdout is there."""
        if self.as_json:
            print_json(results.as_json(report))
        else:
            print_report(report, verbose=self.verbose)
        if self.save is not None:
            save(report, self.save)
        if self.html is not None:
            from localspec.bench.html import page

            self.html.write_text(page(report), encoding="utf-8")
            say(f"the page is {self.html}")


def save(report: Report, file: Path) -> None:
    """Write a report that `bench report` reads. Raises OSError."""
    file.write_text(json.dumps(results.as_json(report), indent=1, allow_nan=False), encoding="utf-8")
    say(f"saved to {file}")


def remember(report: Report) -> None:
    """Keep the speed-ups of greedy auto for the menu, which shows them beside the pair: by category, and their
    geometric mean where it is that of all categories shown."""
    from localspec.bench.builtin import CATEGORIES
    from localspec.bench.summary import MEAN
    from localspec.models import catalog, measured

    mode = next((one for one in report.modes if one.name == "auto"), None)
    if mode is None or report.pair not in catalog.load().pairs:
        return
    found = {row.category: round(row.wall.value, 3) for row in mode.categories if row.wall.value is not None}
    if not found:
        return
    # A few requests of a person's own replace their categories; the mean of these few is not that of the others.
    others = measured.read().get(report.pair, {}).keys() & {*CATEGORIES} - found.keys()
    if report.complete and not others and mode.mean.wall.value is not None:
        found[MEAN] = round(mode.mean.wall.value, 3)
    try:
        measured.remember(report.pair, found, forget={MEAN})
    except OSError as error:
        say(f"the speed-ups could not be kept for the menu: {error.strerror or error}")
