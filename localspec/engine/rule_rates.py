"""How much of a draft each rule keeps on average, in closed form: no uniform is drawn and nothing is simulated.

`draft` tokens x_1 .. x_K were drawn from the draft's distributions q_i, and p_i are the target's along the same path
(`target_probs` has at least K of them). Each function answers K numbers: what a draft of 1, 2, .. K tokens has accepted
on average. At each place the average is over what is drawn there, given the tokens before it. Over paths drawn from the
draft, the mean is the rule's accepted tokens a cycle; at the same path, block is never below rejection.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution
from localspec.engine.requests import Verify
from localspec.engine.verify_block import weigh

Laws = Sequence[Distribution]
Floats = NDArray[np.float64]


def rejection(draft: Sequence[int], draft_probs: Laws, target_probs: Laws) -> list[float]:
    """Tokens before place i all stand with the product of min(1, p_j(x_j) / q_j(x_j)), then one drawn at i with the sum
    of min(p_i, q_i) (Leviathan et al. 2023, theorem 3.5)."""
    kept, carried = [], 1.0
    for token, q, p in zip(draft, draft_probs, target_probs, strict=False):
        kept.append(carried * minima(p, q))
        carried *= min(1.0, p.prob(token) / q.prob(token))
    return list(accumulate(kept))


def block(draft: Sequence[int], draft_probs: Laws, target_probs: Laws) -> list[float]:
    """At least i tokens stand with the mean of w_i (see `verify_block.block`) over what is drawn at i: the sum of
    min(q_i, w_(i-1) p_i), wherever the draft ends (Sun et al. 2025)."""
    kept, weight = [], 1.0
    for token, q, p in zip(draft, draft_probs, target_probs, strict=False):
        kept.append(weight - p.surplus(q, weight))
        weight = weigh(weight, p.prob(token), q.prob(token))
    return list(accumulate(kept))


def coupled(draft: Sequence[int], draft_probs: Laws, target_probs: Laws) -> list[float]:
    """As `rejection`, with how often the target's draw is x_j when the draft's was, and the draws at i agree: the noise
    of different places is independent, and a draft that heard it has the law of any other."""
    kept, carried = [], 1.0
    for token, q, p in zip(draft, draft_probs, target_probs, strict=False):
        kept.append(carried * agreement(p, q))
        carried *= _same(token, p, q)
    return list(accumulate(kept))


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
