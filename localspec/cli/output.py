"""Tables and progress for people, JSON for scripts. Text from outside is never read as markup."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Literal

from localspec.cli.terminal import visible

PIPE_WIDTH = 200
"""Columns for a table that goes into a file or another program: nothing is cut to a screen nobody looks at."""


def print_json(value: Any) -> None:
    """One JSON value on stdout. ASCII only, so no console's encoding gets in the way."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, allow_nan=False, default=str) + "\n")
    sys.stdout.flush()


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> None:
    """A table on stdout; the columns named in `right` are aligned to the right, those in `whole` never broken."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(Text(heading), justify=justify, overflow="fold", no_wrap=heading in whole)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    console.print(table)


def progress_bars() -> Any:
    """Bars on stderr with bytes, rate and time left; where no person looks, nothing is drawn."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.table import Column

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        BarColumn(bar_width=12),
        DownloadColumn(table_column=Column(no_wrap=True)),
        TransferSpeedColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    return Progress(*columns, console=console, transient=True, expand=True, disable=not console.is_terminal)
