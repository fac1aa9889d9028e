"""The exact law of what a rule emits, held against the target's: arithmetic on the rule's own code, no sampling.

A draft of K tokens is drawn from K distributions, judged with K + 1 of the target's, and what comes out is continued by
the target to K + 1 tokens. For an exact rule that is the target's law of K + 1 tokens, whatever the rows are: they need
not depend on the tokens before them, so any recorded rows will do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution, Uniform
from localspec.engine.proof.trace import Every, Trace, Watched, law_of, ways
from localspec.engine.verify import Verdict

Tokens = tuple[int, ...]
Rule = Callable[[Sequence[int], Sequence[Distribution] | None, Callable[[int], Distribution], Uniform], Verdict]


@dataclass(slots=True)
class _Weighted:
    """Laws and how often each is the one of the last token; few are different, and adding one up costs its size."""

    laws: dict[int, tuple[Distribution, float]] = field(default_factory=dict)

    def add(self, law: Distribution, weight: float) -> None:
        known = self.laws.get(id(law))
        self.laws[id(law)] = law, weight + (known[1] if known else 0.0)


def drawn_distance(rule: Rule, target: Sequence[Distribution], draft: Sequence[Distribution]) -> float:
    """Total variation between what `rule` emits for drafts drawn from `draft` and the target's law.

    `target` has one row more than `draft`. Takes as many runs as there are drafts: for filtered rows.
    """
    watched = [Watched.of(law) for law in draft]
    return _distance(lambda tokens, rows, rng: rule(tokens, watched, rows, rng), target, _drafts(draft))


def certain_distance(rule: Rule, target: Sequence[Distribution], tokens: Tokens) -> float:
    """As `drawn_distance`, for one draft proposed with certainty."""
    return _distance(lambda tokens, rows, rng: rule(tokens, None, rows, rng), target, [(1.0, tokens)])


def single_distance(rule: Rule, target: Sequence[Distribution], draft: Distribution) -> float:
    """As `drawn_distance` for a draft of one token, all tokens of a vocabulary in a few runs; one by one where the rule
    does with a token what cannot be done with many."""
    ids, shares = _possible(draft)
    rows, drawn = [Watched.of(law) for law in target], Watched.of(draft)
    first = np.zeros(len(target[0].probs) if target[0].ids is None else 1 + int(max(target[0].ids[-1], ids[-1])))
    bonus = 0.0
    replaced = _Weighted()
    try:
        for trace, verdict in ways(
            lambda trace: rule([Every(trace, ids)], [drawn], rows.__getitem__, trace),  # type: ignore[list-item]
            len(ids),
        ):
            weights = np.where(trace.alive, shares * trace.probability, 0.0)
            law = law_of(verdict.token)
            if verdict.accepted:
                np.add.at(first, ids, weights)
                bonus += float(weights.sum()) * _variation(law, target[1])
            else:
                replaced.add(law, float(weights.sum()))
    except TypeError:
        return drawn_distance(rule, target, [draft])
    for law, weight in replaced.laws.values():
        first[_ids(law)] += weight * law.probs
    first[_ids(target[0])] -= target[0].probs
    return float(np.abs(first).sum() / 2 + bonus)


def _ids(law: Distribution) -> NDArray[np.int32]:
    return np.arange(len(law.probs), dtype=np.int32) if law.ids is None else law.ids


def _possible(law: Distribution) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The tokens that can be drawn, and their probabilities."""
    drawn = law.probs > 0
    return _ids(law)[drawn], law.probs[drawn]


def _drafts(draft: Sequence[Distribution]) -> Iterator[tuple[float, Tokens]]:
    """Every draft with its probability."""
    tokens, shares = zip(*map(_possible, draft), strict=True)
    for chosen, each in zip(
        product(*(t.tolist() for t in tokens)), product(*(s.tolist() for s in shares)), strict=True
    ):
        yield prod(each), chosen


def _distance(
    judge: Callable[[Tokens, Callable[[int], Distribution], Uniform], Verdict],
    target: Sequence[Distribution],
    drafts: Iterable[tuple[float, Tokens]],
) -> float:
    rows = [Watched.of(law) for law in target]
    # By the tokens that stood: what follows them, for there the continuation begins.
    after: dict[Tokens, _Weighted] = {}
    for weight, tokens in drafts:

        def judged(trace: Trace, tokens: Tokens = tokens) -> Verdict:
            return judge(tokens, rows.__getitem__, trace)

        for trace, verdict in ways(judged):
            share = weight * float(trace.probability)
            after.setdefault(tokens[: verdict.accepted], _Weighted()).add(law_of(verdict.token), share)
    return _compare(after, target, len(target) - 1)


def _compare(after: dict[Tokens, _Weighted], target: Sequence[Distribution], length: int) -> float:
    """Total variation of the first `length` tokens, and what the bonus tokens add to it at most."""
    size = [_support(target[i], after, i) for i in range(length)]
    wanted = _outer([_spread(target[i], size[i]) for i in range(length)])
    came = np.zeros_like(wanted)
    bonus = 0.0
    for stood, weighted in after.items():
        place = tuple(int(size[i].searchsorted(token)) for i, token in enumerate(stood))
        for law, weight in weighted.laws.values():
            if len(stood) == length:
                came[place] += weight
                bonus += weight * _variation(law, target[length])
                continue
            begin = len(stood) + 1
            rest = [_spread(law, size[len(stood)]), *(_spread(target[i], size[i]) for i in range(begin, length))]
            came[place] += weight * _outer(rest)
    return float(np.abs(came - wanted).sum() / 2 + bonus)


def _support(law: Distribution, after: dict[Tokens, _Weighted], place: int) -> NDArray[np.int64]:
    """Every token that the target or the rule can say at `place`, ascending."""
    said = [np.array([tokens[place]]) for tokens in after if len(tokens) > place]
    for tokens, weighted in after.items():
        if len(tokens) == place:
            said += [_ids(law) for law, _ in weighted.laws.values()]
    return np.unique(np.concatenate([_ids(law), *said]))


def _spread(law: Distribution, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Its probabilities at `ids`, which are all it has and perhaps more."""
    spread = np.zeros(len(ids))
    spread[ids.searchsorted(_ids(law))] = law.probs
    return spread


def _outer(factors: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    made = factors[0]
    for factor in factors[1:]:
        made = np.multiply.outer(made, factor)
    return made


def _variation(law: Distribution, other: Distribution) -> float:
    if law.probs is other.probs and law.ids is other.ids:
        return 0.0
    return max(other.surplus(law), law.surplus(other))
