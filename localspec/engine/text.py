"""From token bytes to text that may be shown: characters joined across tokens, stop strings held back and cut."""

import codecs
from collections.abc import Sequence
from dataclasses import replace

from localspec.engine.events import Token


class TextStream:
    """The text of one answer, token by token.

    A token's text is what its bytes complete; bytes that cannot be UTF-8 become U+FFFD at once. Tokens come out whole,
    in order, and as soon as their text is safe: text that may still become one of the `stop` strings is held, and
    released when it turns away. Raises ValueError for an empty stop string.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        if "" in stop:
            raise ValueError("a stop string must not be empty")
        self._stop = tuple(dict.fromkeys(stop))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[Token] = []
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """A stop string was completed by the last token pushed; nothing after it counts."""
        return self._stopped

    def push(self, token: Token, piece: bytes) -> list[Token]:
        """Take the next token with its bytes; return the tokens whose text is now certain (`text` filled in).

        When `piece` completes a stop string, all that was held comes out with the text cut where the stop begins: the
        token it begins in keeps what stands before it, the ones inside have no text. Of several stop strings complete
        by then the one that begins first counts, as in llama-server. Later pushes return nothing.
        """
        if self._stopped:
            return []
        self._held.append(replace(token, text=self._decoder.decode(piece)))
        text = "".join(held.text for held in self._held)
        found = [at for at in map(text.find, self._stop) if at >= 0]
        if found:
            self._stopped = True
            return self._cut(min(found))
        safe = len(text) - self._open(text)
        unfinished = bool(self._decoder.getstate()[0])
        # The last token of an unfinished character waits: should the text end here, it carries the replacement mark.
        count, end = 0, 0
        for held in self._held[: -1 if unfinished else None]:
            end += len(held.text)
            if end > safe:
                break
            count += 1
        return self._take(count)

    def finish(self) -> list[Token]:
        """The answer ends here: release what is held, an unfinished character as U+FFFD."""
        rest = self._decoder.decode(b"", final=True)
        if not self._held:
            return []
        self._held[-1] = replace(self._held[-1], text=self._held[-1].text + rest)
        return self._take(len(self._held))

    def _open(self, text: str) -> int:
        """The length of the longest end of `text` that begins a stop string."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest

    def _cut(self, start: int) -> list[Token]:
        cut: list[Token] = []
        for held in self._take(len(self._held)):
            cut.append(replace(held, text=held.text[:start]))
            start = max(0, start - len(held.text))
        return cut

    def _take(self, count: int) -> list[Token]:
        taken, self._held = self._held[:count], self._held[count:]
        return taken
