"""What speculation can give, by the independence model of Leviathan et al. 2023 (arXiv 2211.17192, section 3)."""

from collections.abc import Callable


def expected_tokens(acceptance: float, length: int) -> float:
    """Tokens a cycle emits on average with drafts of `length` tokens, each accepted with probability `acceptance`
    whatever came before: (1 - a^(K+1)) / (1 - a), the bonus or resampled token counted."""
    return sum(acceptance**power for power in range(length + 1))


def acceptance_for(tokens: float, length: int) -> float | None:
    """The acceptance at which drafts of `length` give `tokens` a cycle; None when not even perfect drafts do."""
    if tokens > length + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, length) < tokens else (low, middle)
    return high


def best_length(acceptance: float, token: float, cost: Callable[[int], float], longest: int = 32) -> tuple[int, float]:
    """The draft length that gains most at an `acceptance`, and its speed relative to plain decoding. A token costs
    `token` plain passes to draft, and a pass of n tokens `cost(n)`."""
    gains = {k: speedup(expected_tokens(acceptance, k), cost(k + 1) + k * token) for k in range(1, longest + 1)}
    best = max(gains, key=lambda k: gains[k])
    return best, gains[best]


def speedup(tokens: float, cost: float, drafted: float = 1.0) -> float:
    """Speed relative to plain decoding when a share `drafted` of the cycles has a draft: such a cycle emits `tokens`
    and costs `cost` plain passes, drafting included; the others emit one token for one plain pass."""
    return (drafted * tokens + 1 - drafted) / (drafted * cost + 1 - drafted)
