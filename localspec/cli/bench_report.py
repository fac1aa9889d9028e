"""`localspec bench report`: a saved report, shown again."""

import json
from pathlib import Path

import click

from localspec.bench import results
from localspec.bench.results import Report, ReportError
from localspec.cli import bench_common as common
from localspec.cli import bench_output
from localspec.cli.errors import Failure


@click.command("report")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with plots.")
@click.option("--verbose", is_flag=True, help="A row a prompt too.")
@common.json_option
def report_command(file: Path, html: Path | None, verbose: bool, as_json: bool) -> None:
    """Show a report that `localspec bench --save FILE` wrote, or make a page of it. Measures nothing."""
    output = bench_output.Output(as_json, verbose, None, html)
    output.check()
    output.give(read(file))


def read(file: Path) -> Report:
    """Raises `Failure`."""
    try:
        return results.from_json(json.loads(file.read_text(encoding="utf-8")))
    except ReportError as error:
        raise Failure(f"{file}: {error}") from None
    except OSError as error:
        raise Failure(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise Failure(f"{file}: not JSON") from None
