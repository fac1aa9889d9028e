"""Text out of token bytes: characters joined, stop strings never shown, nothing held too long (S1, S2, S5)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localspec.engine.events import Token
from localspec.engine.text import TextStream


def token(number: int) -> Token:
    return Token(id=number, text="", kind="accepted", drafter="lookup", cycle=number // 3, t=number / 10)


def push_all(stream: TextStream, pieces: Sequence[bytes]) -> list[list[Token]]:
    """What each push released."""
    return [stream.push(token(i), piece) for i, piece in enumerate(pieces)]


def texts(released: Sequence[Sequence[Token]]) -> list[list[str]]:
    return [[one.text for one in some] for some in released]


def all_texts(pieces: Sequence[bytes], *stop: str) -> list[str]:
    """The texts of an answer of `pieces` that ends after them."""
    stream = TextStream(stop)
    released = [one for some in push_all(stream, pieces) for one in some] + stream.finish()
    return [one.text for one in released]


@st.composite
def split(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes cut into pieces anywhere, empty pieces among them."""
    whole = draw(data)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


SCRIPTS = st.text(st.sampled_from("aé 한국어हिन्दी👩‍👩‍👧🇰🇷🏽\u0301\x1b\x9b\n\r\t\0"), max_size=12)


# S1: characters


@given(split(SCRIPTS.map(str.encode)))
@example([bytes([byte]) for byte in "👩‍👩‍👧 한국어 हिन्दी".encode()])
def test_split_characters_are_joined(pieces: list[bytes]) -> None:
    """S1: emoji, Korean, Hindi through byte tokens; S5: control characters unchanged."""
    assert "".join(all_texts(pieces)) == b"".join(pieces).decode()


@given(split(st.binary(max_size=24)))
@example([b"\xf0\x9f", b"\x98"])
@example([b"\xed\x95", b"a", b"\xff", b"\xc3"])
def test_any_bytes_equal_the_whole_decoded(pieces: list[bytes]) -> None:
    """S1: what is no character, and one left unfinished at the end, come out as replacement marks, never dropped."""
    assert "".join(all_texts(pieces)) == b"".join(pieces).decode(errors="replace")


@given(split(st.binary(max_size=24)), st.lists(st.text("ab\ufffd", min_size=1, max_size=3), max_size=2))
def test_tokens_come_out_once_in_order_and_otherwise_as_they_went_in(pieces: list[bytes], stop: list[str]) -> None:
    """S1: counts stay per token."""
    stream = TextStream(stop)
    pushed, released = 0, []
    for i, piece in enumerate(pieces):
        released += stream.push(token(i), piece)
        pushed += 1
        if stream.stopped:
            break
    released += stream.finish()
    assert [replace(one, text="") for one in released] == [token(i) for i in range(pushed)]


def test_a_character_is_the_text_of_the_token_that_completes_it() -> None:
    stream = TextStream()
    assert texts(push_all(stream, [b"\xf0", b"\x9f", b"\x98\x80", b"!"])) == [[], [""], ["", "😀"], ["!"]]
    assert stream.finish() == []


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"a", b"\xf0\x9f"], ["a", "�"]),
        ([b"a\xf0"], ["a�"]),
        ([b"\xf0", b"\x9f", b"\x98"], ["", "", "�"]),
    ],
)
def test_an_answer_ended_inside_a_character(pieces: list[bytes], expected: list[str]) -> None:
    """S1: cancelled or ended there: a mark on the last token, and none without a token."""
    assert all_texts(pieces) == expected


def test_a_character_resampled_in_its_middle() -> None:
    """S1: the token after the unfinished bytes is no continuation: mark at once, and the text goes on."""
    assert texts(push_all(TextStream(), [b"\xf0\x9f", b"ok", b"."])) == [[], ["", "�ok"], ["."]]


def test_bytes_that_cannot_be_a_character_are_marked_at_once() -> None:
    assert texts(push_all(TextStream(), [b"\xff", b"a\x80b"])) == [["�"], ["a�b"]]


def test_control_characters_pass() -> None:
    """S5: here text stays what the model said, also split over tokens; marks are for screens."""
    pieces = [b"\x1b", b"]52;c;", b"eA==\x07", b"\x1b[2", b"J", "\x9b".encode()[:1], "\x9b".encode()[1:]]
    assert "".join(all_texts(pieces)) == "\x1b]52;c;eA==\x07\x1b[2J\x9b"


def test_no_tokens_no_text() -> None:
    assert TextStream(["x"]).finish() == []


# S2: stop strings


def test_a_stop_over_several_tokens_is_not_shown() -> None:
    """S2: the token it begins in keeps what stands before it; the others inside have no text but count."""
    stream = TextStream(["\nUser:"])
    released = push_all(stream, [b"Hi", b"!\n", b"Us", b"er: x", b"more"])
    assert texts(released) == [["Hi"], [], [], ["!", "", ""], []]
    assert stream.stopped
    assert stream.finish() == []


def test_text_that_turns_away_is_released_at_once() -> None:
    """S2."""
    stream = TextStream(["</end>"])
    assert texts(push_all(stream, [b"a</", b"en", b"try", b"<", b"/e", b"<", b"b"])) == [
        [], [], ["a</", "en", "try"], [], [], ["<", "/e"], ["<", "b"],
    ]  # fmt: skip
    assert not stream.stopped


def test_a_stop_inside_one_token() -> None:
    stream = TextStream(["STOP"])
    assert texts(push_all(stream, [b"one STOP two STOP three"])) == [["one "]]
    assert stream.stopped


def test_a_stop_that_is_the_first_text() -> None:
    assert texts(push_all(TextStream(["ab"]), [b"", b"a", b"b"])) == [[""], [], ["", ""]]


def test_of_overlapping_stops_the_earliest_start_counts() -> None:
    """S2: two that overlap."""
    assert texts(push_all(TextStream(["cd", "bcde"]), [b"abcdef"])) == [["a"]]
    assert texts(push_all(TextStream(["cde", "abcx"]), [b"ab", b"c", b"de"])) == [[], [], ["ab", "", ""]]
    assert texts(push_all(TextStream(["aab"]), [b"a", b"a", b"a", b"b"])) == [[], [], ["a"], ["", "", ""]]


def test_one_stop_turning_away_leaves_another_open() -> None:
    """S2: abX turned away from abc, but bX may still become bXY."""
    stream = TextStream(["abc", "bXY"])
    assert texts(push_all(stream, [b"a", b"b", b"X", b"Y"])) == [[], [], ["a"], ["", "", ""]]


def test_a_held_stop_start_is_shown_when_the_answer_ends() -> None:
    assert all_texts([b"x", b"\nUs"], "\nUser:") == ["x", "\nUs"]


def test_a_stop_of_characters_split_over_tokens() -> None:
    whole = "끝".encode()
    stream = TextStream(["끝"])
    assert texts(push_all(stream, [b"a" + whole[:1], whole[1:2], whole[2:] + b"b"])) == [[], ["a"], ["", ""]]
    assert stream.stopped


def test_an_unfinished_character_after_a_stop_is_dropped() -> None:
    stream = TextStream(["."])
    assert texts(push_all(stream, [b"a.\xf0"])) == [["a"]]
    assert stream.finish() == []


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        TextStream(["a", ""])


LETTERS = st.lists(st.text("ab", max_size=4), max_size=10)
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=3)


@given(LETTERS, STOPS)
def test_stops_against_the_whole_text(pieces: list[str], stops: list[str]) -> None:
    """S2: at every token, what is out equals the definition on all the text so far: before the earliest complete stop,
    else every token that ends before anything that may still become one."""
    stream = TextStream(stops)
    shown: list[str] = []
    ends: list[int] = []
    whole = ""
    for i, piece in enumerate(pieces):
        shown += [one.text for one in stream.push(token(i), piece.encode())]
        whole += piece
        ends.append(len(whole))
        starts = [whole.find(stop) for stop in stops if stop in whole]
        assert stream.stopped == bool(starts)
        if starts:
            assert "".join(shown) == whole[: min(starts)]
            assert len(shown) == i + 1
            return
        beginnings = {stop[:length] for stop in stops for length in range(1, len(stop))}
        safe = len(whole) - max((len(start) for start in beginnings if whole.endswith(start)), default=0)
        assert shown == pieces[: sum(end <= safe for end in ends)]
    shown += [one.text for one in stream.finish()]
    assert shown == pieces
