"""How a command fails: one line on stderr, and an exit code scripts can rely on."""

from typing import Any

import click

from localspec.cli.terminal import one_line

FAILED, USAGE, INTERRUPTED = 1, 2, 130


class Failure(click.ClickException):
    """A failure with its reason and, where there is one, the next step, in one line."""

    exit_code = FAILED


def reason_of(error: BaseException) -> str | None:
    """One line for an error that a person can act on; None for a fault of the program."""
    from localspec.chat.errors import HistoryError, TemplateError
    from localspec.engine.errors import EngineError
    from localspec.models.errors import ModelError

    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if isinstance(error, EngineError | ModelError | TemplateError | HistoryError):
        return one_line(str(error))
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return one_line(f"{place}{error.strerror or error}")
    return None


def title_of(error: BaseException) -> str:
    """What kind of thing went wrong, for the `--json` error line."""
    from localspec.chat.errors import HistoryError, TemplateError
    from localspec.engine.errors import EngineError
    from localspec.models.errors import ModelError

    titles: tuple[tuple[Any, str], ...] = (
        (click.UsageError, "Wrong usage"),
        (Failure, "Cannot answer"),
        (ModelError, "Model file"),
        (TemplateError, "Chat template"),
        (HistoryError, "History"),
        (EngineError, "Engine"),
        (OSError, "System"),
    )
    return next((title for kind, title in titles if isinstance(error, kind)), "Internal error")
