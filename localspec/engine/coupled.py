"""The rule by which a text depends on target, settings and seed alone: target and draft hear the same noise."""

from collections.abc import Callable, Sequence

from localspec.engine.distribution import Distribution
from localspec.engine.noise import Noise
from localspec.engine.verify import Verdict, greedy


def coupled(draft: Sequence[int], target_probs: Callable[[int], Distribution], noise: Noise, position: int) -> Verdict:
    """Gumbel coupling: Daliri, Musco and Suresh 2025 (arXiv 2408.07978), algorithm 1.

    At each place t the target's token is argmax over x of log p_t(x) + g_t(x), with Gumbel noise g that is a function
    of (seed, t, x). A drafter that draws argmax of log q_t(x) + g_t(x) with the same noise says the same token with
    probability at least (1 - d) / (1 + d), d being their total variation; another drafter may say what it likes. Draft
    tokens stand while they are what the target says, and the target's word follows them: so each emitted token is the
    target's own draw, and follows p_t, whatever was drafted and however much.

    `position` is that of the first draft token, counted from the beginning of the prompt: a seed that is used again
    later in the same conversation meets other noise.
    """
    return greedy(draft, lambda i: noise.draw(target_probs(i), position + i))
