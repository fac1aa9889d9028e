"""The words that exports share: who answered, with what figures, when."""

import time

from localspec.chat.looks import number, share, speedup
from localspec.chat.turns import Turn


def model_of(turn: Turn) -> str:
    """What made an answer, for a heading."""
    if turn.started is None:
        return "Answer"
    return turn.started.target.removesuffix(".gguf") + (
        f" with {turn.started.draft.removesuffix('.gguf')}" if turn.started.draft else ""
    )


def note_of(turn: Turn) -> str:
    """The figures of an answer and how it ended when that was not by itself; "" for a question."""
    parts = []
    if turn.stats is not None:
        stats = turn.stats
        parts += [f"{stats.tokens} tokens", f"{number(stats.tokens_per_s)} tokens/s", speedup(stats)]
        parts.append(f"acceptance {share(stats.acceptance_rate)}")
    ends = {"cancelled": "stopped", "context_full": "cut: the context was full", "max_tokens": "cut at its limit"}
    if turn.broken:
        parts.append("not finished")
    elif turn.reason in ends:
        parts.append(ends[turn.reason])
    return " · ".join(parts)


def when(seconds: float) -> str:
    """A moment, in this machine's time: 2026-01-31 14:05."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
