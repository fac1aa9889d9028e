"""Counting one answer: every figure of `Stats` comes from here."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from localspec.engine.controller import Choice
from localspec.engine.events import Baseline, Cycle, DrafterName, Kind, Source, Stats


@dataclass(slots=True)
class Tally:
    """Times in seconds of one monotonic clock. `begun` is when the request began, `first` when its first token came."""

    prompt_tokens: int
    begun: float
    prompt_reused: int = 0
    first: float | None = None
    last: float | None = None
    kinds: dict[Kind, int] = field(default_factory=lambda: {"accepted": 0, "resampled": 0, "bonus": 0, "plain": 0})
    cycles: int = 0
    proposed: int = 0
    judged: int = 0
    draft_s: float = 0.0
    verify_s: float = 0.0
    gaps_ms: list[float] = field(default_factory=list)

    def token(self, kind: Kind) -> None:
        """A token was emitted."""
        self.kinds[kind] += 1

    def cycle(
        self,
        *,
        drafter: DrafterName,
        proposed: int,
        proposed_text: str,
        judged: int,
        accepted: int,
        emitted: int,
        draft_s: float,
        verify_s: float,
        match_length: int,
        now: float,
        choice: Choice | None = None,
        source: Source | None = None,
        read: int = 0,
        passes: int = 0,
    ) -> Cycle:
        """A cycle ended at `now`; its tokens share its time evenly, as the inter-token latency counts them."""
        began = self.last if self.last is not None else self.first
        self.cycles += 1
        self.proposed += proposed
        self.judged += judged
        self.draft_s += draft_s
        self.verify_s += verify_s
        if emitted and began is not None:
            self.gaps_ms.extend([(now - began) * 1000 / emitted] * emitted)
        self.last = now
        return Cycle(
            self.cycles, drafter, proposed, proposed_text, judged, accepted, emitted,
            draft_s * 1000, verify_s * 1000, match_length,
            choice.expected if choice else None, choice.gain if choice else None, source, read, passes,
        )  # fmt: skip

    @property
    def tokens(self) -> int:
        return sum(self.kinds.values())

    def stats(self, plain_ms: float | None, baseline: Baseline, *, drafting: bool) -> Stats:
        """The figures so far. `plain_ms` is a plain pass at this context length, `drafting` whether any was allowed."""
        decode_s = self.last - self.first if self.first is not None and self.last is not None else 0.0
        decoded = max(0, self.tokens - 1)
        rate = decoded / decode_s if decode_s > 0 and decoded else None
        plain_rate = 1000 / plain_ms if plain_ms else None
        gaps = sorted(self.gaps_ms)
        return Stats(
            prompt_tokens=self.prompt_tokens,
            prompt_reused=self.prompt_reused,
            ttft_s=None if self.first is None else self.first - self.begun,
            tokens=self.tokens,
            decode_s=decode_s,
            tokens_per_s=rate,
            itl_ms_p50=_quantile(gaps, 0.5),
            itl_ms_p95=_quantile(gaps, 0.95),
            plain_tokens_per_s=plain_rate,
            baseline=baseline if plain_rate else "none",
            speedup=rate / plain_rate if drafting and rate and plain_rate else None,
            cycles=self.cycles,
            proposed=self.proposed,
            judged=self.judged,
            accepted=self.kinds["accepted"],
            resampled=self.kinds["resampled"],
            bonus=self.kinds["bonus"],
            plain=self.kinds["plain"],
            acceptance_rate=self.kinds["accepted"] / self.judged if self.judged else None,
            tokens_per_cycle=decoded / self.cycles if self.cycles else None,
            draft_s=self.draft_s,
            verify_s=self.verify_s,
            overhead_s=max(0.0, decode_s - self.draft_s - self.verify_s),
        )


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which `share` of an ascending list lies (nearest rank); None of an empty one."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
