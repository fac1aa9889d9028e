"""The token cursor and the finds of a transcript: where they are, and where a step takes them. No widget here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from localspec.tui.blocks import Block, Place, Section
from localspec.tui.flow import Flow

Move = Literal["left", "right", "up", "down", "cycle_back", "cycle_on"]


@dataclass(frozen=True, slots=True)
class Found:
    """A place where a sought text occurs: characters of a block's flow."""

    block: int
    section: Section
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """On a block (None: nowhere), and there on a token (None: on the block as a whole)."""

    block: int | None = None
    place: Place | None = None

    def moved(self, blocks: Sequence[Block], move: Move) -> "Cursor":
        """One step on. Without a place it comes to the end of the block's answer, or of the last one."""
        index = self.block if self.block is not None else _last_answer(blocks)
        if index is None:
            return self
        places = _places(blocks[index])
        if not places:
            return _stepped(blocks, index, move)
        if self.place is None or self.place not in places:
            return Cursor(index, places[0] if self.block is not None and move in ("right", "down") else places[-1])
        at = places.index(self.place)
        match move:
            case "left" | "right":
                to = at + (1 if move == "right" else -1)
            case "cycle_back" | "cycle_on":
                to = _other_cycle(blocks[index], places, at, 1 if move == "cycle_on" else -1)
            case _:
                to = _other_line(blocks[index], places, at, 1 if move == "down" else -1)
        if 0 <= to < len(places):
            return Cursor(index, places[to])
        return _stepped(blocks, index, move)

    @staticmethod
    def place_at(block: Block, row: int, cell: int) -> Place | None:
        """The token at a cell of a block's row."""
        kind, line = block.row(row)
        if kind not in ("text", "thought"):
            return None
        section: Section = "text" if kind == "text" else "thoughts"
        flow = block.flows[section]
        start, end = flow.bounds(line)
        at = start
        while at < end and cell_len(flow.text[start : at + 1]) <= cell:
            at += 1
        if at >= end:
            return None
        span = flow.span_at(at)
        return Place(section, span) if flow.tokens[span] >= 0 else None


def _last_answer(blocks: Sequence[Block]) -> int | None:
    answers = (i for i in range(len(blocks) - 1, -1, -1) if blocks[i].turn.role == "assistant")
    return next(answers, len(blocks) - 1 if blocks else None)


def _stepped(blocks: Sequence[Block], index: int, move: Move) -> Cursor:
    """Off the end of a block: to the next one as a whole."""
    step = 1 if move in ("right", "down", "cycle_on") else -1
    return Cursor(min(len(blocks) - 1, max(0, index + step)))


def _places(block: Block) -> list[Place]:
    """The tokens of a block that can be seen, in order."""
    if block.markdown:
        return []
    sections: list[Section] = ["text"] if block.folded else ["thoughts", "text"]
    return [
        Place(section, span)
        for section in sections
        for span, token in enumerate(block.flows[section].tokens)
        if token >= 0
    ]


def _other_cycle(block: Block, places: Sequence[Place], at: int, step: int) -> int:
    """The first token of the next cycle, or of the one before."""

    def cycle(index: int) -> int:
        found = block.part(places[index])
        return found[1].token.cycle if found else -1

    here = cycle(at)
    to = at
    while 0 <= to < len(places) and cycle(to) == here:
        to += step
    if step < 0 and 0 <= to < len(places):
        first = cycle(to)
        while to > 0 and cycle(to - 1) == first:
            to -= 1
    return to


def _column(flow: Flow, at: int) -> tuple[int, int]:
    line = flow.line_of(at)
    return line, cell_len(flow.text[flow.lines[line] : at])


def _other_line(block: Block, places: Sequence[Place], at: int, step: int) -> int:
    """The token nearest to the same column on the next line that has one."""
    place = places[at]
    flow = block.flows[place.section]
    line, column = _column(flow, flow.starts[place.span])
    best, distance, target = len(places) if step > 0 else -1, 1 << 30, None
    to = at + step
    while 0 <= to < len(places):
        other = places[to]
        their = block.flows[other.section]
        their_line, their_column = _column(their, their.starts[other.span])
        key = (other.section, their_line)
        if key != (place.section, line):
            if target is not None and key != target:
                break
            target = key
            if abs(their_column - column) < distance:
                best, distance = to, abs(their_column - column)
        to += step
    return best


def find_all(blocks: Sequence[Block], needle: str) -> list[Found]:
    """Every place where `needle` occurs in what the blocks can show, without regard to case, in order."""
    if not needle:
        return []
    wanted = needle.casefold()
    found = []
    for index, block in enumerate(blocks):
        sections: tuple[Section, ...] = ("thoughts", "text")
        for section in sections:
            text = block.flows[section].text
            # Case folding may change the length of a text ("ß"): then the places are sought in lower case.
            folded = text.casefold()
            folded = folded if len(folded) == len(text) else text.lower() if len(text.lower()) == len(text) else text
            at = folded.find(wanted)
            while at >= 0:
                found.append(Found(index, section, at, at + len(wanted)))
                at = folded.find(wanted, at + len(wanted))
    return found
