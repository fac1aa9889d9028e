"""The engine's own draws against the target's law: many short answers to one prompt, by chi-square.

The prompt ends where the target is nearly sure of the next token and unsure of the one behind it. The first token comes
from reading the prompt; the next two are drafted and judged. So each answer tells two tokens of the rule at work in the
whole engine. What the target would say there is read beforehand, in a pass as wide as a cycle's.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from localspec.engine.distribution import Distribution
from localspec.engine.events import Cycle, Token
from localspec.engine.proof import chisquare
from localspec.engine.proof.ground import Ground
from localspec.engine.proof.law_check import BEGIN, WHOLE
from localspec.engine.proof.report import Finding
from localspec.engine.proof.rows import bring, recorded
from localspec.engine.requests import Request, Segment, Speculate, Verify
from localspec.engine.sampling import Sampler

DRAFT = 2
"""Tokens of every draft."""

TOKENS = 1 + DRAFT
"""Tokens of an answer that count."""

MOST = 3_000
"""Answers of one drafter: more would see the rounding of passes of different widths."""

LEAST_SHARE = 0.2
"""Of the time, what this takes when the other checks left less."""

FIRST = 12
"""Second tokens whose followers are told apart; after the others the third token is not looked at."""

LEVEL = 1e-4
"""A right engine is called wrong once in so many tests."""

WANTED = 0.9
"""The probability with which the bias that is told would have been caught."""

Outcome = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the draws are made: what is read before, the first token, and how the target goes on."""

    prompt: tuple[Segment, ...]
    tokens: list[int]
    first: int
    shares: dict[Outcome, float]


def chance(ground: Ground) -> Iterator[Finding]:
    """Each drafter by itself, the time that is left divided among them."""
    drafters: list[tuple[Speculate, Verify]] = [("lookup", "rejection")] if ground.drafts else []
    if ground.drafter is not None:
        drafters.insert(0, (ground.drafter.name, "block"))
    place = _find(ground)
    begin = ground.elapsed / ground.seconds
    ends = max(1.0, begin + LEAST_SHARE)
    for number, (mode, rule) in enumerate(drafters, 1):
        if place is None:
            meaning = "in no text is there a place where the next token is sure and the one behind it is not"
            yield Finding("chi-square", mode, "note", "no draws", meaning, {"draws": 0})
            continue
        until = begin + (ends - begin) * number / len(drafters)
        yield _drawn(ground, place, mode, rule, until)


def _drawn(ground: Ground, place: _Place, mode: Speculate, rule: Verify, until: float) -> Finding:
    settings = ground.settings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
    counts: Counter[Outcome] = Counter()
    judged = accepted = 0
    while sum(counts.values()) < MOST and not ground.gone(until):
        ids: list[int] = []
        request = Request(
            place.prompt, settings, mode, DRAFT, verify=rule, max_tokens=TOKENS + 1, seed=sum(counts.values())
        )
        answer = ground.events(request)
        for event in answer:
            if isinstance(event, Token):
                ids.append(event.id)
            elif isinstance(event, Cycle):
                judged, accepted = judged + event.judged, accepted + event.accepted
            if len(ids) >= TOKENS and isinstance(event, Cycle):
                break
        answer.close()  # type: ignore[attr-defined]
        counts[_outcome(place, tuple(ids[:TOKENS]))] += 1
    tested = chisquare.test(counts, place.shares)
    bias = tested.smallest_bias(LEVEL, WANTED)
    figure = f"{tested.draws} answers, {accepted} of {judged} judged drafts kept; "
    figure += f"{tested.classes} classes: p = {tested.p:.2g}"
    numbers: dict[str, float | int | bool | None] = {
        "draws": tested.draws,
        "judged": judged,
        "accepted": accepted,
        "classes": tested.classes,
        "p": tested.p,
        "level": LEVEL,
        "smallest_bias": bias,
        "power": WANTED,
    }
    if tested.p < LEVEL:
        meaning = f"chance alone is so far from the target's law once in {1 / max(tested.p, 1e-12):,.0f} runs"
        return Finding("chi-square", mode, "wrong", figure, meaning, numbers)
    if not judged or bias is None:
        meaning = "too little was judged to show anything: give it more --seconds"
        return Finding("chi-square", mode, "note", figure, meaning, numbers)
    meaning = (
        f"as the target alone would draw; a total variation of {bias:.2g} or more would have shown (in {WANTED:.0%})"
    )
    return Finding("chi-square", mode, "ok", figure, meaning, numbers)


def _outcome(place: _Place, ids: Outcome) -> Outcome:
    """The class of an answer: as much of it as its law is known of."""
    if ids[:1] != (place.first,):
        return ()
    return ids if ids in place.shares else ids[:2] if ids[:2] in place.shares else (-1,)


def _find(ground: Ground) -> _Place | None:
    """The place where draws say most: a sure token, then one that target and draft are of two minds about."""
    sampler = Sampler(WHOLE, ground.vocab)
    if ground.target.encodes:
        # The answer is a text of its own: it begins as it does.
        return _place(ground, ground.prompts[-1], ground.engine.encode(ground.prompts[-1]), sampler)
    best: list[tuple[float, list[int]]] = []
    for prompt in ground.prompts:
        tokens = ground.engine.encode(prompt)
        start = min(BEGIN, len(tokens) - 2)
        drafts = None if ground.draft is None else recorded(ground.draft, tokens, start)
        sure = 0.0
        for at, row in enumerate(recorded(ground.target, tokens, start), start):
            ground.check()
            law = sampler.distribution(ground.open_ended(row), ())
            apart = 1.0
            if drafts is not None:
                draft = sampler.distribution(ground.open_ended(ground.fitted_row(next(drafts))), ())
                # Best where both sides of the rule are seen equally often.
                apart = 1.0 - abs(2 * law.surplus(draft) - 1.0)
            weights = law.probs[law.probs > 0]
            unsure = min(1.5, float(-(weights * np.log(weights)).sum()))
            # Only a first token that stood before is something that lookup can go on from.
            known = 1.0 if tokens[at] in tokens[:at] else 0.1
            best.append((known * sure**2 * unsure * (0.1 + apart), tokens[:at]))
            sure = law.prob(tokens[at + 1]) if at + 1 < len(tokens) else 0.0
    for worth, read_before in sorted(best, key=lambda each: -each[0])[:20]:
        found = ground.prompt_of(read_before)
        if worth > 0 and found is not None and len(read_before) > 1:
            return _place(ground, found, read_before, sampler)
    return None


def _place(ground: Ground, prompt: tuple[Segment, ...], tokens: list[int], sampler: Sampler) -> _Place:
    """The law of three tokens behind the prompt, as far as it is worth telling apart."""

    target = ground.target
    text = len(tokens) if target.encodes else 0

    def after(more: list[int]) -> Distribution:
        # As wide as the pass that the row is judged with: then it rounds as there.
        last = [tokens[-1]] if not more else [more[-1]] * (1 + DRAFT)
        if text and not more:
            target.clear()
            row = target.decode(tokens)[0]
        else:
            bring(target, [*tokens, *more][:-1], text)
            row = target.decode(last, len(last))[0]
        return sampler.distribution(ground.open_ended(row), ())

    first = after([])
    sure = first.argmax
    shares: dict[Outcome, float] = {(): 1.0 - first.prob(sure)}
    second = after([sure])
    order = (-second.probs).argsort(kind="stable")
    for token in order[:FIRST].tolist():
        ground.check()
        share = first.prob(sure) * float(second.probs[token])
        third = after([sure, token])
        likely = (-third.probs).argsort(kind="stable")[:FIRST].tolist()
        for other in likely:
            shares[sure, token, other] = share * float(third.probs[other])
        shares[sure, token] = share * max(0.0, 1.0 - float(third.probs[likely].sum()))
    shares[-1,] = max(0.0, 1.0 - sum(shares.values()))
    return _Place(prompt, tokens, sure, shares)
