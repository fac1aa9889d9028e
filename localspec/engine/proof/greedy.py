"""Answers with drafts against the target alone: greedy ones, and seeded ones under the coupled rule."""

from collections.abc import Iterator, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localspec.engine.noise import Noise, gumbel
from localspec.engine.proof.ground import DRAFT_LENGTH, Ground, Said
from localspec.engine.proof.oracle import FLIPPED, GAP, Adjust, Oracle, Score
from localspec.engine.proof.report import Finding, State
from localspec.engine.requests import Segment, Speculate

SEED = 20_250_101

BY_CHANCE = 1e-3
"""How often a right engine on a machine that flips `FLIPPED` of its near ties may be called wrong for flipping more."""


def greedy(ground: Ground) -> Iterator[Finding]:
    """Temperature 0: every token must be the target's argmax after the same text, within rounding (`oracle.py`)."""
    settings = ground.settings(temperature=0.0)
    ground.pace(ground.ask(ground.prompts[0], "off", sampling=settings, max_tokens=ground.length))
    yield from _compared(ground, "greedy", ground.prompts, ground.open_ended, "the target's argmax", sampling=settings)


def seeded(ground: Ground) -> Iterator[Finding]:
    """The coupled rule: with one seed every drafter must give the target's own draws: the text without drafts."""
    settings = ground.settings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    noise, every = Noise(SEED), np.arange(ground.vocab, dtype=np.int32)

    def heard(row: NDArray[np.float32], tokens: Sequence[int]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = ground.open_ended(row) + gumbel(noise.uniforms(every, len(tokens)))
        return scores

    choice = "what the target draws with this seed"
    fields = {"sampling": settings, "seed": SEED, "verify": "coupled"}
    yield from _compared(ground, "seed", ground.prompts[-1:], heard, choice, **fields)


def _compared(
    ground: Ground, check: str, prompts: Sequence[tuple[Segment, ...]], adjust: Adjust, choice: str, **fields: Any
) -> Iterator[Finding]:
    """Answers of every drafter, scored, beside those without drafts."""
    plain: list[Said] = []
    said: dict[Speculate, list[Said]] = {mode: [] for mode in ground.modes}
    scores: dict[Speculate, list[Score]] = {mode: [] for mode in ground.modes}
    with ground.plain_context() as context:
        oracle = Oracle(context, adjust)
        # Prompt by prompt, so that each is read once.
        for prompt in prompts:
            plain.append(ground.ask(prompt, "off", max_tokens=ground.length, **fields))
            for mode in ground.modes:
                answer = ground.ask(prompt, mode, max_tokens=ground.length, draft_length=_length(mode), **fields)
                said[mode].append(answer)
                scores[mode].append(oracle.score(answer.prompt, answer.ids))
    yield from (_verdict(check, mode, said[mode], plain, scores[mode], choice) for mode in ground.modes)


def allowed(positions: int) -> int:
    """The most near ties that may fall the other way among so many tokens: more are seen once in a thousand times on a
    machine where each does with probability `FLIPPED`."""
    tail, count = 1.0, 0
    while tail > BY_CHANCE:
        tail -= comb(positions, count) * FLIPPED**count * (1 - FLIPPED) ** (positions - count)
        count += 1
    return count - 1


def _length(mode: Speculate) -> int | None:
    """What is asked for by name drafts whenever it can; the automatic choice is left to choose."""
    return None if mode == "auto" else DRAFT_LENGTH


def _verdict(
    check: str, mode: Speculate, said: list[Said], plain: list[Said], scores: list[Score], choice: str
) -> Finding:
    tokens = sum(len(each.ids) for each in said)
    judged, kept = sum(each.judged for each in said), sum(each.accepted for each in said)
    flips, worst = sum(score.flips for score in scores), max(score.worst for score in scores)
    same = sum(_shared(a.ids, b.ids) for a, b in zip(said, plain, strict=True))
    equal = all(a.ids == b.ids for a, b in zip(said, plain, strict=True))
    promised = all(each.started.reproducible for each in [*said, *plain])
    tolerated = worst <= GAP and flips <= allowed(tokens)
    state: State = "ok"
    if not tolerated:
        state = "wrong"
        off = "beyond the best 64" if worst == float("inf") else f"{worst:.2f} logits below it"
        meaning = f"a token is not {choice}: {off}, where rounding explains {GAP:g}"
        if worst <= GAP:
            meaning = f"more tokens than rounding explains ({flips} of {tokens}) are not {choice}"
    elif promised and not equal:
        state = "wrong"
        meaning = (
            f"passes agree to the bit here, and yet the text parts from the one without drafts after {same} tokens"
        )
    elif not judged:
        state = "note"
        meaning = (
            "nothing was drafted, so this shows nothing: drafting does not pay here, or nothing was found to draft"
        )
    elif equal:
        meaning = f"each token is {choice}: the text is the one without drafts"
    else:
        meaning = f"each token is {choice}, but for near ties that passes of another width round differently"
    figure = f"{tokens} tokens, {kept} of {judged} judged drafts kept; {flips} flipped"
    figure += f", by {worst:.2g} logits at most" if flips and worst < float("inf") else ""
    numbers: dict[str, float | int | bool | None] = {
        "tokens": tokens,
        "judged": judged,
        "accepted": kept,
        "flipped": flips,
        "flipped_allowed": allowed(tokens),
        "worst_gap": worst if worst < float("inf") else None,
        "same_tokens": same,
        "equal": equal,
        "equality_promised": promised,
    }
    return Finding(check, mode, state, figure, meaning, numbers)


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
