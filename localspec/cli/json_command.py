"""A command with `--json`: what goes wrong is told as a line on stdout too, before it is told on stderr."""

from typing import Any

import click

from localspec.cli import jsonlines
from localspec.cli.errors import reason_of, title_of


class JsonCommand(click.Command):
    """Wrong options and failures alike end with an `error` line when `--json` was given."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        as_json = "--json" in args
        try:
            return super().make_context(info_name, args, *more, **extra)
        except click.ClickException as error:
            _tell(error, as_json)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except Exception as error:
            _tell(error, ctx.params["as_json"])
            raise


def _tell(error: Exception, as_json: bool) -> None:
    if as_json:
        reason = reason_of(error)
        message = f"{type(error).__name__}: {error}" if reason is None else reason
        jsonlines.emit(jsonlines.error(title_of(error), message))
