"""When a strategy lets a draft model read."""

from pathlib import Path

from localspec.engine.generate import Engine
from localspec.engine.requests import EngineConfig
from tests.engine.answers import ask


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
