"""The options that `run` and `demo` share, and what they become: an engine's configuration and sampler settings.

A value of the wrong form is wrong usage (exit code 2); a number out of its range is a bad value (exit code 1).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from localspec.cli.errors import Failure
from localspec.engine.requests import MAX_DRAFT_LENGTH, EngineConfig, SamplerSettings

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULTS = SamplerSettings()
SPECULATE = ("auto", "off", "lookup", "draft")
KV_TYPES = ("f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "bf16", "f32")


class Number(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """A number within a range, the ends included unless `above`; `auto` when that is allowed, which gives None."""

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

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float | None:
        if self.auto and value == "auto":
            return None
        try:
            number = self.kind(value)
        except (ValueError, OverflowError):
            whole = "whole number" if self.kind is int else "number"
            self.fail(f"{value!r} is not a {whole}" + (" or auto" if self.auto else ""), param, ctx)
        low_enough = number > self.low if self.above else number >= self.low
        finite = isinstance(number, int) or math.isfinite(number)
        if not (finite and low_enough and number <= self.high):
            name = param.opts[0] if param else "the value"
            raise Failure(f"{name} must be {self._range()}, not {value}")
        return number

    def _range(self) -> str:
        if self.high < math.inf:
            return f"between {self.low:g} and {self.high:g}"
        if self.low > -math.inf:
            return f"above {self.low:g}" if self.above else f"{self.low:g} or more"
        return "a finite number"


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
        help="Which drafter: auto, none, text that repeats, or the draft model.  [default: auto]",
    ),
    click.option(
        "--draft-length",
        type=Number(int, 0, MAX_DRAFT_LENGTH),
        help="Tokens to propose every cycle, fixed.  [default: automatic]",
    ),
    click.option(
        "--ctx",
        type=Number(int, 1, auto=True),
        metavar="N|auto",
        default="auto",
        help="Context in tokens.  [default: auto]",
    ),
    click.option(
        "--threads", type=Number(int, 1, 1024, auto=True), metavar="N|auto", default="auto", help="[default: auto]"
    ),
    click.option(
        "--gpu-layers",
        type=Number(int, 0, auto=True),
        metavar="N|auto",
        default="auto",
        help="Layers of the target on the GPU.  [default: auto]",
    ),
    click.option(
        "--draft-gpu-layers",
        type=Number(int, 0, auto=True),
        metavar="N|auto",
        default="auto",
        help="Layers of the draft on the GPU.  [default: auto]",
    ),
    click.option("--kv-type", type=click.Choice(KV_TYPES), default="f16", show_default=True, help="KV cache numbers."),
    click.option(
        "--flash-attn",
        type=click.Choice(("auto", "on", "off")),
        default="auto",
        show_default=True,
        help="auto: what is faster here.",
    ),
    click.option("--offline", is_flag=True, help="Never use the network (answering needs none)."),
)

sampling_options = _stack(
    click.option(
        "--temp",
        type=Number(float, 0),
        default=DEFAULTS.temperature,
        show_default=True,
        help="Temperature; 0 takes the most likely token.",
    ),
    click.option("--top-k", type=Number(int, 0), default=DEFAULTS.top_k, show_default=True, help="0: off."),
    click.option("--top-p", type=Number(float, 0, 1), default=DEFAULTS.top_p, show_default=True, help="1: off."),
    click.option("--min-p", type=Number(float, 0, 1), default=DEFAULTS.min_p, show_default=True, help="0: off."),
    click.option(
        "--repeat-penalty",
        type=Number(float, 0, above=True),
        default=DEFAULTS.repeat_penalty,
        show_default=True,
        help="1: off.",
    ),
    click.option("--frequency-penalty", type=Number(float), default=DEFAULTS.frequency_penalty, show_default=True),
    click.option("--presence-penalty", type=Number(float), default=DEFAULTS.presence_penalty, show_default=True),
    click.option("--seed", type=Number(int, 0, 2**64 - 1), help="Seed of the random draws."),
)


def engine_config(target: str, draft: str | None, options: dict[str, Any], cache_dir: str) -> EngineConfig:
    """The engine's configuration from the values of `model_options`."""
    config = EngineConfig(
        target=target,
        draft=draft,
        context=options["ctx"],
        threads=options["threads"],
        gpu_layers=options["gpu_layers"],
        draft_gpu_layers=options["draft_gpu_layers"],
        kv_type=options["kv_type"],
        flash_attn=options["flash_attn"],
        cache_dir=cache_dir,
    )
    return replace(config, max_draft_length=max(config.max_draft_length, options["draft_length"] or 0))


def left_to_the_program(options: dict[str, Any]) -> set[str]:
    """Names of the settings that were not given, for the start line."""
    names = {"context": "ctx", "threads": "threads", "gpu_layers": "gpu_layers"}
    chosen = {name for name, option in names.items() if options[option] is None}
    return chosen | ({"flash_attn"} if options["flash_attn"] == "auto" else set())


def sampler_settings(options: dict[str, Any]) -> SamplerSettings:
    """The sampler settings from the values of `sampling_options`."""
    return SamplerSettings(
        temperature=options["temp"],
        top_k=options["top_k"],
        top_p=options["top_p"],
        min_p=options["min_p"],
        repeat_penalty=options["repeat_penalty"],
        frequency_penalty=options["frequency_penalty"],
        presence_penalty=options["presence_penalty"],
    )
