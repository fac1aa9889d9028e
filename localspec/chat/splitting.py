"""Telling thoughts from the answer, token by token.

A splitter takes the engine's tokens and gives back `Part`s: each token once and in order, its text divided into answer
and thought, the markers gone. Text that may still become a marker is held back with its tokens, and released the
moment it turns away. No other text is changed; only the newlines that belong to a marker go with it.
"""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from localspec.engine.events import Token


@dataclass(frozen=True, slots=True)
class Part:
    """One token, with its share of the answer and of the thoughts (mostly one of them, often neither)."""

    token: Token
    text: str
    thought: str = ""


class Splitter(Protocol):
    """`push` every token, then `finish` once."""

    def push(self, token: Token) -> list[Part]: ...

    def finish(self) -> list[Part]: ...


class Plain:
    """For models that do not think: all text is the answer."""

    def push(self, token: Token) -> list[Part]:
        return [Part(token, token.text)]

    def finish(self) -> list[Part]:
        return []


class _Held:
    """Tokens whose text is not decided yet, as a queue that is consumed by characters."""

    def __init__(self) -> None:
        self.text = ""
        self._tokens: deque[tuple[Token, int]] = deque()
        self._answer = ""
        self._thought = ""

    def push(self, token: Token) -> None:
        self.text += token.text
        self._tokens.append((token, len(token.text)))

    def take(self, count: int, to: str) -> list[Part]:
        """Decide the first `count` characters: `to` is "text", "thought" or "marker". Whole tokens come out."""
        parts = []
        while self._tokens:
            token, left = self._tokens[0]
            share = min(count, left)
            piece, self.text = self.text[:share], self.text[share:]
            self._answer += piece if to == "text" else ""
            self._thought += piece if to == "thought" else ""
            count -= share
            if share < left:
                self._tokens[0] = (token, left - share)
                break
            self._tokens.popleft()
            parts.append(Part(token, self._answer, self._thought))
            self._answer = self._thought = ""
        return parts


class MarkerSplitter:
    """Thoughts between an opening and a closing text.

    A thought opens only at the very start of the answer (or in the prompt, `opened`): later on the marker is a word
    like any other. An answer that ends inside its thought has no answer text.
    """

    def __init__(self, opening: str, closing: str, *, opened: bool) -> None:
        self._opening, self._closing = opening, closing
        self._state = "thought" if opened else "start"
        self._skip_newlines = opened
        self._held = _Held()

    def push(self, token: Token) -> list[Part]:
        if self._state == "answer" and not self._skip_newlines and not self._held.text:
            return [Part(token, token.text)]
        self._held.push(token)
        parts: list[Part] = []
        while True:
            before = (self._state, len(self._held.text), self._skip_newlines)
            parts += self._step()
            if (self._state, len(self._held.text), self._skip_newlines) == before:
                return parts

    def finish(self) -> list[Part]:
        return self._held.take(len(self._held.text), "thought" if self._state == "thought" else "text")

    def _step(self) -> list[Part]:
        text = self._held.text
        if self._skip_newlines:
            newlines = len(text) - len(text.lstrip("\n"))
            self._skip_newlines = newlines == len(text)
            return self._held.take(newlines, "marker")
        if self._state == "start":
            body = text.lstrip()
            if body.startswith(self._opening):
                self._state, self._skip_newlines = "thought", True
                return self._held.take(len(text) - len(body) + len(self._opening), "marker")
            if not self._opening.startswith(body):
                self._state = "answer"
            return []
        if self._state == "thought":
            at = text.find(self._closing)
            if at < 0:
                return self._held.take(len(text) - _overlap(text, self._closing), "thought")
            self._state, self._skip_newlines = "answer", True
            parts = self._held.take(at, "thought")
            return parts + self._held.take(len(self._closing), "marker")
        return self._held.take(len(text), "text")


class ChannelSplitter:
    """gpt-oss: `<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...`.

    Headers go; the `final` channel is the answer, every other one is thought. The markers are control tokens, and only
    those count: the same letters as plain text are text.
    """

    def __init__(self, *, final: bool = True) -> None:
        self._header: str | None = None
        self._final = final

    def push(self, token: Token) -> list[Part]:
        if token.control:
            if token.text == "<|message|>":
                self._final = "final" in (self._header or "final")
                self._header = None
            elif token.text in ("<|start|>", "<|channel|>", "<|end|>"):
                self._header = ""
            return [Part(token, "")]
        if self._header is not None:
            self._header += token.text
            return [Part(token, "")]
        return [Part(token, token.text) if self._final else Part(token, "", token.text)]

    def finish(self) -> list[Part]:
        return []


def _overlap(text: str, marker: str) -> int:
    """The length of the longest end of `text` that begins `marker`."""
    return next((n for n in range(min(len(text), len(marker) - 1), 0, -1) if text.endswith(marker[:n])), 0)
