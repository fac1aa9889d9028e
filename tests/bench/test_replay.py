"""Replaying recorded answers: counted by hand, never better than the bound, and as the engine itself decodes."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.bench.replay import Recording, bound, replay
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.engine import Engine
from localspec.engine.requests import EngineConfig
from tests import tiny
from tests.engine.answers import ask
from tests.engine.answers import prompt as asked


class Fixed:
    """Costs that are known: `table` by width, flat beyond."""

    def __init__(self, table: Sequence[float], draft: float = 0.3) -> None:
        self._table, self._draft = table, draft

    def relative(self, width: int, context: int) -> float:
        return self._table[min(width, len(self._table)) - 1]

    def draft_token(self, context: int) -> float:
        return self._draft

    def catching_up(self, behind: int, context: int) -> float:
        return 0.0

    def plain_wanted(self, context: int, now: float) -> bool:
        return False


CHEAP = [1.0, 1.2, 1.3, 1.4, 1.5]


def test_a_plain_answer_costs_a_pass_a_token() -> None:
    done = replay(Recording([1, 2], [3, 4, 5, 6]), Fixed(CHEAP), "off")
    assert [(step.proposed, step.emitted, step.spent) for step in done.steps] == [(0, 1, 1.0)] * 3
    assert done.speedup == 1.0


def test_a_copied_answer_is_counted_by_hand() -> None:
    """Prompt 1..8, answer a copy: its first two tokens come singly, then the rest at length 4."""
    done = replay(Recording([*range(1, 9), 99], [1, 2, 3, 4, 5, 6, 7]), Fixed(CHEAP), "lookup", fixed=4)
    assert [(step.proposed, step.accepted, step.emitted) for step in done.steps] == [(4, 4, 5), (0, 0, 1)]
    assert done.spent == pytest.approx(1.5 + 1.0)
    assert done.tokens == 6


def test_the_end_token_is_found_and_not_counted() -> None:
    done = replay(Recording([1, 2, 3], [4, 5, 9]), Fixed(CHEAP), "off", ends=frozenset({9}))
    assert done.tokens == 1


def test_a_draft_model_is_paid_for_every_pass() -> None:
    recording = Recording([1], [5, 6, 7, 8, 9], guesses=[5, 6, 7, 0, 9], tops=[0.9] * 5)
    done = replay(recording, Fixed(CHEAP), "draft", fixed=3)
    assert [(step.accepted, step.emitted) for step in done.steps] == [(2, 3), (0, 1)]
    assert done.spent == pytest.approx(1.4 + 3 * 0.3 + 1.0)


def least(recording: Recording, relative: Sequence[float], longest: int) -> float:
    """The cheapest way through the answer by trying every sequence of lengths."""
    lookup = Lookup()
    lookup.begin(recording.prompt)
    answer = list(recording.tokens)
    drafts = [()] * len(answer)
    for at in range(1, len(answer)):
        lookup.accept(answer[at - 1 : at])
        drafts[at] = tuple(lookup.draft((), longest).tokens)

    def ways(at: int) -> Iterator[float]:
        if at >= len(answer):
            yield 0.0
            return
        for length in range(min(longest, len(drafts[at]), len(answer) - at) + 1):
            stood = next(
                (i for i in range(length) if drafts[at][i] != answer[at + i]), length
            )  # fmt: skip
            for rest in ways(at + stood + 1):
                yield relative[min(length, len(relative) - 1)] + rest

    return min(ways(1))


@pytest.mark.parametrize("answer", list(product([1, 2], repeat=5)))
def test_the_bound_is_the_best_of_all_ways(answer: tuple[int, ...]) -> None:
    recording = Recording([1, 2, 1, 1, 2], list(answer))
    best = least(recording, CHEAP, 3)
    assert bound(recording, lambda width: CHEAP[width - 1], longest=3) == pytest.approx(4 / best)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.lists(st.integers(0, 3), min_size=2, max_size=25))
def test_no_controller_beats_the_bound(prompt: list[int], answer: list[int]) -> None:
    recording, costs = Recording(prompt, answer), Fixed(CHEAP)
    best = bound(recording, lambda width: costs.relative(width, 0))
    for mode, fixed in (("lookup", None), ("lookup", 3), ("off", None)):
        assert replay(recording, costs, mode, fixed).speedup <= best + 1e-9


def test_the_engine_makes_the_same_cycles(tmp_path: Path) -> None:
    """The replay is the engine's own lookup at a fixed length, cycle for cycle once the baseline is known."""
    engine = Engine(EngineConfig(str(tiny.write_llama(tmp_path / "t.gguf")), context=512, threads=1, flash_attn="on"))
    text = "abcabcabcdabcabcabcd" * 4
    answer = ask(engine, text, speculate="lookup", draft_length=4, max_tokens=40)
    prompt = engine._encoder.encode(asked(text))
    done = replay(Recording(prompt, [token.id for token in answer.tokens]), Fixed(CHEAP), "lookup", 4)
    plain_first = next(i for i, cycle in enumerate(answer.cycles) if cycle.proposed)
    seen = [(cycle.proposed, cycle.accepted, cycle.emitted) for cycle in answer.cycles[plain_first:]]
    engine.close()
    steps = [(step.proposed, step.accepted, step.emitted) for step in done.steps]
    assert seen[-5:] == steps[-5:]
