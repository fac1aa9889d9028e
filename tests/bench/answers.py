"""An engine whose speed is written down: every request gets the tokens per second that the test says."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from localspec.bench.workloads import Task
from localspec.engine.events import Event, Finished, Stats, Token
from localspec.engine.requests import Request, Segment

EDIT_A, EDIT_B = Task("a", "code-edit", "edit a"), Task("b", "code-edit", "edit b")
CHAT = Task("c", "chat", "talk")


def stats(tokens_per_s: float | None = 10.0, *, tokens: int = 11, overhead: float = 0.1, **fields: int) -> Stats:
    """Of an answer of `tokens` tokens at a speed; `overhead` is the share of its time outside the passes."""
    decode_s = (tokens - 1) / tokens_per_s if tokens_per_s else 0.0
    counts = {"cycles": tokens - 1, "proposed": 0, "judged": 0, "accepted": 0, "resampled": 0, "bonus": 0, "plain": 1}
    counts |= fields
    return Stats(
        prompt_tokens=20, prompt_reused=counts.pop("prompt_reused", 0), ttft_s=0.5, tokens=tokens, decode_s=decode_s,
        tokens_per_s=tokens_per_s, itl_ms_p50=None, itl_ms_p95=None, plain_tokens_per_s=None, baseline="none",
        speedup=None, acceptance_rate=None, tokens_per_cycle=None, draft_s=0.0,
        verify_s=decode_s * (1 - overhead), overhead_s=decode_s * overhead, **counts,
    )  # fmt: skip


Speed = Callable[[Request, int], Stats]


@dataclass
class Timed:
    """Answers with the figures `speed(request, number)` gives; `requests` keeps what was asked, in order."""

    speed: Speed = lambda request, number: stats()
    pid: int | None = None
    requests: list[Request] = field(default_factory=list)
    cancelled: bool = False

    def generate(self, request: Request) -> Iterator[Event]:
        number = len(self.requests)
        self.requests.append(request)
        yield Token(1, "x", "plain", "none", 0, 0.1)
        yield Finished("cancelled" if self.cancelled else "max_tokens", "x", self.speed(request, number))

    def asked(self) -> list[tuple[str, str, int | None]]:
        """Prompt, way to speculate and draft length of every request so far."""
        return [(request.prompt[0].text, request.speculate, request.draft_length) for request in self.requests]


def prompting(turns: Sequence[str]) -> tuple[Segment, ...]:
    return (Segment("|".join(turns)),)
