"""Which draft tokens stand, and what replaces the first that does not.

Each rule is a function of the draft and of the target's distributions, and keeps the target's law exactly. None knows a
model, a clock or a global random state. A rule asks for the target's row i only when it comes to it, in order: row i
judges draft token i, row len(draft) gives the bonus token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.engine.distribution import Distribution, Uniform


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first `accepted` draft tokens stand, and `token` follows them.

    `token` is the target's replacement for the first rejected one, or the bonus token when the whole draft stands.
    """

    accepted: int
    token: int


def greedy(draft: Sequence[int], target: Callable[[int], int]) -> Verdict:
    """Keep the draft as long as it is the target's argmax (Leviathan et al. 2023, the case of temperature 0).

    `target(i)` is the target's argmax after i draft tokens.
    """
    for i, token in enumerate(draft):
        choice = target(i)
        if choice != token:
            return Verdict(i, choice)
    return Verdict(len(draft), target(len(draft)))


def rejection(
    draft: Sequence[int],
    draft_probs: Sequence[Distribution] | None,
    target_probs: Callable[[int], Distribution],
    rng: Uniform,
) -> Verdict:
    """Speculative sampling: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.

    With draft token x_i drawn from q_i and the target's p_i: keep x_i with probability min(1, p_i(x_i) / q_i(x_i)); at
    the first rejection draw from norm(max(0, p_i - q_i)); when all stand draw from the target's next row.

    `draft_probs` None says that each token was the drafter's only choice (argmax, lookup): q_i is one-hot. Raises
    ValueError for a token its own drafter gives probability 0: such a token was not drawn from `draft_probs`.
    """
    for i, token in enumerate(draft):
        proposal = Distribution.one_hot(token) if draft_probs is None else draft_probs[i]
        draft_prob = proposal.prob(token)
        if draft_prob <= 0.0:
            raise ValueError(f"draft token {token} at place {i} has probability 0 in its own draft distribution")
        target = target_probs(i)
        # Without division, and strictly: a token the target forbids is refused even when the uniform is 0.
        if rng.random() * draft_prob < target.prob(token):
            continue
        # Only rounding leaves nothing where the target exceeds the draft; then both are the same distribution.
        return Verdict(i, (target.excess(proposal) or target).sample(rng))
    return Verdict(len(draft), target_probs(len(draft)).sample(rng))
