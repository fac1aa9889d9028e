"""Regions, blocks and line ends: nothing is lost, nothing outside is touched."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.assist import region
from localspec.assist.blocks import blocks, fitting, pack
from localspec.assist.edit_file import CannotEdit
from localspec.assist.region import Region, cut, lines_of, newline_of, unified, with_ends
from tests.assist.edits import PATIENT

LINES = st.lists(st.sampled_from(["a", "", "  b", "\tc", "  ", "d\x0c", "e\r"]), max_size=25)


def joined(lines: list[str], ends: list[str]) -> str:
    return "".join(line + end for line, end in zip(lines, ends, strict=True))


@PATIENT
@given(st.text(alphabet="ab\r\n\x0c\u2028\x85", max_size=40))
def test_lines_joined_are_the_text(text: str) -> None:
    lines = lines_of(text)
    assert "".join(lines) == text
    assert all("\n" not in line[:-1] for line in lines)
    assert all(line.endswith("\n") for line in lines[:-1])


@PATIENT
@given(LINES, st.data())
def test_a_text_put_back_unchanged_is_the_same_to_the_byte(lines: list[str], data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    if ends and data.draw(st.booleans()) and lines[-1]:
        ends[-1] = ""
    text = joined([line.rstrip("\r") for line in lines], ends)
    assert with_ends(text, unified(text), newline_of(text)) == text


@PATIENT
@given(LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_uniform_text_stays_uniform(old: list[str], new: list[str], newline: str, final: bool) -> None:
    """New lines get the line ends of the old ones, and the last one has an end when the old last one had."""
    old, new = [line.rstrip("\r") for line in [*old, "z"]], [line.rstrip("\r") for line in [*new, "y"]]
    text = newline.join(old) + newline * final
    made = with_ends(text, "".join(line + "\n" for line in new), newline)
    assert made == newline.join(new) + newline * final


def test_in_a_mixed_text_lines_that_stay_keep_their_ends() -> None:
    old = "a\r\nb\nc\r\nd\r\n"
    assert with_ends(old, "a\nb\nnew\nd\n", newline_of(old)) == "a\r\nb\nnew\r\nd\r\n"


@pytest.mark.parametrize(
    ("spec", "found"),
    [("3-5", Region(3, 5)), ("4", Region(4, 4)), ("8-", Region(8, 10)), (" 1 - 10 ", Region(1, 10))],
)
def test_lines_are_given_as_a_range(spec: str, found: Region) -> None:
    assert region.parse(spec, 10) == found


@pytest.mark.parametrize(("spec", "word"), [
    ("0-3", "10 lines"), ("5-4", "10 lines"), ("9-11", "10 lines"), ("11", "10 lines"), ("a-b", "A-B"), ("", "A-B"),
    ("-3", "A-B"), ("1-2-3", "A-B"),
])  # fmt: skip
def test_lines_that_are_not_there_are_refused(spec: str, word: str) -> None:
    with pytest.raises(CannotEdit, match=word):
        region.parse(spec, 10)


@PATIENT
@given(LINES, st.data())
def test_a_cut_text_is_the_same_joined(lines: list[str], data: st.DataObject) -> None:
    text = [line + "\n" for line in lines]
    first = data.draw(st.integers(1, len(text) + 1))
    last = data.draw(st.integers(first - 1, len(text)))
    assert "".join(cut(text, Region(first, last))) == "".join(text)


def test_blank_lines_at_the_ends_are_no_part_of_the_core() -> None:
    lines = ["\n", "  \n", "a\n", "\n", "b\n", "\n"]
    assert region.core(lines, Region(1, 6)) == Region(3, 5)
    assert region.core(lines, Region(1, 2)) == Region(1, 2)


SOURCE = """\
import os

X = 1

class A:
    def f(self):
        return 1

    def g(self):
        return 2


@decorated
def h():

    return 3
"""


def test_blocks_begin_at_the_lowest_indentation_after_a_blank_line() -> None:
    lines = lines_of(SOURCE)
    found = blocks(lines, region.whole(lines))
    assert [lines[block.first - 1].strip() for block in found] == ["import os", "X = 1", "class A:", "@decorated"]


def test_blocks_of_a_part_go_by_its_own_lowest_indentation() -> None:
    lines = lines_of(SOURCE)
    found = blocks(lines, Region(6, 10))
    assert found == [Region(6, 8), Region(9, 10)]


def test_a_block_that_does_not_fit_is_taken_apart() -> None:
    """A class into its methods; what has no blank line in it stays whole."""
    lines = lines_of(SOURCE)

    def within(limit: int) -> list[Region]:
        return list(fitting(lines, Region(5, 16), lambda part: part.last - part.first < limit))

    assert within(8) == [Region(5, 12), Region(13, 16)]
    assert within(5) == [Region(5, 8), Region(9, 12), Region(13, 16)]
    assert within(2) == [Region(5, 8), Region(9, 12), Region(13, 15), Region(16, 16)]


@PATIENT
@given(LINES, st.integers(1, 12))
def test_pieces_that_fit_cover_every_line_once(lines: list[str], limit: int) -> None:
    text = [line + "\n" for line in lines]
    found = list(fitting(text, region.whole(text), lambda part: part.last - part.first < limit))
    assert [number for part in found for number in range(part.first, part.last + 1)] == list(range(1, len(text) + 1))
    for part in found:
        assert part.last - part.first < limit or blocks(text, part) == [part]


@PATIENT
@given(LINES, st.integers(1, 12))
def test_packed_blocks_cover_every_line_once_and_fit(lines: list[str], limit: int) -> None:
    text = [line + "\n" for line in lines]
    parts = blocks(text, region.whole(text))
    packed = list(pack(parts, lambda part: part.last - part.first + 1 <= limit))
    covered = [number for part in packed for number in range(part.first, part.last + 1)]
    assert covered == list(range(1, len(text) + 1))
    for part in packed:
        assert part.last - part.first + 1 <= limit or part in parts
    # As many as fit: no two neighbours would have gone together.
    for one, other in pairwise(packed):
        following = next(part for part in parts if part.first == other.first)
        assert following.last - one.first + 1 > limit
