"""Wrapping, and text that grows at its end: the same lines whether it came whole or in pieces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from localspec.tui.flow import NO_TOKEN, Flow
from localspec.tui.wrapping import wrap

STYLES = {name: Style() for name in ("plain", "lookup", "draft", "resampled", "bonus", "rejected", "user")}
TEXTS = st.text(alphabet=st.sampled_from("ab c\n\t日é👩\u200d💻\u0301-"), max_size=80)


def pieces(text: str, width: int) -> list[str]:
    starts = [*wrap(text, width), len(text)]
    return [text[a:b] for a, b in pairwise(starts)]


def test_it_breaks_at_blanks() -> None:
    assert pieces("the quick brown fox", 10) == ["the quick ", "brown fox"]


def test_indentation_stays_with_its_line() -> None:
    """V4: nothing is trimmed."""
    assert pieces("        deep = call(one, two)", 20) == ["        deep = ", "call(one, two)"]


def test_a_word_wider_than_a_line_is_cut() -> None:
    assert pieces("abcdefghij kl", 4) == ["abcd", "efgh", "ij ", "kl"]


def test_wide_characters_count_twice() -> None:
    assert pieces("日本語日本語", 5) == ["日本", "語日", "本語"]


def test_a_joined_emoji_is_never_cut() -> None:
    assert pieces("👩\u200d💻👩\u200d💻", 3) == ["👩\u200d💻", "👩\u200d💻"]


@given(TEXTS, st.integers(2, 30))
def test_no_character_is_lost_and_no_line_is_too_wide(text: str, width: int) -> None:
    for paragraph in text.split("\n"):
        lines = pieces(paragraph, width)
        assert "".join(lines) == paragraph
        assert all(cell_len(line.rstrip()) <= width or len(line.strip()) == 1 for line in lines)


def flow_of(texts: list[str], width: int) -> Flow:
    flow = Flow(width)
    for index, text in enumerate(texts):
        flow.append([(text, "plain", index)])
    flow.finish()
    return flow


@given(st.lists(TEXTS, max_size=8), st.integers(2, 30))
def test_pieces_give_the_lines_of_the_whole(texts: list[str], width: int) -> None:
    grown, whole = flow_of(texts, width), flow_of(["".join(texts)], width)
    assert grown.text == whole.text
    assert grown.lines == whole.lines


@given(st.lists(TEXTS, max_size=8), st.integers(2, 30))
def test_segments_spell_the_line(texts: list[str], width: int) -> None:
    flow = flow_of(texts, width)
    for line in range(flow.height):
        start, end = flow.bounds(line)
        assert "".join(segment.text for segment in flow.segments(line, STYLES)) == flow.text[start:end]


@given(st.lists(TEXTS, min_size=1, max_size=8), st.integers(2, 30))
def test_the_source_of_everything_is_what_was_given(texts: list[str], width: int) -> None:
    flow = flow_of(texts, width)
    assert flow.source(0, len(flow.text)) == "".join(texts)


def test_append_says_which_lines_change() -> None:
    flow = Flow(10)
    assert flow.append([("one two three\nfour", "plain", 0)]) == 0
    assert flow.append([(" five", "plain", 1)]) == 2
    assert flow.append([("\n", "plain", 2), ("six", "plain", 3)]) == 2
    assert flow.height == 4


def test_brackets_around_neighbours_of_one_look() -> None:
    flow = Flow(40, marks=True)
    flow.append([("a", "plain", 0), ("b", "lookup", 1), ("c", "lookup", 2), ("d", "resampled", 3)])
    flow.finish()
    assert flow.text == "a‹bc›⟦d⟧"
    assert [token for token in flow.tokens if token != NO_TOKEN] == [0, 1, 2, 3]


def test_empty_lines_at_the_end_are_not_shown() -> None:
    flow = flow_of(["one\n\n\n"], 10)
    assert (flow.height, flow.solid_height) == (4, 1)
    assert flow_of(["\n\n"], 10).solid_height <= 1
