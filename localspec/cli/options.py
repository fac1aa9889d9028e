"""The options that the answering commands share. One that is not given is None: the settings hold (`cli.settings`).

A value of the wrong form is wrong usage (exit code 2); a number out of its range is a bad value (exit code 1).
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from localspec.chat.settings import AUTO, BY_NAME, Settings
from localspec.cli.errors import Failure
from localspec.engine import gbnf, ranges, schema
from localspec.engine.errors import EngineError
from localspec.engine.requests import MAX_DRAFT_LENGTH

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULTS = Settings()
SPECULATE = BY_NAME["speculate"].choices
VERIFY = BY_NAME["verify"].choices
KV_TYPES = BY_NAME["kv_type"].choices


class Number(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """A number within a range, the ends included unless `above`; the word `auto` when that is allowed."""

    def __init__(
        self,
        kind: type[int] | type[float],
        low: float = -math.inf,
        high: float = math.inf,
        *,
        above: bool = False,
        auto: bool = False,
    ) -> None:
        self.kind, self.low, self.high, self.above, self.auto = kind, low, high, above, auto
        self.name = "n|auto" if auto else "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float | str:
        if self.auto and value == AUTO:
            return AUTO
        try:
            number = self.kind(value)
        except (ValueError, OverflowError):
            whole = "whole number" if self.kind is int else "number"
            self.fail(f"{value!r} is not a {whole}" + (" or auto" if self.auto else ""), param, ctx)
        try:
            ranges.in_range(param.opts[0] if param else "the value", number, self.low, self.high, above=self.above)
        except ValueError as error:
            raise Failure(str(error)) from None
        return number


def _stack(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


model_options = _stack(
    click.option("--pair", metavar="NAME", help="Target and draft from the menu (`localspec models list`)."),
    click.option("--target", metavar="FILE|OWNER/REPO[:QUANT]", help="A model of your own as target."),
    click.option("--draft", metavar="FILE|OWNER/REPO[:QUANT]", help="A small model of the same family as draft."),
    click.option(
        "--speculate",
        type=click.Choice(SPECULATE),
        help="Which drafter: auto, none, text that repeats, the draft model, the model's own MTP heads, or a "
        "draft of its own layers.  [default: auto]",
    ),
    click.option(
        "--draft-length",
        type=Number(int, 1, MAX_DRAFT_LENGTH),
        help="Tokens to propose every cycle, fixed.  [default: automatic]",
    ),
    click.option(
        "--ctx",
        type=Number(int, 1, auto=True),
        metavar="N|auto",
        help="Context in tokens.  [default: auto]",
    ),
    click.option(
        "--threads", type=Number(int, 1, 1024, auto=True), metavar="N|auto", help="Processor threads.  [default: auto]"
    ),
    click.option(
        "--gpu-layers",
        type=Number(int, 0, auto=True),
        metavar="N|auto",
        help="Layers of the target on the GPU.  [default: auto]",
    ),
    click.option(
        "--draft-gpu-layers",
        type=Number(int, 0, auto=True),
        metavar="N|auto",
        help="Layers of the draft on the GPU.  [default: auto]",
    ),
    click.option("--kv-type", type=click.Choice(KV_TYPES), help="KV cache numbers.  [default: f16]"),
    click.option(
        "--flash-attn",
        type=click.Choice(("auto", "on", "off")),
        help="auto: what is faster here.  [default: auto]",
    ),
    click.option("--offline", is_flag=True, help="Never use the network (answering needs none)."),
)

shared_option = click.option(
    "--no-server",
    is_flag=True,
    help="Load the model here, also when `localspec serve` or the app has it loaded.",
)
"""For the commands that take a running engine (`session.engine`)."""

sampling_options = _stack(
    click.option(
        "--temp",
        type=Number(float, 0.0),
        help=f"Temperature; 0 takes the most likely token.  [default: {DEFAULTS.temperature:g}]",
    ),
    click.option("--top-k", type=Number(int, 0), help=f"0: off.  [default: {DEFAULTS.top_k}]"),
    click.option("--top-p", type=Number(float, 0, 1), help=f"1: off.  [default: {DEFAULTS.top_p:g}]"),
    click.option("--min-p", type=Number(float, 0, 1), help=f"0: off.  [default: {DEFAULTS.min_p:g}]"),
    click.option(
        "--repeat-penalty",
        type=Number(float, 0.0, above=True),
        help=f"1: off.  [default: {DEFAULTS.repeat_penalty:g}]",
    ),
    click.option("--frequency-penalty", type=Number(float), help=f"[default: {DEFAULTS.frequency_penalty:g}]"),
    click.option("--presence-penalty", type=Number(float), help=f"[default: {DEFAULTS.presence_penalty:g}]"),
    click.option("--seed", type=Number(int, 0, 2**64 - 1), help="The same text again for the same request."),
    click.option(
        "--verify",
        type=click.Choice(VERIFY),
        help="The rule that judges drafts; all are exact.  [default: coupled with a seed, else the fastest]",
    ),
)

think_option = click.option(
    "--think", type=click.Choice(("auto", "on", "off")), help="Thinking, where the model can.  [auto]"
)


def color_option(text: str) -> Callable[[Command], Command]:
    """`--color`, with what it colours."""
    return click.option("--color", type=click.Choice(("auto", "always", "never", "marks")), help=text)


provenance_color = color_option("Provenance by colour, or by brackets.  [default: auto]")

bound_options = _stack(
    click.option(
        "--json-schema",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The answer is JSON that fits the schema in this file.",
    ),
    click.option(
        "--grammar",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The answer is a text of the grammar (GBNF) in this file.",
    ),
)


def bound(values: dict[str, Any]) -> dict[str, str]:
    """What bounds the answer's text, as fields of the engine's request; empty when nothing does.

    Raises `Failure` or `EngineError` for a file that cannot be read or used: before any model is loaded.
    """
    given = {name: values[name] for name in ("json_schema", "grammar") if values[name] is not None}
    if len(given) > 1:
        raise click.UsageError("--json-schema and --grammar both bound the answer: give one of them")
    if given and values["think"] == "on":
        raise click.UsageError("--think on has no place here: --json-schema and --grammar bound all that is said")
    texts = {}
    for name, path in given.items():
        option = f"--{name.replace('_', '-')}"
        try:
            texts[name] = path.read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise Failure(f"{option} {path} is not UTF-8 text") from None
        try:
            if name == "grammar":
                gbnf.check(texts[name])
            else:
                schema.prepare(texts[name])
        except EngineError as error:
            raise Failure(f"{option} {path}: {error}") from None
    return texts


def left_to_the_program(settings: Settings) -> set[str]:
    """Names of the settings that nobody chose, for the start line."""
    chosen = {name for name in ("context", "threads", "gpu_layers") if getattr(settings, name) is None}
    return chosen | ({"flash_attn"} if settings.flash_attn == "auto" else set())
