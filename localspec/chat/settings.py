"""What a person can set, as one typed value, and what each setting means and accepts.

`Settings` is what holds for an answer: the defaults, then what is set for all pairs, then what is set for one pair (see
`config`). It becomes the engine's own types here and nowhere else.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from localspec.chat.thinking import Think
from localspec.engine import ranges
from localspec.engine.requests import (
    MAX_DRAFT_LENGTH,
    EngineConfig,
    FlashAttention,
    KvType,
    Request,
    SamplerSettings,
    Segment,
    Speculate,
    Verify,
)

Value = str | int | float | bool | None
"""Of one setting; None: left to the program."""

Color = Literal["auto", "always", "never", "marks"]

AUTO = "auto"
"""What a person writes for None, unless a setting has another word."""

DEFAULT_THEME = "localspec-dark"

_SAMPLING = SamplerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for an answer. None: chosen for this machine, this pair or this answer.

    `context`, `max_tokens` and `draft_length` are in tokens, `kv_disk_gb` in gigabytes of saved conversation caches.
    `speculate` None is what the menu suggests for the pair; `pair` None is the starter.
    """

    temperature: float = _SAMPLING.temperature
    top_k: int = _SAMPLING.top_k
    top_p: float = _SAMPLING.top_p
    min_p: float = _SAMPLING.min_p
    repeat_penalty: float = _SAMPLING.repeat_penalty
    frequency_penalty: float = _SAMPLING.frequency_penalty
    presence_penalty: float = _SAMPLING.presence_penalty
    seed: int | None = None
    max_tokens: int | None = None
    speculate: Speculate | None = None
    draft_length: int | None = None
    verify: Verify | None = None
    think: Think = "auto"
    system: str = ""
    context: int | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    draft_gpu_layers: int | None = None
    kv_type: KvType = "f16"
    flash_attn: FlashAttention = "auto"
    draft_copy: bool = True
    pair: str | None = None
    theme: str = DEFAULT_THEME
    color: Color = "auto"
    history: bool = True
    kv_disk_gb: float = 2.0
    share_engine: bool = True

    def with_values(self, values: Mapping[str, Value]) -> "Settings":
        """These settings with `values` (checked ones, by name) put over them."""
        return replace(self, **values)  # type: ignore[arg-type]  # checked against the table below

    def sampling(self) -> SamplerSettings:
        """The part that makes the target's distribution."""
        return SamplerSettings(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repeat_penalty=self.repeat_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
        )

    def engine_config(
        self, target: str, draft: str | None, cache_dir: str | None, *, swa_full: bool = True
    ) -> EngineConfig:
        """What the engine loads: local files `target` and `draft`, under these settings."""
        config = EngineConfig(
            target=target,
            draft=draft,
            context=self.context,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            draft_gpu_layers=self.draft_gpu_layers,
            kv_type=self.kv_type,
            flash_attn=self.flash_attn,
            draft_copy=self.draft_copy,
            seeded=self.seed is not None and self.verify in (None, "coupled"),
            swa_full=swa_full,
            cache_dir=cache_dir,
        )
        return replace(config, max_draft_length=max(config.max_draft_length, self.draft_length or 0))

    def request(
        self,
        prompt: tuple[Segment, ...],
        *,
        suggested: Speculate = "auto",
        keep_control: Sequence[str] = (),
        stop: Sequence[str] = (),
    ) -> Request:
        """One answer to `prompt`; `suggested` is how the pair speculates unless the settings say otherwise."""
        return Request(
            prompt=prompt,
            sampling=self.sampling(),
            speculate=self.speculate or suggested,
            draft_length=self.draft_length,
            verify=self.verify,
            max_tokens=self.max_tokens,
            stop=tuple(stop),
            seed=self.seed,
            keep_control=tuple(keep_control),
        )

    def needs_loading(self, before: "Settings") -> bool:
        """Whether the model has to be loaded again for these settings to hold after `before`."""
        if max(self.draft_length or 0, EngineConfig("").max_draft_length) > max(
            before.draft_length or 0, EngineConfig("").max_draft_length
        ):
            return True
        # What was loaded for another drafter has neither heads nor a draft made of the model's own layers.
        if self.speculate != before.speculate and {self.speculate, before.speculate} & {"mtp", "self"}:
            return True
        return any(
            getattr(self, one.name) != getattr(before, one.name) for one in SETTINGS if one.holds == "after loading"
        )


Group = Literal["Sampling", "Speculation", "Answer", "Model and memory", "Program"]
Kind = Literal["number", "whole", "choice", "text", "flag"]
Holds = Literal["next answer", "after loading", "at once"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its title, one line that explains it, what it accepts, and from when a change holds.

    `low` and `high` bound numbers (`above`: `low` itself is refused); `auto` says what None means, "" when None is not
    allowed, and `word` is how it is written; `per_pair`: a pair may have a value of its own.
    """

    name: str
    group: Group
    title: str
    line: str
    kind: Kind
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    auto: str = ""
    word: str = AUTO
    holds: Holds = "next answer"
    per_pair: bool = True

    @property
    def default(self) -> Value:
        """What holds when nothing is set."""
        value: Value = _DEFAULTS[self.name]
        return value

    def parse(self, text: str) -> Value:
        """The value a person wrote; raises ValueError with the reason."""
        text = text if self.kind == "text" and not self.auto else text.strip()
        if self.auto and text in ("", self.word):
            return None
        value: Value = text
        if self.kind in ("number", "whole"):
            value = _number(self, text)
        elif self.kind == "flag":
            value = _FLAGS.get(text.lower(), text)
        return self.check(value)

    def check(self, value: object) -> Value:
        """`value` (out of a TOML file, or parsed) as the setting keeps it; raises ValueError with the reason."""
        if self.auto and value == self.word:
            return None
        match self.kind:
            case "flag":
                if isinstance(value, bool):
                    return value
                raise ValueError(f"{self.name} must be true or false, not {_shown(value)}")
            case "choice":
                if isinstance(value, str) and value in self.choices:
                    return value
                raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}, not {_shown(value)}")
            case "text":
                if isinstance(value, str):
                    return value
                raise ValueError(f"{self.name} must be a text, not {_shown(value)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self.name} must be {_KINDS[self.kind]}, not {_shown(value)}")
        if self.kind == "whole" and isinstance(value, float):
            if not value.is_integer():
                raise ValueError(f"{self.name} must be a whole number, not {value:g}")
            value = int(value)
        if self.name in _SAMPLER_NAMES:
            ranges.validate(replace(_SAMPLING, **{self.name: value}), 0)  # type: ignore[arg-type]  # numbers alone
        else:
            ranges.in_range(self.name, value, self.low, self.high, above=self.above)
        return float(value) if self.kind == "number" else value

    def write(self, value: Value) -> str:
        """The value as a person would write it: what `parse` reads."""
        if value is None:
            return self.word
        if isinstance(value, bool):
            return "on" if value else "off"
        return f"{value:g}" if isinstance(value, float) else str(value)


_FLAGS: dict[str, bool] = {
    "on": True, "yes": True, "true": True, "1": True, "off": False, "no": False, "false": False, "0": False,
}  # fmt: skip
_KINDS = {"number": "a number", "whole": "a whole number"}
_SAMPLER_NAMES = {field.name for field in fields(SamplerSettings)}
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Settings)}


def _number(setting: Setting, text: str) -> float | int:
    try:
        return int(text) if setting.kind == "whole" else float(text)
    except ValueError:
        wanted = _KINDS[setting.kind] + (f" or {setting.word}" if setting.auto else "")
        raise ValueError(f"{setting.name} must be {wanted}, not {_shown(text)}") from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


SETTINGS: tuple[Setting, ...] = (
    Setting("temperature", "Sampling", "Temperature", "0 always takes the most likely token; higher is more varied.",
            "number", low=0),
    Setting("top_k", "Sampling", "Top-k", "Only the k most likely tokens can be drawn; 0 is off.", "whole", low=0),
    Setting("top_p", "Sampling", "Top-p", "Only the likeliest tokens that together reach this share; 1 is off.",
            "number", low=0, high=1),
    Setting("min_p", "Sampling", "Min-p", "Drops tokens below this share of the likeliest one; 0 is off.",
            "number", low=0, high=1),
    Setting("repeat_penalty", "Sampling", "Repeat penalty", "Above 1 makes recent tokens less likely; 1 is off.",
            "number", low=0, above=True),
    Setting("frequency_penalty", "Sampling", "Frequency penalty", "Weighs down a token each time it came; 0 is off.",
            "number"),
    Setting("presence_penalty", "Sampling", "Presence penalty", "Weighs down every token that came before; 0 is off.",
            "number"),
    Setting("seed", "Sampling", "Seed", "A number gives the same text again for the same request.",
            "whole", low=0, high=2**64 - 1, auto="new for each answer"),
    Setting("speculate", "Speculation", "Drafter",
            "Who guesses ahead: repeating text (lookup), a draft, own heads, or all.",
            "choice", get_args(Speculate), auto="as the menu says", word="suggested"),
    Setting("draft_length", "Speculation", "Draft length", "Tokens guessed in each cycle; auto follows what pays here.",
            "whole", low=1, high=MAX_DRAFT_LENGTH, auto="adapts"),
    Setting("verify", "Speculation", "Verification", "The rule by which guesses are kept or replaced; all are exact.",
            "choice", get_args(Verify), auto="coupled with a seed, else the fastest"),
    Setting("max_tokens", "Answer", "Longest answer", "In tokens; auto goes on until the text ends by itself.",
            "whole", low=1, auto="until it ends"),
    Setting("think", "Answer", "Thinking", "Whether a model that can think does so before it answers.",
            "choice", get_args(Think)),
    Setting("system", "Answer", "System prompt", "Said to the model before every conversation.", "text"),
    Setting("context", "Model and memory", "Context", "Tokens the model can look back on; more takes more memory.",
            "whole", low=1, auto="what fits here", holds="after loading"),
    Setting("threads", "Model and memory", "Threads", "Processor threads used for decoding.",
            "whole", low=1, high=1024, auto="physical cores", holds="after loading"),
    Setting("gpu_layers", "Model and memory", "GPU layers", "Layers of the target kept on the GPU; 0 uses the CPU.",
            "whole", low=0, auto="as many as fit", holds="after loading"),
    Setting("draft_gpu_layers", "Model and memory", "Draft GPU layers", "Layers of the draft kept on the GPU.",
            "whole", low=0, auto="as many as fit", holds="after loading"),
    Setting("kv_type", "Model and memory", "KV type", "How cached context is stored: q8_0 takes half of f16.",
            "choice", ("f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "bf16", "f32"), holds="after loading"),
    Setting("flash_attn", "Model and memory", "Flash attention", "A faster way on GPUs, a slower one on most CPUs.",
            "choice", get_args(FlashAttention), holds="after loading"),
    Setting("draft_copy", "Model and memory", "Faster draft", "A copy of the draft in the format that is fastest here.",
            "flag", holds="after loading"),
    Setting("pair", "Program", "Pair", "The pair that answers when nothing else is chosen.",
            "text", auto="the starter", per_pair=False),
    Setting("theme", "Program", "Theme", "The colours of the app.", "text", holds="at once", per_pair=False),
    Setting("color", "Program", "Colour of `run`", "How `localspec run` shows provenance: by colour, marks or not.",
            "choice", get_args(Color), per_pair=False),
    Setting("history", "Program", "History", "Whether chats are kept on this disk.", "flag", per_pair=False),
    Setting("kv_disk_gb", "Program", "Saved caches", "Gigabytes of disk for taking up old chats without reading again.",
            "number", low=0, per_pair=False),
    Setting("share_engine", "Program", "Share the engine",
            "Let commands in other terminals use this engine while the app is open.",
            "flag", holds="at once", per_pair=False),
)  # fmt: skip
"""Every setting, in the order of the screen."""

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
