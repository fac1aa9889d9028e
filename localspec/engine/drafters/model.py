"""A draft model, or a draft made of the target's own layers: a smaller model of the same vocabulary guesses, its own
context kept in step with the target's."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context, stretches
from localspec.engine.controller import Drawing
from localspec.engine.distribution import Distribution, Uniform, top_probability
from localspec.engine.drafters.base import Draft
from localspec.engine.events import ModelDrafterName
from localspec.engine.noise import Noise
from localspec.engine.sampling import Allowed, NothingAllowed, Sampler

if TYPE_CHECKING:
    from localspec.engine.grammar import Grammar

Sure = Callable[[float], float]


class ModelDrafter:
    """Drafts with `context` for a target of `target_vocab` tokens, under the name of what it is.

    Set `sampler`, `rng` and `grammar`, which bounds what is drawn, before each answer; and `noise`, with which it is
    drawn instead of `rng` when the target hears the same (`coupled.py`). A draft ends at an end token,
    and where its `Drawing` says so: before a draw, never after it. Nothing drawn is ever taken back.
    """

    def __init__(
        self, context: Context, target_vocab: int, sampler: Sampler, rng: Uniform, name: ModelDrafterName = "draft"
    ) -> None:
        self.name: ModelDrafterName = name
        self.context = context
        self.sampler, self.rng = sampler, rng
        self.grammar: Grammar | None = None
        self.noise: Noise | None = None
        self._vocab = min(target_vocab, context.model.vocab_size)
        self._padded = np.full(target_vocab, -np.inf, np.float32) if target_vocab != context.model.vocab_size else None
        self._agreed = 0
        self._text = 0
        self._ends = context.model.end_tokens

    def begin(self, tokens: Sequence[int]) -> None:
        """The context is kept: what it shares with `tokens` is found when it is next used.
        An encoder reads them all."""
        self._agreed = 0
        self._text = len(tokens) if self.context.encodes else 0

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read all but the last of `tokens` now, or an encoder's whole text; raises `Aborted` when cancelled."""
        if self._can_hold(tokens):
            self._step_to(tokens if self._text else tokens[:-1])

    def behind(self, history: Sequence[int]) -> int:
        """How many tokens of `history` a draft has to read before it can draw; 1 or 2 from one cycle to the next."""
        return len(history) - min(self._agree(history), len(history) - 1)

    def draft(self, history: Sequence[int], limit: int, drawing: Drawing | None = None, sure: Sure = float) -> Draft:
        """At most `limit` tokens; `drawing` may end the draft earlier, told by `sure` how likely a token stands whose
        largest probability (softmax of the draft's logits) is its argument. These are the draft's `tops`."""
        limit = min(limit, self._longest(history))
        if limit < 1 or not self._can_hold(history):
            return Draft(())
        row = self._step_to(history)
        if self.grammar is not None:
            self.grammar.admit(())
        drawn: list[int] = []
        probs: list[Distribution] = []
        tops: list[float] = []
        passes = 1
        seen = list(history)
        while True:
            logits = self._target_row(row)
            top = top_probability(logits) if drawing is not None else 1.0
            if drawing is not None and not drawing.draw(sure(top)):
                break
            try:
                law = self.sampler.distribution(logits, seen, self._allowed(len(drawn)))
            except NothingAllowed:
                break
            token = self._draw(law, len(seen))
            if self.grammar is not None:
                self.grammar.push(token)
            drawn.append(token)
            seen.append(token)
            probs.append(law)
            tops.append(top)
            if len(drawn) == limit or token in self._ends or (drawing is not None and not drawing.go_on()):
                break
            row = self._after(token)
            passes += 1
        certain = all(law.is_one_hot for law in probs)
        return Draft(drawn, None if certain else probs, tops=tops, passes=passes)

    def _draw(self, law: Distribution, position: int) -> int:
        if law.is_one_hot:
            return law.argmax
        return law.sample(self.rng) if self.noise is None else self.noise.draw(law, position)

    def _allowed(self, place: int) -> Allowed | None:
        return None if self.grammar is None else self.grammar.allowed(place)

    def forget(self) -> None:
        """Empty the context: the next draft reads everything."""
        self.context.clear()
        self._agreed = 0

    def accept(self, tokens: Sequence[int]) -> None:
        """Nothing to do: the next draft cuts the context back to where it agrees with the history."""

    def close(self) -> None:
        self.context.close()

    def _longest(self, history: Sequence[int]) -> int:
        """The most tokens that there is room to draft."""
        return self.context.size - len(history) + 1

    def _after(self, token: int) -> NDArray[np.float32]:
        """The logits after `token`, the last one drawn."""
        row: NDArray[np.float32] = self.context.decode([token])[-1]
        return row

    def _can_hold(self, tokens: Sequence[int]) -> bool:
        """Padding rows of a larger target vocabulary mean nothing to the draft and must not be indexed."""
        return len(tokens) <= self.context.size and all(t < self._vocab for t in tokens[self._agreed :])

    def _agree(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` the context begins with; only those past what is known to agree are compared."""
        if len(self.context.text) != self._text:
            # What an encoder read is all of the text or none of it.
            self._agreed = 0
            return 0
        held = self.context.tokens
        agree, end = min(self._agreed, len(held)), min(len(held), len(tokens))
        while agree < end and held[agree] == tokens[agree]:
            agree += 1
        self._agreed = agree
        return agree

    def _step_to(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Bring the context to exactly `tokens` and return the logits after the last of them (empty for none)."""
        context = self.context
        # The last token is decoded again when it is already there: its logits are wanted.
        kept = context.truncate(min(self._agree(tokens), max(0, len(tokens) - 1)))
        row: NDArray[np.float32] = np.empty(0, np.float32)
        for start, end in stretches(kept, len(tokens), context.options.batch, self._text):
            row = context.decode(tokens[start:end])[-1]
        return row

    def _target_row(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """The row at the target's vocabulary size: padding on either side is never drafted."""
        if self._padded is None:
            return row
        self._padded[: self._vocab] = row[: self._vocab]
        return self._padded
