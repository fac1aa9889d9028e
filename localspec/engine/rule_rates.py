"""How much of a draft each rule keeps on average, in closed form: no uniform is drawn and nothing is simulated.

`draft` tokens x_1 .. x_K were drawn from the draft's distributions q_i, and p_i are the target's along the same path
(`target_probs` has at least K of them). Each function answers K numbers: the expected accepted tokens if the draft had
ended after 1, 2, .. K of its tokens. Over paths drawn from the draft, their mean is the rule's accepted tokens a cycle.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution
from localspec.engine.requests import Verify
from localspec.engine.verify_block import stands, weigh

Laws = Sequence[Distribution]
Floats = NDArray[np.float64]


def rejection(draft: Sequence[int], draft_probs: Laws, target_probs: Laws) -> list[float]:
    """Token i is kept with min(1, p_i(x_i) / q_i(x_i)) once those before it are (Leviathan et al. 2023)."""
    ratios = (
        min(1.0, p.prob(token) / q.prob(token)) for token, q, p in zip(draft, draft_probs, target_probs, strict=False)
    )
    return _in_a_row(ratios)


def coupled(draft: Sequence[int], draft_probs: Laws, target_probs: Laws) -> list[float]:
    """Token i is kept when the target's draw with the same noise is x_i too: given the draft's, with probability
    1 / (q_i(x_i) sum over y of max(p_i(y) / p_i(x_i), q_i(y) / q_i(x_i))), and independently of the other places."""
    chances = (_same(token, p, q) for token, q, p in zip(draft, draft_probs, target_probs, strict=False))
    return _in_a_row(chances)


def block(draft: Sequence[int], draft_probs: Laws, target_probs: Laws) -> list[float]:
    """At least i tokens stand when u_j < h_j for some j >= i: 1 - product over j >= i of (1 - h_j), with the h of
    `verify_block.block`, of which the last depends on where the draft ends."""
    weights = [1.0]
    for token, q, p in zip(draft, draft_probs, target_probs, strict=False):
        weights.append(weigh(weights[-1], p.prob(token), q.prob(token)))
    inner = [
        stands(weights[i], target_probs[i].surplus(draft_probs[i], weights[i])) if weights[i] > 0.0 else 0.0
        for i in range(1, len(draft))
    ]
    kept = []
    for length in range(1, len(draft) + 1):
        misses = [1.0 - h for h in (*inner[: length - 1], weights[length])]
        kept.append(sum(1.0 - missed for missed in accumulate(reversed(misses), mul)))
    return kept


RULES: Mapping[Verify, Callable[[Sequence[int], Laws, Laws], list[float]]] = MappingProxyType(
    {"rejection": rejection, "block": block, "coupled": coupled}
)


def minima(target: Distribution, draft: Distribution) -> float:
    """The sum of min(p, q): how often a sampled draft token stands under `rejection`, alone (theorem 3.5 there)."""
    return 1.0 - target.surplus(draft)


def agreement(target: Distribution, draft: Distribution) -> float:
    """How often both draw the same token with the same noise: the sum over x of 1 / sum over y of
    max(p(y) / p(x), q(y) / q(x)) (at least (1 - d) / (1 + d), Daliri et al. 2025; d: total variation)."""
    p, q = _aligned(target, draft)
    possible = (p > 0.0) | (q > 0.0)
    p, q = p[possible], q[possible]
    # The larger ratio is p's where p(y) / q(y) is at least that of x: in that order the sums are two running ones.
    with np.errstate(divide="ignore"):
        order = np.argsort(-(p / q), kind="stable")
    p, q = p[order], q[order]
    above, below = p.cumsum(), np.maximum(q.sum() - q.cumsum(), 0.0)
    shared = (p > 0.0) & (q > 0.0)
    return float((1.0 / (above[shared] / p[shared] + below[shared] / q[shared])).sum())


def _same(token: int, target: Distribution, draft: Distribution) -> float:
    """How often the target draws `token` when the draft did. With exponential clocks E, whose least E_x / p(x) names
    the token drawn, both draw x when E_y >= E_x max(p(y) / p(x), q(y) / q(x)) for every y."""
    target_prob, draft_prob = target.prob(token), draft.prob(token)
    if target_prob == 0.0:
        return 0.0
    p, q = _aligned(target, draft)
    return float(1.0 / (draft_prob * np.maximum(p / target_prob, q / draft_prob).sum()))


def _aligned(target: Distribution, draft: Distribution) -> tuple[Floats, Floats]:
    """Both on the tokens that either has, or on all."""
    if target.ids is not None and draft.ids is not None:
        ids = np.union1d(target.ids, draft.ids)
        return _on(ids, target), _on(ids, draft)
    everything = np.arange(max(len(law.probs) for law in (target, draft) if law.ids is None), dtype=np.int32)
    return _on(everything, target), _on(everything, draft)


def _on(ids: NDArray[np.int32], law: Distribution) -> Floats:
    if law.ids is None:
        return law.probs
    probs = np.zeros(len(ids))
    probs[ids.searchsorted(law.ids)] = law.probs
    return probs


def _in_a_row(chances: Iterable[float]) -> list[float]:
    """Tokens kept on average when each stands with its chance once all before it did, by the length of the draft."""
    return list(accumulate(accumulate(chances, mul)))
