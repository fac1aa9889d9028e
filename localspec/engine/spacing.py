"""White space where a grammar leaves it open: a text sets it as it did before behind the same character."""

from collections.abc import Sequence

BLANK = frozenset(b" \t\n\r")

FEW = 24
"""With more bytes to choose from a text is inside a string, where a blank is a character like any other."""

PAUSES = b":,"
"""Behind these a blank is a matter of style, and the same style mostly behind both. Behind anything else nobody sets
one where it may as well be left out."""


class Spacing:
    """What an answer did so far. Told every byte, and whether white space was open behind it."""

    def __init__(self) -> None:
        self._runs: dict[int, bytes] = {}
        self._before: int | None = None
        self._run = b""
        self._open: int | None = None

    def wrote(self, byte: int, *, pauses: bool) -> None:
        """The text went on with `byte`, behind which a blank was open; nobody need ask behind a blank."""
        if byte in BLANK:
            self._run += bytes([byte])
            return
        if self._open is not None:
            self._runs[self._open] = self._run
        self._before, self._run = byte, b""
        self._open = byte if pauses else None

    def behind(self, pieces: Sequence[bytes]) -> "Spaces":
        """Behind the text so far and `pieces`."""
        spaces = Spaces(self, self._before, self._run)
        for byte in b"".join(pieces):
            spaces.wrote(byte)
        return spaces

    def usual(self, byte: int) -> bytes | None:
        """The white space that follows `byte`; None when nothing is known."""
        known = self._runs.get(byte)
        if known is None:
            known = (
                next((self._runs[other] for other in PAUSES if other in self._runs), None) if byte in PAUSES else b""
            )
        return known


class Spaces:
    """Chooses along a draft."""

    def __init__(self, spacing: Spacing, before: int | None, run: bytes) -> None:
        self._spacing, self._before, self._run = spacing, before, run

    def wrote(self, byte: int) -> None:
        if byte in BLANK:
            self._run += bytes([byte])
        else:
            self._before, self._run = byte, b""

    def choose(self, choices: Sequence[int]) -> int | None:
        """The usual one of the bytes that may come next; None where more than white space is open."""
        if self._before is None or not _is_open(choices):
            return None
        usual = self._spacing.usual(self._before)
        if usual is None or not usual.startswith(self._run):
            return None
        if len(self._run) < len(usual):
            return usual[len(self._run)] if usual[len(self._run)] in choices else None
        others = [byte for byte in choices if byte not in BLANK]
        return others[0] if len(others) == 1 else None


def _is_open(choices: Sequence[int]) -> bool:
    return len(choices) <= FEW and any(byte in BLANK for byte in choices)
