"""What a comparison of the rules asks for, and what it finds: values that travel between the engine and its client."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from localspec.engine.requests import SamplerSettings, Segment, Verify


@dataclass(frozen=True, slots=True)
class RuleJob:
    """Compare the rules on one text: `text_tokens` of it are sampled from the target, and from every `stride`-th of
    them on the draft model drafts up to `longest` tokens. `timed`: what the rules cost on the host is measured too."""

    prompt: tuple[Segment, ...]
    sampling: SamplerSettings
    text_tokens: int
    stride: int
    longest: int
    seed: int
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the text, `context` tokens behind it, and the draft that was drawn there, of `drawn` tokens.

    `kept[rule][n - 1]` is the expected accepted tokens of drafts of n tokens here, up to `drawn` (`rule_rates.py`). Of
    the first token alone: `minima` the sum of min(target, draft), `agreement` how often both draw the same with the
    same noise, `argmax` the target's probability of the draft's likeliest token.
    """

    context: int
    drawn: int
    kept: Mapping[Verify, tuple[float, ...]]
    minima: float
    agreement: float
    argmax: float


@dataclass(frozen=True, slots=True)
class RowCost:
    """Milliseconds a drafted token takes on the host: making the laws of target and draft (`laws`), and drawing and
    judging on top of that, by rule. `vocab` is the vocabulary's size, `filters` which filters are on."""

    vocab: int
    filters: str
    laws: float
    rules: Mapping[Verify, float]


@dataclass(frozen=True, slots=True)
class RuleRates:
    """What was found on one text; not `complete`: it was cancelled, and this is what it had."""

    complete: bool
    places: tuple[Place, ...] = ()
    costs: tuple[RowCost, ...] = field(default=())
