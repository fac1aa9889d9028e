"""Groups of commands that are imported when they are called: help answers at once."""

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import click


class LazyGroup(click.Group):
    """A group that knows its commands by name and help (`places`), and loads only the one that is called."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Of each command, in the order of the list: `module:attribute`, and its line of help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.places:
            return None
        module, _, attribute = self.places[name][0].partition(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.places.items()])
