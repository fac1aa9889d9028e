"""Reading a GGUF's bytes without believing them.

Every length and count comes from the file and may lie, so each is held against what the file has left before anything
is allocated, and against a bound no real model reaches. Reads are buffered, not mapped: a file that shrinks under a
mapping kills the process.
"""

import struct
from typing import TYPE_CHECKING, BinaryIO

from localspec.models.errors import DamagedGGUF, plain
from localspec.models.gguf_types import SCALARS

if TYPE_CHECKING:
    import numpy as np

MAX_TEXT = 16 << 20
"""Longest single text, bytes: the longest chat templates and embedded tokenizers are some megabytes."""

MAX_TEXTS = 1 << 23
"""Texts in all lists of a file together: the largest vocabularies have half a million tokens and merges."""

MAX_NUMBERS = 1 << 22
"""Longest list of numbers that is read, elements."""

_WINDOW = 64 << 10
_LIST_WINDOW = 128 << 10  # fits the processor's cache with the arrays made from it
_WALK = 256  # texts walked one by one before the fast path is tried again: a break in a list costs microseconds

_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")


class Cursor:
    """A position in an open file of `size` bytes that only moves forward; every method raises `DamagedGGUF` where the
    file cannot hold what it claims. `what` names what is read, for the message; it may come from the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._buffer = b""
        self._base = 0
        self._at = 0
        self._texts = 0

    @property
    def position(self) -> int:
        """Bytes from the file's start."""
        return self._base + self._at

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes; the caller has bounded `count`."""
        end = self._at + count
        if end > len(self._buffer):
            self._fill(count, _WINDOW, what)
            end = count
        chunk = self._buffer[self._at : end]
        self._at = end
        return chunk

    def skip(self, count: int, what: str) -> None:
        self._require(count, what)
        self._at += count
        if self._at > len(self._buffer):
            self._base += self._at
            self._buffer, self._at = b"", 0

    def rewind(self, position: int) -> None:
        """Back to a position in the first window, which must still be buffered."""
        self._at = position - self._base

    def u32(self, what: str) -> int:
        return int(_U32.unpack(self.take(4, what))[0])

    def u64(self, what: str) -> int:
        return int(_U64.unpack(self.take(8, what))[0])

    def text(self, what: str) -> bytes:
        """A length and that many bytes."""
        length = self.u64(what)
        self._bound(length, what)
        return self.take(length, what)

    def tensor_row(self, longest_name: int, most_dimensions: int) -> tuple[bytes, tuple[int, ...], int, int]:
        """A row of the tensor table: name, shape, type, offset."""
        length = self.u64("a tensor name")
        if length > longest_name:
            raise DamagedGGUF(f"a tensor name claims {length:,} bytes")
        raw = self.take(length + 4, "a tensor name")
        name = raw[:length]
        dimensions = _U32.unpack_from(raw, length)[0]
        if not 1 <= dimensions <= most_dimensions:
            raise DamagedGGUF(f"the tensor {plain(name)} claims {dimensions:,} dimensions")
        *shape, kind, offset = struct.unpack(f"<{dimensions}QIQ", self.take(8 * dimensions + 12, "a tensor"))
        return name, tuple(shape), kind, offset

    def scalar(self, kind: int, what: str) -> int | float:
        """One number of a type in `SCALARS`."""
        form = SCALARS[kind]
        value: int | float = struct.unpack(form, self.take(struct.calcsize(form), what))[0]
        return value

    def numbers(self, kind: int, count: int, what: str) -> tuple[int | float, ...]:
        """A list of `count` numbers of a type in `SCALARS`."""
        form = SCALARS[kind]
        size = struct.calcsize(form) * count
        self._require(size, what)
        if count > MAX_NUMBERS:
            raise DamagedGGUF(f"{plain(what)} claims {count:,} numbers, more than any model has")
        return struct.unpack(f"<{count}{form[1]}", self.take(size, what))

    def skip_numbers(self, kind: int, count: int, what: str) -> None:
        self.skip(struct.calcsize(SCALARS[kind]) * count, what)

    def texts(self, count: int, what: str, into: list[bytes] | None = None) -> None:
        """Passes over a list of `count` texts, adding them to `into` when it is given.

        The list is a chain: where a text ends is known only from its length, 300,000 steps for a usual vocabulary. So
        candidate positions are found for a whole window at once (a length below 256 has seven zero bytes), and a run
        is taken only where each candidate's end *is* the next candidate: that is the walk itself, in another order.
        Where it does not hold (an empty text, zero bytes in a text, a long text) the list is walked one by one.
        """
        self._require(8 * count, what)
        self._texts += count
        if self._texts > MAX_TEXTS:
            raise DamagedGGUF(f"{plain(what)} claims {count:,} texts, more than any model has")
        while count:
            before = count
            count = self._texts_in_window(count, what, into)
            if count and count == before:
                self._fill(8 + self._peek_length(what), _LIST_WINDOW, what)

    def _peek_length(self, what: str) -> int:
        """The next text's length, which stays unread."""
        if self._at + 8 > len(self._buffer):
            self._fill(8, _LIST_WINDOW, what)
        length = int(_U64.unpack_from(self._buffer, self._at)[0])
        self._bound(length, what)
        return length

    def _texts_in_window(self, count: int, what: str, into: list[bytes] | None) -> int:
        """Takes the texts that lie whole in the buffer; how many of `count` are left."""
        buffer, at = self._buffer, self._at
        chains = _Chains(buffer, at) if len(buffer) - at >= 64 and count > 64 else None
        size = len(buffer)
        while count:
            run = chains.run(at, count) if chains else None
            if run is not None:
                starts, ends = run
                if into is not None:
                    into.extend([buffer[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
                count -= len(starts)
                at = int(ends[-1])
                continue
            walked = 0
            while count and walked < _WALK and at + 8 <= size:
                end = at + 8 + _U64.unpack_from(buffer, at)[0]
                if end > size:
                    break
                if into is not None:
                    into.append(buffer[at + 8 : end])
                at = end
                count -= 1
                walked += 1
            if walked < _WALK:
                break
        self._at = at
        return count

    def _bound(self, length: int, what: str) -> None:
        self._require(length, what)
        if length > MAX_TEXT:
            raise DamagedGGUF(f"{plain(what)} claims {length:,} bytes, more than any model has")

    def _require(self, count: int, what: str) -> None:
        left = self._size - self.position
        if count > left:
            raise DamagedGGUF(f"{plain(what)} claims {count:,} bytes and {left:,} are left in the file")

    def _fill(self, count: int, window: int, what: str) -> None:
        """Buffers at least `count` bytes from the position on."""
        self._require(count, what)
        start = self.position
        self._file.seek(start)
        self._buffer = self._file.read(max(count, window))
        self._base, self._at = start, 0
        if len(self._buffer) < count:
            raise DamagedGGUF(f"{plain(what)} could not be read: the file became shorter meanwhile")


class _Chains:
    """The candidate texts of a window and where the chain through them breaks."""

    def __init__(self, buffer: bytes, start: int) -> None:
        import numpy as np  # a tenth of a second, which a file without lists need not pay

        size = len(buffer)
        raw = np.frombuffer(buffer, np.uint8)
        # Seven zero bytes cover exactly one aligned four-byte word, which is found four times faster than they are.
        words = np.frombuffer(buffer, "<u4", size // 4)
        before_zero = np.flatnonzero(words[1:] == 0)
        before_zero = before_zero[before_zero.searchsorted(start // 4) :]
        # The length is the last byte before that word that is not zero: the top one in the word before.
        word = words.take(before_zero)
        byte = (word >= 1 << 8).view(np.int8) + (word >= 1 << 16) + (word >= 1 << 24)
        heads = before_zero * 4 + byte
        heads = heads[heads.searchsorted(start) : heads.searchsorted(size - 8, "right")]
        ends = heads + 8 + raw.take(heads)
        # Up to three of the seven bytes lie behind the word: if one is not zero, this is no length below 256.
        behind = raw[5:].take(heads) | raw[6:].take(heads) | raw[7:].take(heads)
        ends[behind != 0] = size + 1
        self._heads = heads
        self._ends = ends
        self._breaks = np.flatnonzero(ends[:-1] != heads[1:])
        self._size = size

    def run(self, at: int, limit: int) -> "tuple[np.ndarray, np.ndarray] | None":
        """Starts and ends of up to `limit` texts chained from the head at `at`, whole in the window; None: no fast way
        from here."""
        first = int(self._heads.searchsorted(at))
        if first == len(self._heads) or self._heads[first] != at:
            return None
        at_break = int(self._breaks.searchsorted(first))
        last = int(self._breaks[at_break]) if at_break < len(self._breaks) else len(self._heads) - 1
        last = min(last, first + limit - 1)
        if self._ends[last] > self._size:
            last -= 1
        if last < first:
            return None
        return self._heads[first : last + 1] + 8, self._ends[first : last + 1]
