"""While nobody waits, the draft model reads what was said: it starts the next answer in step."""

import pytest

from localspec.engine.drafters.model import ModelDrafter
from tests.engine.answers import ask
from tests.engine.conftest import MakeEngine


def never() -> bool:
    return False


def test_the_draft_model_reads_the_conversation_after_the_answer(make_engine: MakeEngine) -> None:
    engine = make_engine("target", "draft")
    answer = ask(engine, speculate="auto")
    drafter, target = engine._model_drafter, engine._loaded.target
    assert drafter is not None
    said = list(target.tokens)
    assert drafter.behind(said) > 10, "in `auto` it waits until it is asked"
    engine.idle(never)
    assert drafter.context.tokens == said[:-1]
    assert drafter.behind(said) == 1
    again = ask(engine, speculate="auto")
    assert again.ids == answer.ids


@pytest.mark.parametrize(
    "fields", [{"speculate": "off"}, {"speculate": "lookup"}, {"speculate": "auto", "draft_anew": True}]
)
def test_not_where_it_drafts_nothing_or_begins_anew(make_engine: MakeEngine, fields: dict[str, object]) -> None:
    engine = make_engine("target", "draft")
    ask(engine, **fields)
    engine.idle(never)
    assert engine._model_drafter is not None
    assert engine._model_drafter.context.tokens == []


def test_not_while_somebody_waits(make_engine: MakeEngine) -> None:
    engine = make_engine("target", "draft")
    ask(engine, speculate="auto")
    engine.idle(lambda: True)
    assert engine._model_drafter is not None
    assert engine._model_drafter.context.tokens == []


def test_an_answer_that_comes_in_the_middle_ends_the_reading(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine("target", "draft")
    expected = ask(engine, speculate="draft", draft_length=3)
    engine = make_engine("target", "draft")
    ask(engine, "abcdabcd", speculate="auto")
    prefill = ModelDrafter.prefill

    def cancelled(drafter: ModelDrafter, tokens: list[int]) -> None:
        engine.cancel()
        prefill(drafter, tokens)

    monkeypatch.setattr(ModelDrafter, "prefill", cancelled)
    engine.idle(never)
    monkeypatch.undo()
    assert engine._model_drafter is not None
    assert engine._model_drafter.context.tokens == []
    assert ask(engine, speculate="draft", draft_length=3).ids == expected.ids
