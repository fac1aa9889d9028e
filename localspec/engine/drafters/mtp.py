"""The target's own MTP heads as drafter (`head.py`): drawn from, judged and kept like a draft model.

A head reads the token at a position beside the target's hidden row of the one before it. What it holds is therefore
true only where the target has read the text: its guesses about its own draft are given up when the next one begins, and
what was accepted is read again beside the rows of the pass that verified it. Rows that are not known (of a conversation
whose cache came from disk) are not made again: the head starts with the first token behind them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context
from localspec.engine.distribution import Uniform
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.head import HeadContext, Rows
from localspec.engine.sampling import Sampler


class MtpDrafter(ModelDrafter):
    """Drafts with the heads in `context` for the conversation `target` holds; its options ask for hidden rows.

    When it drafts, the target holds all of the history but its last token.
    """

    context: HeadContext

    def __init__(self, context: HeadContext, target: Context, sampler: Sampler, rng: Uniform) -> None:
        super().__init__(context, target.model.vocab_size, sampler, rng, "mtp")
        self._target = target
        self._read = 0
        self._tokens: list[int] = []
        self._rows: Rows = np.zeros((0, context.hidden_width), np.float32)

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read all but the last of `tokens` now; raises `Aborted` when cancelled."""
        if self._can_hold(tokens):
            self._read_up_to(tokens, len(tokens) - 1)

    def behind(self, history: Sequence[int]) -> int:
        """How many tokens have to be read first. Those of one cycle count as one: a head reads what was accepted before
        each draft, and that is part of the draft's price."""
        behind = super().behind(history)
        return behind if behind > self._target.options.outputs else 1

    def forget(self) -> None:
        super().forget()
        self._read = 0

    def _longest(self, history: Sequence[int]) -> int:
        longest = super()._longest(history)
        return min(longest, self.context.heads) if self.context.heads > 1 else longest

    def _can_hold(self, tokens: Sequence[int]) -> bool:
        known, last = self._target, len(tokens) - 1
        return super()._can_hold(tokens) and (last < 1 or known.hidden_from < last <= len(known.tokens))

    def _agree(self, tokens: Sequence[int]) -> int:
        return min(super()._agree(tokens), self._read)

    def _step_to(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        last = len(tokens) - 1
        self._read_up_to(tokens, last)
        self._tokens, self._rows = [tokens[last]], self._rows_before(last, last + 1)
        logits = self._guess(last)
        if self.context.heads == 1:
            # The last token stands beside a row of the target too.
            self._read = len(tokens)
        return logits

    def _after(self, token: int) -> NDArray[np.float32]:
        if self.context.heads > 1:
            self._tokens.append(token)
            return self._guess(self._read)
        self._tokens, self._rows = [token], self._rows[-1:]
        return self._guess(len(self.context.tokens))

    def _guess(self, start: int) -> NDArray[np.float32]:
        """The logits after the draft so far, which is read behind the first `start` tokens; keeps the row to go on
        with."""
        logits, row = self.context.guess(start, self._tokens, self._rows)
        self._rows = np.vstack([self._rows, row])
        return logits

    def _read_up_to(self, tokens: Sequence[int], end: int) -> None:
        """Bring all heads to the first `end` of `tokens`, each beside the target's row."""
        context, unknown = self.context, self._target.hidden_from
        self._read = context.truncate(min(self._agree(tokens), end))
        if unknown and self._read <= unknown:
            context.start_at(tokens[: unknown + 1])
            self._read = len(context.tokens)
        if self._read < end:
            context.read(tokens[self._read : end], self._rows_before(self._read, end))
            self._read = end

    def _rows_before(self, start: int, end: int) -> Rows:
        """The target's rows of the tokens before those from `start` to `end`; zeros before the first of all."""
        hidden = self._target.hidden
        assert hidden is not None
        if start:
            return hidden[start - 1 : end - 1]
        return np.vstack([np.zeros((1, hidden.shape[1]), np.float32), hidden[: end - 1]])
