"""The law of the whole engine: real llama.cpp, tiny random models, chi-square against the target's exact law."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.engine import generate, strategy
from localspec.engine.acceptance import DraftAcceptance
from localspec.engine.controller import Choice, Controller, Decision, Drawing, Offer
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.verify import Verdict
from tests import tiny
from tests.engine.engine_law import ACCEPTED_P, FREE, PENALISED, SAMPLES, SETTINGS, draw, exact_law, p_value
from tests.engine.faults import drop_unlikely_draws, fresh_draw, penalise_rejected, whole_redraw

UNSURE = 0.2
"""A draft here ends before a token whose most probable choice has no more: some do after one token, some after two."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("law")
    return {
        "target": tiny.write_llama(root / "target.gguf", seed=11, scale=1.2),
        # The same directions, less sharp: a draft that agrees often and not always.
        "draft": tiny.write_llama(root / "draft.gguf", seed=11, scale=0.6),
    }


@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
@pytest.mark.parametrize("settings", list(SETTINGS))
def test_the_engine_keeps_the_targets_law(files: dict[str, Path], settings: str, mode: str) -> None:
    counts, acceptance = draw(files, SETTINGS[settings], mode)
    if mode != "off":
        assert 0.05 < acceptance < 0.95, "the rule must be seen both ways"
    assert p_value(counts, exact_law(files["target"], SETTINGS[settings])) > ACCEPTED_P


@pytest.mark.parametrize("mode", ["draft", "auto"])
def test_a_draft_that_may_end_early_keeps_the_law(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Lengths of the controller's choosing: a draft ends before a token it is unsure of, and keeps what it drew."""
    lengths: Counter[int] = Counter()
    real = ModelDrafter.draft

    def counting(self: ModelDrafter, *arguments: Any) -> Draft:
        draft = real(self, *arguments)
        lengths[len(draft.tokens)] += 1
        return draft

    def draws(self: Drawing, stands: float) -> bool:
        more = self.drawn == 0 or stands > UNSURE
        self.drawn += more
        return more

    def chosen(self: Controller, offers: Sequence[Offer], limit: int, cost: object, **_: object) -> Decision:
        choice = Choice(0, limit, 2.0, 2.0) if limit else None
        return Decision(choice, choice)

    monkeypatch.setattr(DraftAcceptance, "of", lambda self, top: top)
    monkeypatch.setattr(strategy, "CHEAP", float("inf"))
    monkeypatch.setattr(Drawing, "draw", draws)
    monkeypatch.setattr(Drawing, "go_on", lambda self: True)
    monkeypatch.setattr(ModelDrafter, "draft", counting)
    monkeypatch.setattr(Lookup, "draft", lambda *_: Draft(()))
    monkeypatch.setattr(Controller, "choose", chosen)
    counts, acceptance = draw(files, FREE, mode, length=None)
    assert min(lengths[1], lengths[2]) > SAMPLES / 20
    assert 0.05 < acceptance < 0.95
    assert p_value(counts, exact_law(files["target"], FREE)) > ACCEPTED_P


# -- planted faults: each must be caught by the same test --

Rule = Callable[..., Verdict]


@pytest.mark.parametrize(("mode", "rule"), [("lookup", fresh_draw), ("lookup", whole_redraw), ("draft", whole_redraw)])
def test_biased_rules_are_caught(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mode: str, rule: Rule
) -> None:
    """C4, through the whole engine."""
    monkeypatch.setattr(generate, "rejection", rule)
    counts, _ = draw(files, FREE, mode)
    assert p_value(counts, exact_law(files["target"], FREE)) < ACCEPTED_P / 1000


def test_a_draft_token_taken_back_for_its_value_is_caught(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_unlikely_draws(monkeypatch)
    counts, _ = draw(files, FREE, "draft")
    assert p_value(counts, exact_law(files["target"], FREE)) < ACCEPTED_P / 1000


def test_a_penalty_that_sees_rejected_tokens_is_caught(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """C5, in the law."""
    penalise_rejected(monkeypatch)
    harsh = replace(PENALISED, frequency_penalty=0.4)
    counts, _ = draw(files, harsh, "draft")
    assert p_value(counts, exact_law(files["target"], harsh)) < ACCEPTED_P / 1000


def test_a_draft_out_of_step_keeps_the_law(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a drafter proposes, the target's law stands: only acceptance suffers."""
    real = ModelDrafter.draft
    monkeypatch.setattr(ModelDrafter, "draft", lambda self, history, limit: real(self, history[:-1], limit))
    counts, _ = draw(files, FREE, "draft")
    assert p_value(counts, exact_law(files["target"], FREE)) > ACCEPTED_P
