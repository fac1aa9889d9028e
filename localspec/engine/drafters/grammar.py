"""What a grammar forces: where only one text may come next, it is proposed.

It is a guess all the same: the text is certain but for white space that is left open (`spacing.py`), how the target
cuts it into tokens is not.
"""

from collections.abc import Sequence
from functools import partial

from localspec.engine.drafters.base import Draft, Place
from localspec.engine.drafters.stretches import Standing, Stretches
from localspec.engine.drafters.words import Words
from localspec.engine.events import DrafterName
from localspec.engine.grammar import FORCED_BYTES, Follower, Grammar
from localspec.engine.llama import Model
from localspec.engine.spacing import BLANK, FEW, Spacing

PRIOR = 0.97
"""How often a forced token stands before anything is known: keys and brackets are mostly cut in the usual way."""

PRIOR_WEIGHT = 10.0
"""Judged tokens that the prior is worth."""

NOWHERE = Standing()

FORCED = Place(0, ground="forced")


class GrammarDrafter:
    """Drafts the text that `grammar` forces, in the vocabulary's usual tokens. Costs some 20 µs a byte of it."""

    name: DrafterName = "grammar"

    def __init__(self, model: Model, grammar: Grammar) -> None:
        self._model, self.grammar = model, grammar
        self._accepted, self._judged = PRIOR * PRIOR_WEIGHT, PRIOR_WEIGHT
        self._spacing = Spacing()
        self.stretches = Stretches()
        self._words: Words | None = None
        self._behind = 0
        self._found: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        self._follower: Follower | None = grammar.follower()

    @property
    def rate(self) -> float:
        """How often a forced token stands, the forced ones before it standing."""
        return self._accepted / self._judged

    def learn(self, stood: bool) -> None:
        """A forced token had its verdict."""
        self._judged += 1
        self._accepted += stood

    def copied(self, place: int) -> None:
        """The token at `place` of the text before the answer was copied; a place behind it is of the answer."""
        if self._words is not None and 0 <= place < len(self._words):
            self._behind = place

    def begin(self, tokens: Sequence[int]) -> None:
        """The text before the answer, whose words are looked up."""
        self._words, self._behind = Words(list(tokens), self._model.piece, partial(tokens_of, self._model)), 0

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        self.grammar.admit(())
        tokens = self.extend(max(0, limit))
        return Draft(tokens, places=[FORCED] * len(tokens))

    def extend(self, limit: int, standing: Standing = NOWHERE) -> list[int]:
        """The tokens that are forced behind the grammar's draft, which stands at `standing`, at most `limit`: it goes
        on with them."""
        grammar = self.grammar
        if limit < 1 or grammar.is_text():
            return []
        # Behind the same stretch, closed alike, the same text is forced; to find it takes 50 µs a byte.
        known = (standing.key, standing.tokens[-1:])
        tokens = self._push(self._found[known][:limit]) if standing.key and known in self._found else []
        if tokens:
            return tokens
        text = grammar.forced(FORCED_BYTES, self._spacing).decode("utf-8", "ignore")
        usual = tokens_of(self._model, text) if text else []
        tokens = self._push(usual[:limit])
        if tokens and len(tokens) == len(usual) and self._is_unsure(text, tokens):
            tokens.pop()
            grammar.cut(grammar.ahead - 1)
        if tokens and (len(tokens) < limit or len(usual) < limit):
            self._found[known] = tokens
        return list(tokens)

    def _push(self, tokens: list[int]) -> list[int]:
        """Put as many of `tokens` behind the draft as the grammar admits: those."""
        for number, token in enumerate(tokens):
            try:
                self.grammar.push(token)
            except ValueError:
                return tokens[:number]
        return tokens[:]

    def value(self, tokens: Sequence[int]) -> Sequence[int]:
        """The tokens of a stretch without the quotes and blanks it opens with."""
        start = 0
        while start < len(tokens) and not self._model.piece(tokens[start])[-1:].isalnum():
            start += 1
        return tokens[start:]

    def word(self, value: Sequence[int]) -> tuple[tuple[int, ...], int] | None:
        """See `Words.behind`."""
        return self._words.behind(value, self._behind) if self._words is not None and value else None

    def ends(self, token: int) -> bool:
        """Whether the token ends a text."""
        return token in self._model.end_tokens

    def is_word(self, token: int) -> bool:
        """Whether the token's text begins with a letter or digit, but for a blank."""
        return self._model.piece(token).strip()[:1].decode("utf-8", "replace").isalnum()

    def _is_unsure(self, text: str, tokens: list[int]) -> bool:
        """Where there is a choice the target may go on in the same token: `":` and not `"`."""
        starts = ["a", "A"] if self.grammar.is_text() else _starts(self.grammar.next_bytes())
        if not starts:
            return self.grammar.may_be_longer(self.grammar.ahead - 1, tokens[-1])
        return any(tokens_of(self._model, text + start)[: len(tokens)] != tokens for start in starts)

    def bounded(self, draft: Draft) -> Draft:
        """Another drafter's draft up to the first token that the grammar forbids. Only for one that was not drawn."""
        return draft.cut(self.grammar.admit(draft.tokens))

    def accept(self, tokens: Sequence[int]) -> None:
        """The grammar follows the answer by itself; here its white space and its stretches are noted."""
        for token in tokens:
            self.stretches.accept(token, forced=self._follower is not None and self._follower.is_forced())
            for byte in self._model.piece(token):
                if self._follower is not None and not self._follower.step(byte):
                    self._follower.close()
                    self._follower = None
                # Behind a letter or digit nobody sets a blank that may be left out, and most of a text is those.
                asked = self._follower if byte not in BLANK and not chr(byte).isalnum() else None
                self._spacing.wrote(byte, pauses=asked is not None and asked.may_pause())
        if self._follower is None:
            self._follower = self.grammar.follower()

    def close(self) -> None:
        """Give back the state that notes white space; the grammar belongs to the answer."""
        if self._follower is not None:
            self._follower.close()


def _starts(choices: Sequence[int]) -> list[str]:
    """Characters that stand for what may come next: of each kind one; of punctuation only where little else may."""
    found = []
    for low, high in ("09", "az", "AZ"):
        found += [chr(byte) for byte in choices if ord(low) <= byte <= ord(high)][:1]
    if found and len(choices) <= FEW:
        found += [chr(byte) for byte in choices if 32 < byte < 127 and not chr(byte).isalnum()]
    return found


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
