"""Value types that go into the engine: what to load, and what to answer."""

from dataclasses import dataclass, field
from typing import Literal

from localspec.engine.events import ModelDrafterName

Speculate = Literal["auto", "off", "lookup", ModelDrafterName]
"""Who drafts: whoever pays, nobody, or the one that is named."""
FlashAttention = Literal["auto", "on", "off"]
Verify = Literal["rejection", "block", "coupled"]
"""The rules of `verify.py`, `verify_block.py` and `coupled.py`; all keep the target's law exactly."""
KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

MAX_DRAFT_LENGTH = 64
"""The longest draft a person may ask for; wider passes cost more than they can return on every machine measured."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the engine loads, and how. `None` means: choose for this machine.

    Paths are of local files; the engine never downloads. `drafter` says what the file `draft` is, or that the target's
    own heads draft (`mtp`, without a file). `context` is in tokens and holds for target and draft alike.
    `max_draft_length` sizes the verify pass and the rollback window. `cache_dir` keeps verdicts about this model here
    (None: nothing is kept). `extra_bufts` off gives up the repacked kernels (see `client.py`). `draft_copy`: where a
    copy of the draft in another number format is faster, it is made and used (`fast_draft.py`). `seeded`:
    a text is wanted again for its seed, so that passes agree to the bit whatever their width matters more than speed.
    """

    target: str
    draft: str | None = None
    drafter: ModelDrafterName = "draft"
    context: int | None = None
    threads: int | None = None
    gpu_layers: int | None = None
    draft_gpu_layers: int | None = None
    kv_type: KvType = "f16"
    flash_attn: FlashAttention = "auto"
    swa_full: bool = True
    batch: int = 512
    max_draft_length: int = 32
    extra_bufts: bool = True
    draft_copy: bool = True
    seeded: bool = False
    cache_dir: str | None = None


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What was loaded: facts for screens, templates and error messages. Sizes in tokens, bytes where the name says so.

    `rollback` is in words ("unlimited", "the last pass, 32 tokens", "window 512", "none: ..."). `special_tokens` maps
    role ("bos", "eos") to text. `fim_texts` has the spellings of those `fim_tokens` that trusted text can spell.
    `notices` are sentences for the person. `drafter` is the model drafter that was loaded.
    """

    target: str
    draft: str | None
    context: int
    train_context: int
    threads: int
    gpu_layers: int
    draft_gpu_layers: int
    flash_attn: str
    vocab_size: int
    chat_template: str | None
    special_tokens: dict[str, str]
    rollback: str
    has_encoder: bool
    mtp_layers: int
    fim_tokens: dict[str, int]
    library: str
    load_s: float
    notices: tuple[str, ...] = ()
    fim_texts: dict[str, str] = field(default_factory=dict)
    drafter: ModelDrafterName | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of prompt text. Only `trusted` text (a template's own) may spell special tokens; the text of users and
    files never does."""

    text: str
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text that stands in the prompt as it is (an attached file), so that what is copied from it can be named.
    `first_line` is the number of its first line in the file. `rewritten`: the answer is expected to be this text, with
    changes."""

    name: str
    text: str
    first_line: int = 1
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """How the target's distribution is made from its logits; the filters' order is llama.cpp's default chain.

    `temperature` 0 is argmax. `top_k` 0, `top_p` 1 and `min_p` 0 switch those filters off. Penalties look at the last
    `penalty_last_n` tokens of prompt and answer (0: none; -1: all); `repeat_penalty` 1, `frequency_penalty` 0 and
    `presence_penalty` 0 are off. `logit_bias` maps token ids to an addition; -inf forbids.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    logit_bias: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """One answer to make.

    `max_tokens` None means: until the text ends or the context is full. `draft_length` None is automatic; a number is
    used every cycle. `draft_temperature` None is the target's. `verify` None is `coupled` with a seed, else the
    fastest rule (`rules.py`). `keep_control` names control tokens whose spelling is
    kept in the text (thinking markers). `sources` name stretches of the prompt; `predictions` are texts the answer is
    expected to resemble: not part of the prompt, only looked up. `grammar` (GBNF) bounds the text that may come;
    `json_schema` (JSON text) does so as the grammar it is converted to: one of the two at most. `draft_anew`: the draft
    model forgets what it read before, as at the first answer to a prompt.
    """

    prompt: tuple[Segment, ...]
    sampling: SamplerSettings = field(default_factory=SamplerSettings)
    speculate: Speculate = "auto"
    draft_length: int | None = None
    draft_temperature: float | None = None
    verify: Verify | None = "rejection"
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    keep_control: tuple[str, ...] = ()
    sources: tuple[SourceText, ...] = ()
    predictions: tuple[str, ...] = ()
    grammar: str | None = None
    json_schema: str | None = None
    draft_anew: bool = False
