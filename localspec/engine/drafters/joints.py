"""How a token joins on to the one before it: within a word a copy hardly ever breaks off, behind a sentence it often
does."""

from collections.abc import Callable
from typing import Literal, get_args
from unicodedata import east_asian_width

Joint = Literal["word", "inner", "blank", "line", "sign", "digit", "comma", "stop", "clause", "sentence", "unknown"]
"""What the token is: the beginning of a word, or letters behind letters; white space, or the end of a line; a sign, a
digit, a comma, the stop of a sentence. Or what it stands behind: a comma, a stop. "unknown" where texts are not known.
"""

JOINTS: tuple[Joint, ...] = get_args(Joint)

_STOPS, _COMMAS = ".!?。！？", ",;:，；：、"
_CLOSING = "\"')]*”’»」』）》"
"""What may stand between a stop and the blank behind it."""


def joint(before: bytes, token: bytes) -> Joint:
    """How `token` joins on to `before`, by their texts."""
    if not token:
        return "unknown"
    text = token.decode("utf-8", "ignore")
    if not text:
        # A part of a character.
        return "inner"
    last = before.decode("utf-8", "ignore")
    bare = text.strip()
    if not bare:
        return "line" if "\n" in text else "blank"
    glued = not text[0].isspace()
    apart = not glued or last[-1:].isspace()
    if behind := last.rstrip().rstrip(_CLOSING)[-1:]:
        wide = not behind.isascii()
        if behind in _STOPS and (apart or wide):
            return "sentence"
        if behind in _COMMAS and (apart or wide):
            return "clause"
    head = bare[0]
    if glued and head in _STOPS and not bare.strip(_STOPS + _CLOSING):
        return "stop"
    if glued and head in _COMMAS:
        return "comma"
    if head.isdigit():
        return "digit"
    if not head.isalpha():
        return "sign"
    # What is no text by itself is a part of a letter.
    behind_letter = last[-1:].isalnum() or (bool(before) and not last)
    return "inner" if not apart and behind_letter and not _is_wide(head) else "word"


def _is_wide(letter: str) -> bool:
    """Scripts written without blanks have words of one letter or two."""
    return east_asian_width(letter) in "WF"


class Joints:
    """The joints of a vocabulary's tokens, by `piece`, a token's text; each worked out once."""

    def __init__(self, piece: Callable[[int], bytes] | None = None) -> None:
        self._piece = piece
        self._known: dict[tuple[int, int], Joint] = {}

    def between(self, before: int, token: int, *, in_code: bool = False) -> Joint:
        """How `token` joins on to `before`; negative ids are none. In code there are no sentences: what looks like one
        is a comment or a licence, which a copy goes on with as with the code."""
        if self._piece is None or token < 0:
            return "unknown"
        pair = before, token
        known = self._known.get(pair)
        if known is None:
            known = self._known[pair] = joint(self._piece(before) if before >= 0 else b"", self._piece(token))
        return "clause" if known == "sentence" and in_code else known
