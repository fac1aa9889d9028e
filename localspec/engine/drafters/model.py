"""A draft model: a smaller model of the same vocabulary guesses, its own context kept in step with the target's."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context
from localspec.engine.distribution import Distribution, Uniform
from localspec.engine.drafters.base import Draft
from localspec.engine.events import DrafterName
from localspec.engine.sampling import Sampler


class ModelDrafter:
    """Drafts with `context` for a target of `target_vocab` tokens.

    Set `sampler` and `rng` before each answer.
    `patience` lets a draft end early: after keeping a token, no further one is drawn once the product of the
    probabilities the draft gave its own tokens has fallen below it. Nothing drawn is ever taken back.
    """

    name: DrafterName = "draft"

    def __init__(self, context: Context, target_vocab: int, sampler: Sampler, rng: Uniform) -> None:
        self.context = context
        self.sampler, self.rng = sampler, rng
        self.patience = 0.0
        self._vocab = min(target_vocab, context.model.vocab_size)
        self._padded = np.full(target_vocab, -np.inf, np.float32) if target_vocab != context.model.vocab_size else None
        self._agreed = 0

    def begin(self, tokens: Sequence[int]) -> None:
        """Prefill the draft's context with all but the last of `tokens`; raises `Aborted` when cancelled."""
        self._agreed = 0
        if self._can_hold(tokens):
            self._step_to(tokens[:-1], tokens)

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        limit = min(limit, self.context.size - len(history) + 1)
        if limit < 1 or not self._can_hold(history):
            return Draft(())
        row = self._step_to(history, history)
        drawn: list[int] = []
        probs: list[Distribution] = []
        seen = list(history)
        joint = 1.0
        while True:
            logits = self._target_row(row)
            law = self.sampler.distribution(logits, seen)
            token = law.argmax if law.is_one_hot else law.sample(self.rng)
            drawn.append(token)
            seen.append(token)
            probs.append(law)
            if len(drawn) == limit:
                break
            if self.patience:
                joint *= _softmax_at(logits, token) if law.is_one_hot else law.prob(token)
                if joint < self.patience:
                    break
            row = self.context.decode([token])[-1]
        certain = all(law.is_one_hot for law in probs)
        return Draft(drawn, None if certain else probs)

    def accept(self, tokens: Sequence[int]) -> None:
        """Nothing to do: the next draft cuts the context back to where it agrees with the history."""

    def close(self) -> None:
        self.context.close()

    def _can_hold(self, tokens: Sequence[int]) -> bool:
        """Padding rows of a larger target vocabulary mean nothing to the draft and must not be indexed."""
        return len(tokens) <= self.context.size and all(t < self._vocab for t in tokens[self._agreed :])

    def _step_to(self, tokens: Sequence[int], history: Sequence[int]) -> NDArray[np.float32]:
        """Bring the context to exactly `tokens` and return the logits after the last of them (empty when none decoded).

        Only the part of the history past what is known to agree is compared.
        """
        context = self.context
        agree, end = min(self._agreed, len(context.tokens)), min(len(context.tokens), len(tokens))
        while agree < end and context.tokens[agree] == tokens[agree]:
            agree += 1
        # The last token is decoded again when it is already there: its logits are wanted.
        kept = context.truncate(min(agree, max(0, len(tokens) - 1)))
        row: NDArray[np.float32] = np.empty(0, np.float32)
        for start in range(kept, len(tokens), context.options.batch):
            row = context.decode(tokens[start : start + context.options.batch])[-1]
        self._agreed = min(len(context.tokens), len(history))
        return row

    def _target_row(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """The row at the target's vocabulary size: padding on either side is never drafted."""
        if self._padded is None:
            return row
        self._padded[: self._vocab] = row[: self._vocab]
        return self._padded


def _softmax_at(logits: NDArray[np.float32], token: int) -> float:
    return float(1.0 / np.exp(logits - logits[token]).sum())
