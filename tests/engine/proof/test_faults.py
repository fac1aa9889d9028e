"""Planted faults: each is caught by the check that is there for it, which holds without the fault."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from localspec.engine import generate, noise
from localspec.engine.context import Context
from localspec.engine.distribution import Distribution
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.proof import chance as chance_module
from localspec.engine.proof import law_check
from localspec.engine.proof.cache import cuts
from localspec.engine.proof.chance import chance
from localspec.engine.proof.greedy import greedy, seeded
from localspec.engine.proof.law_check import laws
from localspec.engine.proof.sampled import sampled
from localspec.engine.verify import Verdict
from tests import tiny
from tests.engine.faults import (
    argmax_bonus,
    credulous,
    drop_unlikely_draws,
    fresh_draw,
    penalise_rejected,
    whole_redraw,
)
from tests.engine.proof.conftest import Check, MakeEngine, found, states

Plant = Callable[[pytest.MonkeyPatch], None]


def biased_rejection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generate, "rejection", fresh_draw)


def biased_block(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generate, "block", whole_redraw)


def credulous_rejection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generate, "rejection", credulous)


def biased_bonus(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(generate, "block", argmax_bonus)


def biased_coupled(patch: pytest.MonkeyPatch) -> None:
    """The draft's word stands whenever the target finds it likely."""
    real = generate.coupled

    def hasty(draft: Sequence[int], law: Callable[[int], Distribution], *rest: Any) -> Verdict:
        if draft and law(0).prob(draft[0]) > 0.01:
            return Verdict(1, rest[0].draw(law(1), rest[1] + 1))
        return real(draft, law, *rest)

    patch.setattr(generate, "coupled", hasty)


def greedy_that_likes_drafts(patch: pytest.MonkeyPatch) -> None:
    real = generate.greedy
    patch.setattr(generate, "greedy", lambda draft, target: real(draft[:1], lambda i: draft[0] if not i else target(1))
                  if draft else real(draft, target))  # fmt: skip


def deaf_draft(patch: pytest.MonkeyPatch) -> None:
    """The draft model draws with noise of its own."""
    real = ModelDrafter._draw
    patch.setattr(ModelDrafter, "_draw", lambda self, law, position: real(self, law, position + 1))


def slow_noise(patch: pytest.MonkeyPatch) -> None:
    """The fast draw leaves out tokens that might have won."""
    patch.setattr(noise, "_first", lambda uniforms, probs: int(probs.argmax()))


def cut_that_does_nothing(patch: pytest.MonkeyPatch) -> None:
    def forget(self: Context, keep: int) -> None:
        del self.tokens[keep:]

    patch.setattr(Context, "_cut_native", forget)


def cut_that_is_told_and_not_done(patch: pytest.MonkeyPatch) -> None:
    """What was rejected stays in the cache, and what comes is decoded behind it."""
    real = Context.decode
    left: dict[int, list[int]] = {}

    def truncate(self: Context, keep: int) -> int:
        left[id(self)] = list(self.tokens[keep:]) if keep else []
        if not keep:
            self.clear()
        return keep

    def decode(self: Context, tokens: Sequence[int], rows: int = 1) -> np.ndarray:
        behind = left.pop(id(self), [])
        found = real(self, tokens, rows)
        del self.tokens[len(self.tokens) - len(tokens) - len(behind) : len(self.tokens) - len(tokens)]
        return found

    patch.setattr(Context, "truncate", truncate)
    patch.setattr(Context, "decode", decode)


def cut_one_too_many(patch: pytest.MonkeyPatch) -> None:
    """The cache loses one token more than it says: what follows is decoded in its place."""
    real = Context._cut_native

    def off(self: Context, keep: int) -> None:
        if keep < 2:
            real(self, keep)
            return
        last = self.tokens[keep - 1]
        real(self, keep - 1)
        self.decode([(last + 1) % self.model.vocab_size], 0)
        self.tokens[-1] = last

    patch.setattr(Context, "_cut_native", off)


def draft_a_token_behind(patch: pytest.MonkeyPatch) -> None:
    real = ModelDrafter.draft
    patch.setattr(ModelDrafter, "draft", lambda self, history, *rest: real(self, history[:-1], *rest))


def draft_that_misreads_a_token(patch: pytest.MonkeyPatch) -> None:
    """Its record is right and its cache is not."""
    real = Context.decode

    def wrong(self: Context, tokens: Sequence[int], rows: int = 1) -> np.ndarray:
        # The draft's context is the one with few rows, and from cycle to cycle it reads a token or two.
        if self.options.outputs < 16 and len(tokens) <= 2:
            found = real(self, [tiny.FIRST_LETTER] * len(tokens), rows)
            self.tokens[-len(tokens) :] = tokens
            return found
        return real(self, tokens, rows)

    patch.setattr(Context, "decode", wrong)


FAULTS: list[tuple[Plant, Check, set[tuple[str, str]]]] = [
    (biased_rejection, laws, {("law", "rejection")}),
    (credulous_rejection, chance, {("chi-square", "lookup")}),
    (biased_block, laws, {("law", "block")}),
    (biased_block, chance, {("chi-square", "draft")}),
    (biased_bonus, laws, {("law", "block")}),
    (biased_coupled, laws, {("law", "coupled")}),
    (biased_coupled, seeded, {("seed", "draft")}),
    (greedy_that_likes_drafts, laws, {("law", "greedy")}),
    (greedy_that_likes_drafts, greedy, {("greedy", "draft"), ("greedy", "lookup")}),
    (deaf_draft, laws, {("law", "coupled")}),
    (slow_noise, laws, {("law", "coupled")}),
    (drop_unlikely_draws, sampled, {("draws kept", "draft")}),
    (drop_unlikely_draws, chance, {("chi-square", "draft")}),
    (cut_that_does_nothing, cuts, {("cuts", "target"), ("cuts", "draft")}),
    (cut_that_is_told_and_not_done, cuts, {("cuts", "target"), ("cuts", "draft")}),
    (cut_one_too_many, greedy, {("greedy", "draft"), ("greedy", "lookup")}),
    (draft_a_token_behind, sampled, {("draft in step", "draft")}),
    (draft_that_misreads_a_token, sampled, {("draft in step", "draft")}),
    (penalise_rejected, sampled, {("penalties", "history")}),
]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few draws and rows as the faults need to be seen."""
    monkeypatch.setattr(chance_module, "MOST", 2_500)
    monkeypatch.setattr(law_check, "ROWS", 40)
    monkeypatch.setattr(law_check, "NOISE_DRAWS", 500)


@pytest.fixture(scope="module")
def clean() -> dict[Check, dict[tuple[str, str], str]]:
    """What each check says without a fault, found once."""
    return {}


@pytest.mark.parametrize(("plant", "check", "wrong"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_each_fault_is_caught(
    make: MakeEngine,
    clean: dict[Check, dict[tuple[str, str], str]],
    plant: Plant,
    check: Check,
    wrong: set[tuple[str, str]],
) -> None:
    if check not in clean:
        clean[check] = states(found(make(), check))
    assert "wrong" not in clean[check].values()
    assert all(clean[check][key] == "ok" for key in wrong)
    engine = make()
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        after = states(found(engine, check))
    assert all(after[key] == "wrong" for key in wrong), after


def test_a_deaf_draft_changes_no_text(make: MakeEngine) -> None:
    """Whatever is drafted, the seeded text stands: the fault shows as other noise, not as another text."""
    with pytest.MonkeyPatch.context() as patch:
        deaf_draft(patch)
        assert "wrong" not in states(found(make(), seeded)).values()
