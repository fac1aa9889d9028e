"""Faults to plant: biased rules, and engines that break one rule. A test of the law that passes with one is no test."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from localspec.engine.distribution import Distribution
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.generate import Reply
from localspec.engine.verify import Verdict, rejection


def fresh_draw(draft: Sequence[int], _probs: object, target: Any, rng: Any) -> Verdict:
    """C4: draw from the target at each place; on a match go on, otherwise keep a second, fresh draw."""
    for i, token in enumerate(draft):
        if target(i).sample(rng) != token:
            return Verdict(i, target(i).sample(rng))
    return Verdict(len(draft), target(len(draft)).sample(rng))


def whole_redraw(draft: Sequence[int], probs: Any, target: Any, rng: Any) -> Verdict:
    """C4: the replacement drawn from the whole target instead of the excess."""
    for i, token in enumerate(draft):
        share = 1.0 if probs is None else probs[i].prob(token)
        if rng.random() * share >= target(i).prob(token):
            return Verdict(i, target(i).sample(rng))
    return Verdict(len(draft), target(len(draft)).sample(rng))


def credulous(draft: Sequence[int], _probs: object, target: Any, rng: Any) -> Verdict:
    """A draft token stands when the target finds it half as likely as its favourite."""
    for i, token in enumerate(draft):
        law = target(i)
        if law.prob(token) < law.prob(law.argmax) / 2:
            return Verdict(i, law.sample(rng))
    return Verdict(len(draft), target(len(draft)).sample(rng))


def argmax_bonus(draft: Sequence[int], probs: Any, target: Any, rng: Any) -> Verdict:
    """All right but for the token behind a draft that stands whole."""
    verdict = rejection(draft, probs, target, rng)
    return Verdict(len(draft), target(len(draft)).argmax) if verdict.accepted == len(draft) else verdict


def drop_unlikely_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model drafter takes back what it drew because it was unlikely, which biases the output."""
    real = ModelDrafter.draft

    def dropping(self: ModelDrafter, *arguments: Any) -> Draft:
        draft = real(self, *arguments)
        kept = 0
        while draft.probs and kept < len(draft.tokens) and draft.probs[kept].prob(draft.tokens[kept]) >= 0.15:
            kept += 1
        return Draft(draft.tokens[:kept], draft.probs[:kept]) if draft.probs else draft

    monkeypatch.setattr(ModelDrafter, "draft", dropping)


def penalise_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """C5: rejected tokens left in the history that the penalties count."""
    real_law, real_draft = Reply._law, ModelDrafter.draft
    leaked: list[int] = []

    def leaking(self: Reply, row: np.ndarray, history: list[int], place: int = 0) -> Distribution:
        return real_law(self, row, [*history, *leaked], place)

    def remembering(self: ModelDrafter, *arguments: Any) -> Draft:
        draft = real_draft(self, *arguments)
        leaked[:] = draft.tokens
        return draft

    monkeypatch.setattr(Reply, "_law", leaking)
    monkeypatch.setattr(ModelDrafter, "draft", remembering)
