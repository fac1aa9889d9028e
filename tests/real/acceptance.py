"""At temperature 1, what sampling from the draft and keeping with min(1, ratio) accepts, against the argmax rule.

`python -m tests.real.acceptance` prints the table for the starter pair. Texts are sampled from the target; both models
are then fed the same text, so that every position has a target and a draft distribution. At a position the sampled
draft token stands with probability sum(min(target, draft)) (Leviathan et al. 2023, theorem 3.5); a draft's argmax kept
when the target's own draw equals it stands with the target's probability of it.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from localspec.bench import rules
from localspec.engine.context import Context
from localspec.engine.engine import Engine
from localspec.engine.events import Cycle, Token
from localspec.engine.requests import Request, SamplerSettings, Segment

SAMPLED = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)

TEXTS = {task.id: task.prompt for task in rules.TEXTS}

LENGTH = 96
"""Tokens of each text."""

DRAFT_LENGTH = 4

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rates:
    """Means over the positions of one text: `minima` of sum(min(target, draft)), `argmax` of the target's probability
    of the draft's argmax; `counted` is accepted over judged of a real run, whose positions expected `foreseen`."""

    minima: float
    argmax: float
    counted: float
    foreseen: float
    judged: int

    @property
    def ratio(self) -> float:
        return self.minima / self.argmax


def laws(context: Context, tokens: Sequence[int], start: int) -> Rows:
    """Softmax rows that follow `tokens[: i]` for i from `start` to the end, one a position."""
    context.clear()
    chunk = context.options.outputs
    for at in range(0, start - 1, 256):
        context.decode(tokens[at : min(at + 256, start - 1)], 0)
    rows = []
    for at in range(start - 1, len(tokens), chunk):
        piece = tokens[at : at + chunk]
        rows.append(np.array(context.decode(piece, len(piece)), np.float64))
    logits = np.concatenate(rows)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def measure(engine: Engine, prompt: tuple[Segment, ...], seed: int) -> Rates:
    """One text: sampled from the target, scored by both, and once more decoded with the draft model."""
    target, draft = engine._loaded.target, engine._loaded.draft
    assert draft is not None
    ids = engine._encoder.encode(prompt)
    plain = Request(prompt, SAMPLED, speculate="off", max_tokens=LENGTH, seed=seed)
    text = [event.id for event in engine.generate(plain) if isinstance(event, Token)]
    minima, argmax = _scores(target, draft, ids, text)
    drafted = Request(prompt, SAMPLED, speculate="draft", draft_length=DRAFT_LENGTH, max_tokens=LENGTH, seed=seed + 1)
    events = list(engine.generate(drafted))
    cycles = [event for event in events if isinstance(event, Cycle)]
    said = [event.id for event in events if isinstance(event, Token)]
    expected, _ = _scores(target, draft, ids, said)
    judged, at = [], 1
    for cycle in cycles:
        judged += list(range(at, at + cycle.judged))
        at += cycle.emitted
    return Rates(
        float(minima.mean()),
        float(argmax.mean()),
        sum(cycle.accepted for cycle in cycles) / len(judged),
        fmean(float(expected[place]) for place in judged),
        len(judged),
    )


def _scores(target: Context, draft: Context, ids: Sequence[int], text: Sequence[int]) -> tuple[Rows, Rows]:
    """sum(min) and the target's probability of the draft's argmax, at each token of `text`."""
    tokens = [*ids, *text]
    p, q = laws(target, tokens, len(ids)), laws(draft, tokens, len(ids))
    best = q.argmax(axis=1)
    return np.minimum(p, q[:, : p.shape[1]]).sum(axis=1), p[np.arange(len(p)), best]


def main(ask: Callable[[str], tuple[Segment, ...]], engine: Engine) -> None:
    """Prints the table and the geometric mean of the ratios."""
    ratios = []
    for name, text in TEXTS.items():
        each = measure(engine, ask(text), seed=7)
        ratios.append(each.ratio)
        print(
            f"{name:6} sum of minima {each.minima:.3f}  argmax {each.argmax:.3f}  ratio {each.ratio:.3f}   "
            f"counted {each.counted:.3f} of {each.judged} judged, foreseen {each.foreseen:.3f}"
        )
    print(f"geometric mean of the ratios {exp(fmean(map(log, ratios))):.3f}")


if __name__ == "__main__":
    from localspec.chat.conversation import Conversation
    from localspec.chat.templates import ChatTemplate
    from localspec.engine.requests import EngineConfig
    from localspec.models import store

    pair = store.resolve(sys.argv[1] if len(sys.argv) > 1 else "qwen2.5-coder-1.5b")
    loaded = Engine(EngineConfig(str(pair.target), str(pair.draft), context=2048))
    template = ChatTemplate.of(loaded.info)

    def asked(text: str) -> tuple[Segment, ...]:
        talk = Conversation()
        talk.ask(text)
        return talk.prompt(template)

    main(asked, loaded)
    loaded.close()
