"""A grammar during one answer: which tokens may come where, for the target and for what is drafted.

The state of the text so far is advanced by emitted tokens only. Copies of it go ahead along the draft, so that each
position has a state of its own; with a rejected draft they are forgotten.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from localspec.engine import gbnf, schema
from localspec.engine.errors import EngineError
from localspec.engine.grammar_state import GrammarState
from localspec.engine.llama import Model
from localspec.engine.requests import Request
from localspec.engine.sampling import Allowed
from localspec.engine.spacing import BLANK, Spacing

FORCED_BYTES = 256
"""The longest text looked ahead for: more than a draft holds in any vocabulary."""

_WORTH_SORTING = 2048
"""From so many tokens on it pays to ask first which bytes may come next: 0.5 ms instead of 10 where a grammar leaves
little choice. Where it leaves much, in the middle of a string, all of 152,000 tokens take 16 to 28 ms."""

_FEW_BYTES = 8
"""With so few bytes that may come next, those behind each of them are asked about too."""


LETTERS = b"aqZ"
"""Where all of these may come, a text has no end that a grammar forces."""


class _Alphabet:
    """A vocabulary by the bytes its tokens begin with.

    `probes` tell which bytes may come: whatever may come, its first byte alone may come too. They are the tokens of one
    byte and, where the vocabulary has none for a byte, all tokens that begin with it.
    """

    def __init__(self, model: Model) -> None:
        self.heads = model.first_bytes
        self.first = self.heads[:, 0]
        self.ends = np.fromiter(model.end_tokens, np.int32)
        single = ((self.first >= 0) & (self.heads[:, 1] < 0)).nonzero()[0]
        self.alone = {int(self.first[token]): int(token) for token in reversed(single)}
        lonely = np.isin(self.first, np.fromiter(self.alone, np.int16)) | (self.first < 0)
        self._letters = np.array([self.alone[byte] for byte in LETTERS if byte in self.alone], np.int32)
        self.blanks = np.array([self.alone[byte] for byte in BLANK if byte in self.alone], np.int32)
        self.probes = np.concatenate([np.fromiter(self.alone.values(), np.int64), (~lonely).nonzero()[0]]).astype(
            np.int32
        )

    def is_text(self, state: GrammarState) -> bool:
        """Whether any letter may come next. Some 4 µs, where `next_bytes` takes 40."""
        return len(self._letters) == len(LETTERS) and bool(state.allowed(self._letters).all())

    def is_forced(self, state: GrammarState) -> bool:
        """Whether one character must come next, but for blanks before it."""
        return not self.is_text(state) and len([byte for byte in self.next_bytes(state) if byte not in BLANK]) == 1

    def next_bytes(self, state: GrammarState) -> list[int]:
        """Which bytes may come next, ascending."""
        return sorted(set(self.first[self.probes[state.allowed(self.probes)]].tolist()))

    def allowed(self, state: GrammarState, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """As `GrammarState.allowed`, sooner for many tokens."""
        if len(ids) < _WORTH_SORTING:
            return state.allowed(ids)
        heads = self._heads(state)
        if heads is None:
            return state.allowed(ids)
        may: NDArray[np.bool_] = heads[self.first[ids], self.heads[ids, 1]]
        may |= np.isin(ids, self.ends)
        may[may] = state.allowed(ids[may])
        return may

    def _heads(self, state: GrammarState) -> NDArray[np.bool_] | None:
        """Shape (257, 257): which two bytes a token that may come can begin with, none being the last index. None when
        there are too many to ask about."""
        bytes_ = self.next_bytes(state)
        if len(bytes_) > _FEW_BYTES:
            return None
        heads = np.zeros((257, 257), np.bool_)
        for byte in bytes_:
            if byte not in self.alone:
                heads[byte] = True
                continue
            behind = state.after(self.alone[byte])
            heads[byte, [-1, *self.next_bytes(behind)]] = True
            behind.close()
        return heads


class Follower:
    """The state of a text that is told byte by byte."""

    def __init__(self, alphabet: _Alphabet, state: GrammarState) -> None:
        self._alphabet, self._state = alphabet, state

    def step(self, byte: int) -> bool:
        """Go on by a byte; False, and nowhere, where the vocabulary cannot write it alone."""
        token = self._alphabet.alone.get(byte)
        if token is None:
            return False
        try:
            self._state.accept(token)
        except ValueError:
            return False
        return True

    def is_forced(self) -> bool:
        """Whether one character must come next, but for blanks before it."""
        return self._alphabet.is_forced(self._state)

    def may_pause(self) -> bool:
        """Whether a blank may come next where no text is being written."""
        state = self._state
        return bool(state.allowed(self._alphabet.blanks).any()) and not self._alphabet.is_text(state)

    def close(self) -> None:
        self._state.close()


class Grammar:
    """The text an answer may still become. Close it to give back native memory.

    Copies of a state can be dear, so there are three at most: after what was emitted, at the end of the draft, and one
    that walks along the draft between them.
    """

    def __init__(self, model: Model, text: str) -> None:
        self._model = model
        self._base = GrammarState.begin(model, text)
        self._ahead: list[int] = []
        self._tip: GrammarState | None = None
        self._walk: GrammarState | None = None
        self._walked = 0
        self._next: list[int] | None = None
        self._alphabet = _Alphabet(model)

    def admit(self, tokens: Sequence[int]) -> int:
        """How many of the draft `tokens` may follow, one after the other: these are the draft from now on."""
        agreed = 0
        while agreed < min(len(tokens), len(self._ahead)) and tokens[agreed] == self._ahead[agreed]:
            agreed += 1
        self._forget(agreed)
        for token in tokens[agreed:]:
            if not self._at(len(self._ahead)).allows(token):
                break
            self.push(token)
        return len(self._ahead)

    def push(self, token: int) -> None:
        """The draft goes on with `token`. Raises ValueError when it may not come there."""
        if self._tip is None:
            self._tip = self._base.after(token)
        else:
            self._tip.accept(token)
        self._ahead.append(token)
        self._next = None

    def allowed(self, place: int) -> Allowed:
        """Which tokens may come after the first `place` tokens of the draft; beyond it, after all of it.

        To be asked before anything else is: the state behind it moves.
        """
        return partial(self._alphabet.allowed, self._at(place))

    def advance(self, token: int) -> None:
        """`token` was emitted: the draft either goes on behind it or is forgotten."""
        self._next = None
        if not self._ahead or self._ahead[0] != token:
            self._forget(0)
            self._base.accept(token)
            return
        self._base.accept(token)
        self._ahead.pop(0)
        self._walked -= 1
        if self._walked < 0:
            self._drop_walk()
        if not self._ahead:
            self._forget(0)

    def may_be_longer(self, place: int, token: int) -> bool:
        """Whether a longer token that begins with the text of `token` may come after the first `place` tokens."""
        piece, heads = self._model.piece(token), self._alphabet.heads
        alike = heads[:, 0] == piece[0]
        if len(piece) > 1:
            alike &= heads[:, 1] == piece[1]
        ids = alike.nonzero()[0].astype(np.int32)
        ids = ids[self.allowed(place)(ids)]
        pieces = (self._model.piece(int(other)) for other in ids)
        return any(len(other) > len(piece) and other.startswith(piece) for other in pieces)

    def is_complete(self, place: int = 0) -> bool:
        """Whether the text may end after the first `place` tokens of the draft, and nothing else may come."""
        state = self._at(place)
        return bool(state.allowed(self._alphabet.ends).any()) and not self._alphabet.next_bytes(state)

    def forced(self, limit: int, spacing: Spacing | None = None) -> bytes:
        """The only text that may come behind the draft, at most `limit` bytes, found byte by byte; empty when there is
        a choice. Where the choice is of white space only, `spacing` may make it."""
        alone, ends = self._alphabet.alone, self._alphabet.ends
        start = state = self._at(self.ahead)
        spaces = spacing.behind([self._model.piece(token) for token in self._ahead]) if spacing else None
        text = b""
        while len(text) < limit and not self._alphabet.is_text(state) and not state.allowed(ends).any():
            choices = self.next_bytes() if state is start else self._alphabet.next_bytes(state)
            byte = choices[0] if len(choices) == 1 else spaces.choose(choices) if spaces else None
            if byte not in alone:
                break
            if state is start:
                state = start.clone()
            state.accept(alone[byte])
            if spaces:
                spaces.wrote(byte)
            text += bytes([byte])
        return text

    @property
    def ahead(self) -> int:
        """How many tokens the draft has."""
        return len(self._ahead)

    def allows(self, token: int) -> bool:
        """Whether `token` may come behind the draft."""
        return self._at(self.ahead).allows(token)

    def next_bytes(self) -> list[int]:
        """Which bytes may come behind the draft, ascending."""
        if self._next is None:
            self._next = self._alphabet.next_bytes(self._at(self.ahead))
        return self._next

    def is_text(self) -> bool:
        """Whether any letter may come behind the draft."""
        return self._alphabet.is_text(self._at(self.ahead))

    def is_forced(self) -> bool:
        """Whether one character must come behind the draft, but for blanks before it."""
        return not self.is_text() and len([byte for byte in self.next_bytes() if byte not in BLANK]) == 1

    def cut(self, length: int) -> None:
        """Forget the draft but for its first `length` tokens."""
        self._forget(length)

    def follower(self) -> "Follower":
        """What follows the text byte by byte, from where it stands now."""
        return Follower(self._alphabet, self._base.clone())

    def close(self) -> None:
        self._forget(0)
        self._base.close()

    def _at(self, place: int) -> GrammarState:
        """The state after the first `place` tokens of the draft."""
        if place <= 0:
            return self._base
        if place >= len(self._ahead):
            return self._tip or self._base
        if self._walk is None or self._walked > place:
            self._drop_walk()
            self._walk = self._base.clone()
        for token in self._ahead[self._walked : place]:
            self._walk.accept(token)
        self._walked = place
        return self._walk

    def _forget(self, keep: int) -> None:
        """Cut the draft to its first `keep` tokens."""
        if keep < len(self._ahead) or keep == 0:
            self._next = None
            kept = self._at(keep).clone() if keep else None
            if self._tip is not None:
                self._tip.close()
            self._tip = kept
            if self._walked > keep or keep == 0:
                self._drop_walk()
            del self._ahead[keep:]

    def _drop_walk(self) -> None:
        if self._walk is not None:
            self._walk.close()
        self._walk, self._walked = None, 0


def grammar_for(model: Model, request: Request) -> tuple[Grammar | None, list[str]]:
    """The grammar of a request, if it has one, with sentences for the person about what it does not hold.

    Raises `EngineError` for a grammar or schema that cannot be used.
    """
    if request.grammar is None and request.json_schema is None:
        return None, []
    if request.grammar is not None and request.json_schema is not None:
        raise EngineError("a grammar and a JSON schema both bound the text: give one of them")
    notes = []
    text = request.grammar or ""
    if request.json_schema is not None:
        text, ignored = schema.grammar_of(request.json_schema)
        if ignored:
            notes.append(f"The JSON schema's {', '.join(ignored)} cannot be put into a grammar and may not be met.")
    gbnf.check(text)
    return Grammar(model, text), notes
