"""The `localspec` command. Sub-commands are imported when they are called: help answers at once."""

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from localspec import __version__, paths
from localspec.cli.errors import FAILED, INTERRUPTED, USAGE, Failure, reason_of
from localspec.cli.lazy import LazyGroup
from localspec.cli.terminal import complain, is_terminal, one_line, takes_escapes, write_quietly

COMMANDS = {
    "run": ("localspec.cli.run:run", "Answer one prompt on stdout; piped text is read as input."),
    "edit": ("localspec.cli.edit:edit", "Change files as told; shows a diff, writes only when wanted."),
    "complete": ("localspec.cli.complete:complete", "Fill in what is missing at a place in a file."),
    "serve": ("localspec.cli.serve:serve", "Serve the model to editors, as an OpenAI-compatible endpoint."),
    "chats": ("localspec.cli.chats:group", "List, search, show and export the chats that were kept."),
    "demo": ("localspec.cli.demo:demo", "Decode one code edit plainly and speculatively, and compare."),
    "bench": ("localspec.cli.bench:bench", "Measure plain decoding and speculation side by side."),
    "calibrate": ("localspec.cli.calibrate:calibrate", "Measure what passes cost here, and what that means."),
    "verify": ("localspec.cli.verify:verify", "Prove on this machine that drafting changes nothing."),
    "models": ("localspec.cli.models:group", "List, fetch, check and find model files."),
    "doctor": ("localspec.cli.doctor:doctor", "Check what this installation needs."),
    "config": ("localspec.cli.config:config", "Show or change settings, and where everything lies."),
}


class Interrupted(Exception):
    """Ctrl+C, past click: its own handling would print an empty line where no terminal echoes ^C."""


class Commands(LazyGroup):
    """All commands; an interrupt comes through them as one of ours."""

    places = COMMANDS

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


@click.command(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="localspec %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Chat and edit code with a language model on this machine, faster by speculative decoding, every token coloured by
    where it came from.

    Without a command it opens the app. Scripts use `localspec run "your question"`.
    """
    if ctx.invoked_subcommand is None:
        _app()


def _app() -> None:
    # Textual draws on stderr.
    if not (is_terminal(sys.stdin) and takes_escapes(sys.stdout) and is_terminal(sys.stderr)):
        raise Failure(
            'the app needs a terminal: in scripts use `localspec run "your question"`; see `localspec --help`'
        )
    from localspec.tui.app import run_app

    run_app()


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line and exits with its code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A console that cannot show a character gets a stand-in for it, not an exception.
            stream.reconfigure(errors="replace")
    code = _run(arguments)
    _last_flush()
    sys.exit(code)


def _open_missing_streams() -> None:
    """A standard stream that was closed before the start becomes the null device: the next file opened would get its
    number, and be read or written as if it were that stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 (for as long as the process)


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = cli.main(args=arguments, prog_name="localspec", standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "localspec"
        complain(f"{error.format_message()} (see `{command} --help`)")
        return USAGE
    except (Interrupted, KeyboardInterrupt, click.Abort):
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return FAILED
    except Exception as error:
        complain(reason_of(error) or _fault(error))
        return FAILED
    return result if isinstance(result, int) else 0


def _fault(error: Exception) -> str:
    """A fault of the program: one line for the person, the trace in a file."""
    what = f"internal error: {type(error).__name__}: {one_line(str(error))}"
    file = paths.state_dir() / "crash.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(traceback.format_exc(), encoding="utf-8")
    except OSError:
        write_quietly(sys.stderr, traceback.format_exc())
        return what
    return f"{what} (trace in {file})"


def _last_flush() -> None:
    """Python flushes stdout once more at exit and complains when its reader is gone; here that is no news."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
