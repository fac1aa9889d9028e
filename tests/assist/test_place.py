"""Places in a text, as editors count them."""

import pytest

from localspec.assist.place import BadPlace, parse_file_spot, parse_spot, place_in

TEXT = "ab\n\tçd\r\n\nlast"


@pytest.mark.parametrize(
    ("line", "column", "prefix"),
    [
        (1, 1, ""),
        (1, 2, "a"),
        (1, 3, "ab"),
        (1, None, "ab"),
        (2, 3, "ab\n\tç"),
        (2, None, "ab\n\tçd"),
        (3, 1, "ab\n\tçd\r\n"),
        (4, None, TEXT),
    ],
)
def test_a_place_cuts_the_text_in_two(line: int, column: int | None, prefix: str) -> None:
    place = place_in(TEXT, line, column)
    assert (place.prefix, place.prefix + place.suffix, place.line) == (prefix, TEXT, line)


def test_the_line_after_the_last_line_end_counts() -> None:
    assert place_in("a\n", 2).prefix == "a\n"
    assert place_in("", 1, 1).suffix == ""


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        (0, None, "no line 0"),
        (5, None, "the text has 4"),
        (1, 4, "1 to 3"),
        (2, 5, "2 has no column 5"),
        (1, 0, "1 to 3"),
    ],
)
def test_a_place_that_is_not_there_is_told(line: int, column: int | None, words: str) -> None:
    with pytest.raises(BadPlace, match=words):
        place_in(TEXT, line, column)


def test_what_stands_in_the_gaps_line() -> None:
    place = place_in("x\r\n  foo(a)\r\ny", 2, 7)
    assert (place.line_start, place.line_rest, place.newline) == ("  foo(", "a)", "\r\n")
    assert place_in("x\ny\r\n", 1).newline == "\n"


def test_spots_are_taken_apart_from_the_right() -> None:
    assert parse_file_spot("a/b.py:12") == ("a/b.py", 12, None)
    assert parse_file_spot("a.py:12:3") == ("a.py", 12, 3)
    assert parse_file_spot(r"C:\a.py:7") == (r"C:\a.py", 7, None)
    assert parse_file_spot("odd:1:2:3") == ("odd:1", 2, 3)
    assert parse_spot("4") == (4, None)
    assert parse_spot("4:2") == (4, 2)


@pytest.mark.parametrize("argument", ["a.py", "a.py:", "a.py:x", ":3", "a.py:-1", "a.py:3:"])
def test_what_is_no_spot_is_told(argument: str) -> None:
    with pytest.raises(BadPlace, match="FILE:LINE"):
        parse_file_spot(argument)
    with pytest.raises(BadPlace, match="LINE:COL"):
        parse_spot("x")
