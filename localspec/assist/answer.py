"""Taking the code block out of a model's answer, and the prose around it apart.

What a fence is, and which ends a block, `engine/fence.py` says. Models close a block with three backticks even when the
text inside has such lines, so the end can often be read in several ways. A reading counts when every block in it is
closed; fence lines inside the block that the original has not are believed only when there is no other reading, and of
the rest the one is taken whose block is most like the original.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches

from localspec.assist.region import opcodes
from localspec.engine.fence import Fence, fence

READINGS = 24
"""Ends of one block that are tried at most; an answer with more fence lines than that is no usable answer."""

ALIKE = 0.7
"""From this likeness on (`SequenceMatcher.ratio`) two lines are one line before and after a change."""
SHORTEST = 4
"""Characters of a line that says something; shorter ones, brackets mostly, stand anywhere."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer's code block, its end of line included, None when there is no usable one (`problem` says why);
    `prose` is the rest of the answer without outer blank lines."""

    code: str | None
    prose: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """Line indices of the opening and the closing fence; the code is between them."""

    opening: int
    closing: int


def find(answer: str, original: str) -> Found:
    """The block in `answer` that is the new text of `original` (line ends unified)."""
    lines = answer.split("\n")
    fences = [fence(line) for line in lines]
    readings = list(_readings(lines, fences))
    if not readings:
        opened = any(fences)
        problem = "the answer's code block has no end" if opened else "the answer has no code block"
        return Found(None, "" if opened else answer.strip("\n"), problem)
    wanted = [line for line in original.split("\n") if line.strip()]
    blocks = max(readings, key=lambda blocks: _likeness(lines, blocks[0], wanted))
    chosen = _whole_text(lines, blocks, wanted)
    if chosen is None:
        problem = "parts of the text stand outside the answer's code block"
        if len(blocks) > 1:
            problem = f"none of the {len(blocks)} code blocks in the answer is the whole text"
        return Found(None, answer.strip("\n"), problem)
    code = lines[chosen.opening + 1 : chosen.closing]
    around = (_stripped(lines[: chosen.opening]), _stripped(lines[chosen.closing + 1 :]))
    return Found("".join(line + "\n" for line in code), "\n\n".join(text for text in around if text))


def fence_for(text: str) -> str:
    """Backticks enough that nothing in the text closes them."""
    return "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])


def _readings(lines: Sequence[str], fences: Sequence[Fence | None], at: int = 0) -> Iterator[list[_Block]]:
    """Every way to read the answer as blocks that are all closed; the usual way, each block ending at the first fence
    that can close it, comes first. The first block may reach further, the ones after it are read the usual way."""
    opening = _next_opening(fences, at)
    if opening is None:
        return
    for closing in _closings(fences, opening)[:READINGS]:
        rest = _usual(fences, closing + 1)
        if rest is not None:
            yield [_Block(opening, closing), *rest]


def _usual(fences: Sequence[Fence | None], at: int) -> list[_Block] | None:
    """The blocks from line `at` on, each closed at the first fence that can; None when one stays open."""
    found: list[_Block] = []
    while (opening := _next_opening(fences, at)) is not None:
        closings = _closings(fences, opening)
        if not closings:
            return None
        found.append(_Block(opening, closings[0]))
        at = closings[0] + 1
    return found


def _next_opening(fences: Sequence[Fence | None], at: int) -> int | None:
    return next((number for number in range(at, len(fences)) if fences[number]), None)


def _closings(fences: Sequence[Fence | None], opening: int) -> list[int]:
    opened = fences[opening]
    assert opened is not None
    return [
        number
        for number in range(opening + 1, len(fences))
        if (found := fences[number]) is not None and found.closes(opened)
    ]


def _likeness(lines: Sequence[str], block: _Block, wanted: Sequence[str]) -> tuple[bool, float, int]:
    """How much a reading is to be believed by its first block; of equals the shorter one, which the usual way gives."""
    inside = [line for line in lines[block.opening + 1 : block.closing] if line.strip()]
    known = Counter(line.strip() for line in wanted if fence(line.strip()))
    foreign = Counter(line.strip() for line in inside if fence(line.strip())) - known
    ratio = SequenceMatcher(None, inside, wanted, autojunk=False).ratio() if wanted else 0.0
    return not foreign, ratio, -block.closing


def _whole_text(lines: Sequence[str], blocks: Sequence[_Block], wanted: Sequence[str]) -> _Block | None:
    """The block that has most of the original, unless lines of the original that it lost stand elsewhere in the answer,
    as they are or changed: a text handed out in pieces has no whole block, while an example of how to use it, or words
    about it, take nothing from the choice."""
    original = [line.strip() for line in wanted if not fence(line.strip())]

    def inside(block: _Block) -> list[str]:
        return [line.strip() for line in lines[block.opening + 1 : block.closing] if line.strip()]

    known = set(original)
    best = max(blocks, key=lambda block: (len(known.intersection(inside(block))), block.closing - block.opening))
    if len(blocks) > 1 and not known:
        return None
    chosen = inside(best)
    lost: list[str] = []
    for _, i1, i2, j1, j2 in opcodes(original, chosen):
        if i2 - i1 > j2 - j1:
            lost += [line for line in original[i1:i2] if len(line) >= SHORTEST]
    outside = {line.strip() for line in [*lines[: best.opening], *lines[best.closing + 1 :]]}
    return None if any(get_close_matches(line, lost, n=1, cutoff=ALIKE) for line in outside) else best


def _stripped(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip("\n")
