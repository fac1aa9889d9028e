"""Value types that leave the engine while an answer is made.

One answer is: `Started`, any number of `Prefill`, then `Token`s and `Cycle`s, then `Finished`. A `Notice` may come at
any time. All are plain, frozen and picklable: they cross the pipe from the engine's process as they are.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["accepted", "resampled", "bonus", "plain"]
"""Provenance of a token: proposed and kept; the target's replacement at the first rejection; the extra token after a
fully accepted draft; a cycle with nothing drafted."""

ModelDrafterName = Literal["draft", "mtp", "self"]
"""The drafters that run a model: a draft model, the heads in the target's own file, a draft made of the target's own
layers. An engine has one of them at most, and it goes by its name wherever one is asked for, counted or shown."""

MODEL_DRAFTERS: tuple[ModelDrafterName, ...] = get_args(ModelDrafterName)

DrafterName = Literal["lookup", "grammar", "none", ModelDrafterName]

Reason = Literal["end_of_text", "stop", "max_tokens", "context_full", "cancelled"]
"""Why an answer ended."""

Baseline = Literal["measured", "calibrated", "none"]
"""Where the plain decode speed came from: plain cycles of this session, a stored calibration, or nowhere."""


@dataclass(frozen=True, slots=True)
class Started:
    """The request was accepted; `context` and `threads` are the numbers in force. `grammar`: one bounds the text.
    `drafter` is the model drafter at hand, `draft` the file it drafts with, where that is not the target's own."""

    target: str
    draft: str | None
    speculate: str
    verify: str
    reproducible: bool
    context: int
    threads: int
    seed: int
    prompt_tokens: int
    grammar: bool = False
    drafter: ModelDrafterName | None = None


@dataclass(frozen=True, slots=True)
class Prefill:
    """Progress through the prompt: `done` of `total` tokens are in the cache, `reused` of them were there before."""

    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where a copied token stands: the name of a text in the request's `sources` (a file), or `prompt`, `prediction` or
    `answer` for text without one; `line` counts from 1 in that text."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Token:
    """One emitted token.

    `text` is what the token completed: empty while a character or a possible stop string is still open. The texts of an
    answer's tokens joined are the answer. `t` is in seconds since the request began. The first token is `plain`,
    cycle 0. `control` marks a kept control token (a thinking marker), whose text is its spelling. `source` is where
    lookup copied an accepted token from.
    """

    id: int
    text: str
    kind: Kind
    drafter: DrafterName
    cycle: int
    t: float
    control: bool = False
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """One draft and the target pass that judged it, counted after any cut at an end token or stop string.

    `judged` tokens had a verdict (the accepted and the first that does not stand); `emitted` left the cycle, the
    resampled or bonus token included. `match_length` is lookup's, 0 for other drafters; `source` is where its draft was
    copied from.

    `read` is how many tokens the draft model had to read before it could draw, `passes` how many it made, both 0 where
    it was not asked; it may have been asked and have drawn nothing.

    `expected` and `gain` are the estimate the choice was made on: tokens expected to leave the cycle, and the expected
    speed relative to plain decoding. A plain cycle has those of the best draft that was not made; None says that there
    was nothing to choose.
    """

    cycle: int
    drafter: DrafterName
    proposed: int
    proposed_text: str
    judged: int
    accepted: int
    emitted: int
    draft_ms: float
    verify_ms: float
    match_length: int = 0
    expected: float | None = None
    gain: float | None = None
    source: Source | None = None
    read: int = 0
    passes: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of one answer; the field names are those of the `--json` end line.

    Times in seconds unless the name says `ms`. `None` means that nothing stands behind the figure. `tokens` counts all
    emitted tokens; the first comes from prefill and is outside `decode_s`, `tokens_per_s` and the cycles.
    """

    prompt_tokens: int
    prompt_reused: int
    ttft_s: float | None
    tokens: int
    decode_s: float
    tokens_per_s: float | None
    itl_ms_p50: float | None
    itl_ms_p95: float | None
    plain_tokens_per_s: float | None
    baseline: Baseline
    speedup: float | None
    cycles: int
    proposed: int
    judged: int
    accepted: int
    resampled: int
    bonus: int
    plain: int
    acceptance_rate: float | None
    tokens_per_cycle: float | None
    draft_s: float
    verify_s: float
    overhead_s: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete: `text` is the join of the token texts."""

    reason: Reason
    text: str
    stats: Stats


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know (a fallback, drafting switched off), in one plain sentence."""

    text: str


Event = Started | Prefill | Token | Cycle | Finished | Notice
