"""Running requests on an in-process engine and reading what came out."""

from dataclasses import dataclass

from localspec.engine.engine import Engine
from localspec.engine.events import Cycle, Event, Finished, Prefill, Started, Token
from localspec.engine.requests import Request, SamplerSettings, Segment
from tests import tiny

REPETITIVE = "abcdabcdabcdabcd"

GREEDY = SamplerSettings(temperature=0.0)
ENDLESS = {tiny.EOS: float("-inf")}
"""Logit bias that keeps a random model from ending its text."""

GREEDY_ENDLESS = SamplerSettings(temperature=0.0, logit_bias=ENDLESS)
PLAIN_SAMPLING = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias=ENDLESS)


@dataclass(frozen=True)
class Answer:
    events: list[Event]

    @property
    def started(self) -> Started:
        return next(e for e in self.events if isinstance(e, Started))

    @property
    def tokens(self) -> list[Token]:
        return [e for e in self.events if isinstance(e, Token)]

    @property
    def ids(self) -> list[int]:
        return [t.id for t in self.tokens]

    @property
    def cycles(self) -> list[Cycle]:
        return [e for e in self.events if isinstance(e, Cycle)]

    @property
    def prefills(self) -> list[Prefill]:
        return [e for e in self.events if isinstance(e, Prefill)]

    @property
    def end(self) -> Finished:
        end = self.events[-1]
        assert isinstance(end, Finished)
        return end


def prompt(text: str) -> tuple[Segment, ...]:
    return (Segment(text),)


def ask(engine: Engine, text: str = "abcabcab", **fields: object) -> Answer:
    """Answer `text` on `engine`; greedy and endless unless told otherwise."""
    settings: dict[str, object] = {"sampling": GREEDY_ENDLESS, "max_tokens": 40, "speculate": "off"} | fields
    return Answer(list(engine.generate(Request(prompt=prompt(text), **settings))))  # type: ignore[arg-type]


def check_sums(answer: Answer) -> None:
    """P2: every cycle emits its accepted tokens and one more, less what a cut took; and all counts agree."""
    stats, tokens, cycles = answer.end.stats, answer.tokens, answer.cycles
    assert stats.tokens == len(tokens) == stats.accepted + stats.resampled + stats.bonus + stats.plain
    assert [t.kind for t in tokens].count("accepted") == stats.accepted == sum(c.accepted for c in cycles)
    assert stats.judged == sum(c.judged for c in cycles)
    assert stats.proposed == sum(c.proposed for c in cycles)
    assert stats.cycles == len(cycles)
    if tokens:
        assert (tokens[0].kind, tokens[0].cycle, tokens[0].drafter) == ("plain", 0, "none")
        assert sum(c.emitted for c in cycles) == len(tokens) - 1
    for cycle in cycles:
        kinds = [t.kind for t in tokens if t.cycle == cycle.cycle]
        assert len(kinds) == cycle.emitted
        assert kinds[: cycle.accepted] == ["accepted"] * cycle.accepted
        assert len(kinds) - cycle.accepted in (0, 1)
        assert cycle.accepted <= cycle.judged <= min(cycle.accepted + 1, cycle.proposed)
        if kinds[cycle.accepted :] == ["bonus"]:
            assert cycle.accepted == cycle.proposed > 0
        if kinds[cycle.accepted :] == ["resampled"]:
            assert cycle.judged == cycle.accepted + 1
        if kinds[cycle.accepted :] == ["plain"]:
            assert cycle.proposed == 0
    assert "".join(t.text for t in tokens) == answer.end.text
    assert (stats.acceptance_rate is None) == (stats.judged == 0)
    assert (stats.tokens_per_cycle is None) == (stats.cycles == 0)
