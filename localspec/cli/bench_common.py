"""What the commands below `localspec bench` share: requests to measure, how they become prompts, a progress bar."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from click.core import ParameterSource

from localspec.cli.errors import Failure
from localspec.cli.options import Number

if TYPE_CHECKING:
    from localspec.bench.paired import Prompting
    from localspec.bench.workloads import Task
    from localspec.engine.requests import EngineInfo

workload_option = click.option(
    "--workload", type=click.Path(path_type=Path), metavar="FILE", help="Requests to use, as JSON lines.  [built in]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def repeats_option(default: int) -> Callable[[Any], Any]:
    """`--repeats N`."""
    return click.option(
        "--repeats", type=Number(int, 1, 99), default=default, show_default=True, help="Rounds of every comparison."
    )


def max_tokens_option(default: int) -> Callable[[Any], Any]:
    """`--max-tokens N`: at least 2, the first token comes from the prompt and has no speed."""
    return click.option("--max-tokens", type=Number(int, 2), default=default, show_default=True, help="Longest answer.")


def tasks_of(workload: Path | None) -> "list[Task]":
    """The requests of a file, or the built-in ones. Raises `Failure`."""
    from localspec.bench import builtin, workloads

    if workload is None:
        return list(builtin.TASKS)
    try:
        return workloads.read(workload)
    except workloads.WorkloadError as error:
        raise Failure(str(error)) from None


def prompting_for(info: "EngineInfo") -> "Prompting":
    """Turns to prompt by the model's own template, without thinking: what is compared are answers."""
    from localspec.chat.conversation import Conversation
    from localspec.chat.templates import ChatTemplate
    from localspec.chat.thinking import plan

    thinking = plan(ChatTemplate.of(info), "off")

    def prompting(turns: Sequence[str]) -> Any:
        talk = Conversation()
        for number, text in enumerate(turns):
            (talk.answered if number % 2 else talk.ask)(text)
        return talk.prompt(ChatTemplate.of(info), thinking)

    return prompting


def check_room(tasks: "Sequence[Task]", client: Any, info: "EngineInfo") -> None:
    """Raises `Failure` for a request that leaves no room for an answer: better before a long measurement than in the
    middle of it."""
    prompting = prompting_for(info)
    for task in tasks:
        tokens = client.count(prompting([task.prompt]))
        if tokens + 2 > info.context:
            raise Failure(
                f"the prompt {task.id} has {tokens} tokens, and the context of {info.context} leaves no room for an "
                "answer: leave it out, or give --ctx"
            )


def command_line(ctx: click.Context) -> str:
    """The command with the options that were given, as a person would type it."""
    words = [ctx.command_path]
    for option in ctx.command.params:
        if not option.name or ctx.get_parameter_source(option.name) is not ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[option.name]
        for one in value if getattr(option, "multiple", False) else (value,):
            if isinstance(option, click.Option):
                words.append(option.opts[-1])
            if one is not True:
                words.append(shlex.quote(_value(one)))
    return " ".join(words)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def shown(text: str) -> str:
    """Text from outside on one line, control characters visible."""
    from localspec.cli.terminal import one_line

    return one_line(text)


class Bar:
    """A progress bar on stderr; where no person looks, nothing is drawn."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        self._progress = Progress(
            BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.description}", markup=False), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("", total=None)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, total: int, text: str) -> None:
        self._progress.update(self._task, completed=done, total=total, description=shown(text))

    def part(self, fraction: float, text: str) -> None:
        """As `show`, by the share that is done."""
        self.show(int(1000 * fraction), 1000, text)
