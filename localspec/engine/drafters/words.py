"""The words of a prompt as they are cut where no blank stands before them.

A value copied out of a sentence begins behind a quote: `"Petra` is other tokens than ` Petra`, and its first word is
found by its text alone.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile

Cut = Callable[[str], Sequence[int]]
"""The usual tokens of a text."""


class Words:
    """Words of `tokens` that a blank stands before, by their first token without it. Built when first asked: some
    10 µs a word."""

    def __init__(self, tokens: Sequence[int], piece: Callable[[int], bytes], cut: Cut) -> None:
        self._tokens, self._piece, self._cut = tokens, piece, cut
        self._known: dict[int, list[tuple[tuple[int, ...], int]]] | None = None

    def __len__(self) -> int:
        return len(self._tokens)

    def behind(self, value: Sequence[int], place: int) -> tuple[tuple[int, ...], int] | None:
        """Of a word that begins as `value` does: the rest of its tokens, and the place in `tokens` behind it. The first
        such word behind `place`, a text being taken apart in its order, else the first at all."""
        if self._known is None:
            self._known = self._read()
        found = [
            (word[len(value) :], end)
            for word, end in self._known.get(value[0], ())
            if word[: len(value)] == tuple(value)
        ]
        return next((one for one in found if one[1] > place), found[0] if found else None)

    def _read(self) -> dict[int, list[tuple[tuple[int, ...], int]]]:
        known: dict[int, list[tuple[tuple[int, ...], int]]] = {}
        cuts: dict[bytes, tuple[int, ...]] = {}
        for at, token in enumerate(self._tokens):
            head = self._piece(token)
            if head[:1] != b" " or not _is_letter(head[1:2]):
                continue
            parts = [head[1:], *takewhile(lambda part: _is_letter(part[:1]), map(self._piece, self._tokens[at + 1 :]))]
            word = b"".join(parts)
            if word not in cuts:
                cuts[word] = tuple(self._cut(word.decode("utf-8", "ignore")))
            if cuts[word]:
                known.setdefault(cuts[word][0], []).append((cuts[word], at + len(parts)))
        return known


def _is_letter(byte: bytes) -> bool:
    return byte.isalnum() or byte >= b"\x80"
