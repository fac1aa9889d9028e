"""Which pieces of neighbouring files go into a prompt: those that share the rare names around the gap, best first,
until the budget of tokens is used up.

A name counts by how few of the files have it (inverse document frequency); a piece that defines a name used at the gap
counts more than one that merely uses it, and imported files count more than others.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from localspec.assist.neighbours import Neighbour
from localspec.assist.place import Place

PIECE_LINES = 40
"""Lines a piece has at most: about a function with its documentation."""

LINES_BEFORE, LINES_BEHIND = 60, 20
"""The surroundings of the gap whose names count."""

DEFINES, IMPORTED, SAME_FOLDER = 3.0, 1.5, 1.2
"""Weights: a definition tells how a name is used in one place; what the file imports it is likely to use."""

MIN_PIECE_TOKENS = 24
"""With less budget left nothing useful fits."""

_NAME = re.compile(r"[^\W\d]\w{2,}")
_DEFINED = re.compile(
    r"^[ \t]*(?:export\s+|public\s+|static\s+|async\s+|pub\s+)*"
    r"(?:def|class|function|fn|func|struct|enum|trait|interface|type|const|let|var|#\s*define)\s+(\w{3,})",
    re.MULTILINE,
)
_COMMON_NAMES = (
    "self this return import from def class function const let var for while with else elif not and None True False "
    "null true false new public private static void int str the that are"
)


_COMMON = frozenset(_NAME.findall(_COMMON_NAMES))


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of a neighbouring file, from `first_line` on."""

    name: str
    text: str
    first_line: int


def pieces_for(
    place: Place, near: Sequence[Neighbour], budget: int, count: Callable[[str], int], *, most: int = 24
) -> list[Piece]:
    """The most telling pieces of `near` that `budget` tokens hold, the best last, next to the gap.

    `count` gives the tokens of a text (with its file's name); it is asked for `most` pieces at most.
    """
    wanted = _names("\n".join([*place.prefix.split("\n")[-LINES_BEFORE:], *place.suffix.split("\n")[:LINES_BEHIND]]))
    names_of = [_names(file.text) for file in near]
    files = Counter(name for names in names_of for name in names)
    weight = {name: math.log(1 + len(near) / files[name]) for name in wanted & files.keys()}
    ranked: list[tuple[float, float, Piece]] = []
    for file, names in zip(near, names_of, strict=True):
        if not names & weight.keys():
            continue
        factor = (IMPORTED if file.imported else 1.0) * (SAME_FOLDER if file.same_folder else 1.0)
        for piece in _cut(file):
            score = factor * _score(piece.text, weight)
            if score > 0:
                ranked.append((score, file.modified, piece))
    ranked.sort(key=lambda entry: (-entry[0], -entry[1], entry[2].name, entry[2].first_line))
    chosen: list[Piece] = []
    for _, _, piece in ranked[:most]:
        cost = count(f"{piece.name}\n{piece.text}")
        if cost <= budget:
            chosen.append(piece)
            budget -= cost
        if budget < MIN_PIECE_TOKENS:
            break
    return _joined(chosen[::-1])


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text)) - _COMMON


def _score(text: str, weight: dict[str, float]) -> float:
    names = _names(text) & weight.keys()
    defined = set(_DEFINED.findall(text)) & weight.keys()
    return sum(weight[name] for name in names) + (DEFINES - 1) * sum(weight[name] for name in defined)


def _cut(file: Neighbour) -> list[Piece]:
    """A file in pieces, cut in front of lines at the margin where that is possible."""
    lines = file.text.splitlines(keepends=True)
    pieces: list[Piece] = []
    start = 0
    while start < len(lines):
        end = min(start + PIECE_LINES, len(lines))
        if end < len(lines):
            margins = [at for at in range(start + 1, end + 1) if _begins(lines, at)]
            end = margins[-1] if margins else end
        pieces.append(Piece(file.name, "".join(lines[start:end]), start + 1))
        start = end
    return pieces


def _begins(lines: Sequence[str], at: int) -> bool:
    """Whether a block at the margin begins in line `at` (from 0): it follows an empty line, and is not indented."""
    return bool(lines[at].strip()) and not lines[at][0].isspace() and not lines[at - 1].strip()


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of one file together, in the file's order, where the best of them stands; neighbours become one."""
    last = {piece.name: at for at, piece in enumerate(pieces)}
    ordered = sorted(pieces, key=lambda piece: (last[piece.name], piece.first_line))
    joined: list[Piece] = []
    for _, group in groupby(ordered, key=lambda piece: piece.name):
        for number, piece in enumerate(group):
            before = joined[-1] if number else None
            if before is not None and before.first_line + before.text.count("\n") == piece.first_line:
                joined[-1] = Piece(piece.name, before.text + piece.text, before.first_line)
            else:
                joined.append(piece)
    return joined
