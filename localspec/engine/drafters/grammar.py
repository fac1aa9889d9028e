"""What a grammar forces: where only one text may come next, it is proposed.

It is a guess all the same: the text is certain, how the target cuts it into tokens is not.
"""

from collections.abc import Sequence

from localspec.engine.drafters.base import Draft
from localspec.engine.events import DrafterName
from localspec.engine.grammar import FORCED_BYTES, Grammar
from localspec.engine.llama import Model

PRIOR = 0.9
"""How often a forced token stands before anything is known: keys and brackets are mostly cut in the usual way."""

PRIOR_WEIGHT = 4.0
"""Judged tokens that the prior is worth."""


class GrammarDrafter:
    """Drafts the text that `grammar` forces, in the vocabulary's usual tokens. Costs some 20 µs a byte of it."""

    name: DrafterName = "grammar"

    def __init__(self, model: Model, grammar: Grammar) -> None:
        self._model, self._grammar = model, grammar
        self._accepted, self._judged = PRIOR * PRIOR_WEIGHT, PRIOR_WEIGHT

    @property
    def rate(self) -> float:
        """How often a forced token stands, the forced ones before it standing."""
        return self._accepted / self._judged

    def learn(self, judged: int, accepted: int) -> None:
        """Of a draft's tokens `judged` had a verdict and `accepted` stood."""
        self._judged += judged
        self._accepted += accepted

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing to do: the grammar bounds the answer alone."""

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        if limit < 1:
            return Draft(())
        text = self._grammar.forced(FORCED_BYTES).decode("utf-8", "ignore")
        tokens = tokens_of(self._model, text) if text else []
        admitted = self._grammar.admit(tokens)
        # Where there is a choice the target mostly goes on in the same token: `":` and not `"`.
        if tokens and admitted == len(tokens) and self._grammar.may_be_longer(admitted - 1, tokens[-1]):
            admitted -= 1
        return Draft(tokens[: min(admitted, limit)])

    def bounded(self, draft: Draft) -> Draft:
        """Another drafter's draft up to the first token that the grammar forbids. Only for one that was not drawn."""
        return draft.cut(self._grammar.admit(draft.tokens))

    def accept(self, tokens: Sequence[int]) -> None:
        """Nothing to do: the grammar follows the answer by itself."""

    def close(self) -> None:
        """Nothing to give back: the grammar belongs to the answer."""


def tokens_of(model: Model, text: str) -> list[int]:
    """The tokens that spell exactly `text`; none when the tokenizer cannot be brought to it.

    Some tokenizers put a blank before a text; behind a line break they do not.
    """
    wanted = text.encode()
    for lead in ("", "\n"):
        tokens = model.tokenize(lead + text)
        pieces = [model.piece(token) for token in tokens]
        for start in range(len(pieces)):
            if b"".join(pieces[start:]) == wanted:
                return tokens[start:]
    return []
