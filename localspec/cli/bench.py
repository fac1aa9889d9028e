"""`localspec bench`: paired measurements on this machine. Its sub-commands are imported when they are called."""

import importlib
from typing import Any

import click

COMMANDS = {
    "saturation": (
        "localspec.cli.bench_saturation:saturation",
        "Several sequences in a pass: where drafts stop paying.",
    ),
    "figures": (
        "localspec.cli.bench_figures:figures_command",
        "What localspec promises: overhead, edits, memory.",
    ),
}
"""Sub-commands by name: where each is, and its help in the list."""


class Lazy(click.Group):
    """A group that loads only the sub-command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Lazy)
def bench(**_: Any) -> None:
    """Measure on this machine, plain decoding and speculation side by side."""
