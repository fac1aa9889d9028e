"""What a strategy learns of its drafters' costs, and when it lets a draft model read."""

from pathlib import Path

import pytest

from localspec.engine.cost import ENOUGH
from localspec.engine.costs import IN_STEP, Costs
from localspec.engine.generate import Engine
from localspec.engine.requests import EngineConfig
from tests.engine.answers import ask


def measured(prior: float) -> Costs:
    """Costs on a machine whose plain pass takes 100 ms."""
    costs = Costs(prior)
    for _ in range(ENOUGH):
        costs.learn_pass(100, 1, 0.1, 0.0)
    return costs


def test_a_draft_token_costs_what_drawing_it_takes() -> None:
    """P1: the seconds a draft model spent on reading the prompt are not the price of its tokens."""
    costs = measured(0.4)
    costs.learn_draft(100, behind=1000, tokens=3, seconds=7.0)
    assert costs.draft_token(100) == 0.4
    costs.learn_draft(100, behind=IN_STEP, tokens=3, seconds=0.06)
    assert costs.draft_token(100) == pytest.approx(0.2)


def test_reading_costs_by_the_tokens_missing() -> None:
    costs = measured(0.4)
    assert costs.catching_up(1, 100) == costs.catching_up(IN_STEP, 100) == 0.0
    assert 0.0 < costs.catching_up(100, 100) < costs.catching_up(1000, 100) < 1000 * costs.draft_token(100)


def test_in_auto_a_long_prompt_is_not_read_by_the_draft_for_a_short_answer(tiny_files: dict[str, Path]) -> None:
    """P1: however good the draft might be; named by the person it reads at once."""
    config = EngineConfig(str(tiny_files["target"]), str(tiny_files["twin"]), context=2048, threads=1, flash_attn="on")
    engine = Engine(config)
    drafter = engine._model_drafter
    assert drafter is not None
    text = "abcdefgh" * 200
    ask(engine, text, speculate="auto", max_tokens=100)
    assert drafter.context.tokens == []
    ask(engine, text, speculate="draft", max_tokens=2)
    assert len(drafter.context.tokens) >= len(text) - 1
    engine.close()
