"""Code blocks of a prompt that an answer may give back: where one begins, where its text ends, and how it is closed.

Behind a block a prompt goes on, and a tokenizer makes one token of the closing fence's end and the line breaks behind
it. An answer ends with its fence: the same characters are other tokens there.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from localspec.engine.fence import fence
from localspec.engine.requests import SourceText


class Block(NamedTuple):
    """In tokens of the prompt: the fence that opens the block is at `start`, that which closes it at `end`; alone it is
    cut into `closing`. `rewritten`: the answer is expected to be this block, with changes."""

    start: int
    end: int
    closing: tuple[int, ...]
    rewritten: bool


class Vocabulary(Protocol):
    """What is asked of a model here."""

    def piece(self, token: int) -> bytes: ...

    def tokenize(self, text: str) -> list[int]: ...


def blocks_of(model: Vocabulary, prompt: Sequence[int], texts: Sequence[SourceText]) -> list[Block]:
    """The blocks that hold `texts` in `prompt`; one whose fences begin inside a token is left out."""
    if not texts:
        return []
    pieces = [model.piece(token) for token in prompt]
    joined = b"".join(pieces)
    starts = [0, *accumulate(len(piece) for piece in pieces)]

    def token_at(place: int) -> int | None:
        number = bisect_left(starts, place)
        return number if number < len(pieces) and starts[number] == place else None

    found = []
    for text in texts:
        wanted = text.text.encode()
        at = joined.rfind(wanted) if wanted.strip() else -1
        if at < 1:
            continue
        line = joined.rfind(b"\n", 0, at - 1) + 1
        opening = _opening(joined[line:at])
        behind = at + len(wanted)
        behind += joined[behind : behind + 1] == b"\n"
        start, end = token_at(line), token_at(behind)
        if opening and joined.startswith(opening, behind) and start is not None and end is not None:
            closing = tuple(model.tokenize(opening.decode()))
            found.append(Block(start, end, closing, text.rewritten))
    return found


def _opening(line: bytes) -> bytes:
    """The fence that the line opens a block with; empty when it does not."""
    found = fence(line[:-1].decode("utf-8", "replace")) if line.endswith(b"\n") else None
    opening = (found.mark * found.length).encode() if found is not None else b""
    return opening if line.startswith(opening) else b""
