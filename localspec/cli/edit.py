"""`localspec edit`: a model changes files as told; the change is shown as a diff and written only when wanted."""

from pathlib import Path
from typing import Any

import click

from localspec.cli import options
from localspec.cli.errors import Failure
from localspec.cli.json_command import JsonCommand
from localspec.cli.options import Number

STDIN = "-"


class _EditCommand(JsonCommand):
    """Called wrongly as a filter, it gives the text back too: the editor has taken it out already."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        given = list(args)
        try:
            return super().make_context(info_name, args, *more, **extra)
        except click.ClickException:
            _give_back(given)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError:
            others = [name for name, key in (("--diff", "only_diff"), ("--json", "as_json")) if ctx.params[key]]
            _give_back([*ctx.params["arguments"], *others])
            raise


def _give_back(given: list[str]) -> None:
    """Does so when the call was that of a filter. Where the reason would stand in the text it is not said."""
    from localspec.cli.edit_filter import give_back
    from localspec.cli.errors import USAGE
    from localspec.cli.terminal import in_vims_filter

    if STDIN in given and not {"--diff", "--json"} & set(given) and give_back() and in_vims_filter():
        raise click.exceptions.Exit(USAGE) from None


@click.command(cls=_EditCommand)
@click.argument("arguments", nargs=-1, metavar="FILE... INSTRUCTION")
@click.option("--lines", metavar="A-B", help="Show and change only these lines of FILE, counted from 1.")
@click.option(
    "--context",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file to know, not to change; may be repeated.",
)
@click.option("--apply", is_flag=True, help="Write without asking.")
@click.option("--diff", "only_diff", is_flag=True, help="Only print the diff.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the new text instead of a diff; write nothing.")
@click.option("--undo", is_flag=True, help="Bring back what the last edit (of FILE...) replaced.")
@click.option("--force", is_flag=True, help="With --undo: also when the file was changed since.")
@click.option("--max-tokens", type=Number(int, 1), help="Longest answer.  [default: enough for the text]")
@options.think_option
@options.color_option("Provenance and diff by colour, or provenance by brackets.  [default: auto]")
@click.option("--json", "as_json", is_flag=True, help="One event a line, as JSON, with an edit line for each file.")
@options.model_options
@options.shared_option
@options.sampling_options
def edit(arguments: tuple[str, ...], **values: Any) -> int:
    """Change FILE (or several) as INSTRUCTION says, and show the change as a unified diff.

    \b
        localspec edit app.py "Add type hints"
        localspec edit app.py "Handle an empty list" --lines 40-62
        localspec edit a.py b.py "Rename load to read" --apply
        localspec edit --undo

    A file that is larger than the context is changed in parts, each by itself. On a terminal it asks before it writes.
    The temperature is 0 unless --temp says otherwise. With - for FILE the text comes from stdin and the new one goes to
    stdout, as editors want a filter (in Vim, `:%!localspec edit - "Add docstrings"`); when nothing comes of it, the
    text goes out as it came.
    """
    from localspec.assist.edit_file import CannotEdit
    from localspec.chat.attach import CannotAttach

    try:
        return _edit(arguments, values)
    except (CannotEdit, CannotAttach) as error:
        raise Failure(str(error)) from None


def _edit(arguments: tuple[str, ...], values: dict[str, Any]) -> int:
    from localspec.cli import edit_files, edit_filter, edit_undo

    _refuse_contradictions(values)
    if values["undo"]:
        return edit_undo.undo([Path(argument) for argument in arguments], values)
    if len(arguments) < 2:
        raise click.UsageError('name what to change, and say how: localspec edit FILE "your instruction"')
    *names, instruction = arguments
    if not instruction.strip():
        raise click.UsageError("the instruction is empty")
    if values["lines"] is not None and len(names) > 1:
        raise click.UsageError("--lines belongs to one file")
    if STDIN not in names:
        return edit_files.edit([Path(name) for name in names], instruction, values)
    if len(names) > 1:
        raise click.UsageError("- is edited alone")
    if values["apply"]:
        raise click.UsageError("--apply needs a file to write, not a piped text")
    return edit_filter.edit(instruction, values)


def _refuse_contradictions(values: dict[str, Any]) -> None:
    ways = {"--apply": "apply", "--diff": "only_diff", "--stdout": "to_stdout", "--undo": "undo"}
    given = [option for option, name in ways.items() if values[name]]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other")
    if values["force"] and not values["undo"]:
        raise click.UsageError("--force belongs to --undo")
    if values["undo"] and values["lines"] is not None:
        raise click.UsageError("--lines and --undo exclude each other")
