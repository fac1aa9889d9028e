"""Block verification: the whole draft is judged jointly, so that a lucky token can make up for an unlucky one."""

from collections.abc import Callable, Sequence

from localspec.engine.distribution import Distribution, Uniform
from localspec.engine.verify import Verdict


def block(
    draft: Sequence[int],
    draft_probs: Sequence[Distribution],
    target_probs: Callable[[int], Distribution],
    rng: Uniform,
) -> Verdict:
    """Sun et al., ICLR 2025 (arXiv 2403.10444), algorithm 2. Never fewer tokens in expectation than `rejection`.

    With draft tokens x_1 .. x_K, x_i drawn from q_i, and the target's p_i (both given the tokens before):

        w_0 = 1,  w_i = min(1, w_(i-1) p_i(x_i) / q_i(x_i))
        Z_i = sum over x of max(w_i p_(i+1)(x) - q_(i+1)(x), 0)
        h_i = Z_i / (Z_i + 1 - w_i)  for i < K (1 when that is 0/0),  h_K = w_K

    With a uniform u_i for each, x_1 .. x_t stand, t being the *largest* i with u_i < h_i, or 0. All stand: a bonus
    token from p_(K+1). Otherwise the next is drawn from norm(max(w_t p_(t+1) - q_(t+1), 0)). The next cycle begins
    with w = 1.

    A token before t may well have been below its own h: there is no first rejection, and `judged` counts the tokens
    that stand and the one after them. On one-hot drafts the rule is `rejection`. Asks for the target's rows in order,
    and for none behind a token that the target forbids. Raises ValueError as `rejection` does.
    """
    weights, rows = [1.0], []
    for i, token in enumerate(draft):
        draft_prob = draft_probs[i].prob(token)
        if draft_prob <= 0.0:
            raise ValueError(f"draft token {token} at place {i} has probability 0 in its own draft distribution")
        rows.append(target_probs(i))
        weights.append(weigh(weights[i], rows[i].prob(token), draft_prob))
        if weights[-1] == 0.0:
            break
    last = len(draft)
    # Uniforms are independent, so the largest i is found from the end, with no uniform for those before it.
    for i in range(len(weights) - 1, 0, -1):
        if i == last:
            chance = weights[i]
        else:
            chance = _stands(weights[i], rows[i].surplus(draft_probs[i], weights[i])) if weights[i] > 0.0 else 0.0
        if rng.random() < chance:
            break
    else:
        i = 0
    if i == last:
        return Verdict(last, target_probs(last).sample(rng))
    # Only rounding leaves nothing; then both are the same distribution.
    return Verdict(i, (rows[i].excess(draft_probs[i], weights[i]) or rows[i]).sample(rng))


def weigh(before: float, target_prob: float, draft_prob: float) -> float:
    """w_i, from w_(i-1) and what both give to draft token i."""
    return min(1.0, before * target_prob / draft_prob)


def _stands(weight: float, surplus: float) -> float:
    """h_i for i < K, from w_i and Z_i."""
    left = surplus + 1.0 - weight
    return surplus / left if left > 0.0 else 1.0
