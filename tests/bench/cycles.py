"""An engine on a clock of its own: passes cost what the test says, drafts are accepted as it says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from localspec.engine.events import Cycle, Event, Finished, Stats, Token
from localspec.engine.requests import Request

Cost = Callable[[int], float]


@dataclass
class Priced:
    """A pass of n tokens takes `verify(n)` milliseconds, drafting n tokens `draft(n)`. Of every draft
    `accepted(length)` tokens stand; `every` cycles one has a draft. `slow` stretches all times, by request number."""

    verify: Cost = lambda width: 10.0
    draft: Cost = lambda length: 0.0
    accepted: Callable[[int], int] = lambda length: length
    every: int = 1
    cycles: int = 12
    slow: Callable[[int], float] = lambda number: 1.0
    requests: list[Request] = field(default_factory=list)
    cancel_after: int | None = None

    def generate(self, request: Request) -> Iterator[Event]:
        number = len(self.requests)
        self.requests.append(request)
        if self.cancel_after is not None and number >= self.cancel_after:
            yield Finished("cancelled", "", _stats([]))
            return
        stretch = self.slow(number)
        made: list[Cycle] = []
        yield Token(1, "a", "plain", "none", 0, 0.1)
        for at in range(self.cycles):
            length = request.draft_length or 0 if request.speculate != "off" and at % self.every == 0 else 0
            kept = self.accepted(length) if length else 0
            made.append(
                Cycle(
                    at + 1, "lookup" if length else "none", length, "", min(length, kept + 1), kept, kept + 1,
                    stretch * self.draft(length) if length else 0.0, stretch * self.verify(1 + length),
                )
            )  # fmt: skip
            yield made[-1]
        yield Finished("max_tokens", "a", _stats(made))


def _stats(cycles: list[Cycle]) -> Stats:
    seconds = sum(one.draft_ms + one.verify_ms for one in cycles) / 1000
    tokens = sum(one.emitted for one in cycles)
    judged, accepted = sum(one.judged for one in cycles), sum(one.accepted for one in cycles)
    return Stats(
        prompt_tokens=10, prompt_reused=0, ttft_s=0.1, tokens=tokens + 1, decode_s=seconds,
        tokens_per_s=tokens / seconds if seconds else None, itl_ms_p50=None, itl_ms_p95=None, plain_tokens_per_s=None,
        baseline="none", speedup=None, cycles=len(cycles), proposed=sum(one.proposed for one in cycles), judged=judged,
        accepted=accepted, resampled=0, bonus=0, plain=1, acceptance_rate=None, tokens_per_cycle=None,
        draft_s=0.0, verify_s=seconds, overhead_s=0.0,
    )  # fmt: skip
