"""Stretches between forced texts, white space where it is open, and words behind a quote."""

from localspec.engine.drafters.stretches import KEY, Standing, Stretches
from localspec.engine.drafters.words import Words
from localspec.engine.spacing import Spacing


def anything(_token: int) -> bool:
    return True


def written(*tokens: int) -> Stretches:
    """Tokens from 100 on are forced."""
    stretches = Stretches()
    for token in tokens:
        stretches.accept(token, forced=token >= 100)
    return stretches


def test_a_stretch_is_told_by_the_forced_tokens_before_it() -> None:
    stretches = written(100, 101, 102, 103, 1, 2)
    assert stretches.standing == Standing((101, 102, 103)[-KEY:], (1, 2))
    assert written(100, 1, 101).standing == Standing((101,))


def test_it_ends_as_long_as_those_behind_the_same_text() -> None:
    stretches = written(100, 1, 2, 9, 101, 3, 8, 100, 4, 5, 6, 9, 100)
    at = Standing((100,))
    counts = []
    for token in (1, 1, 1, 1):
        at = at.behind(token, forced=False)
        counts.append(stretches.ended(at))
    assert counts == [(2, 0), (2, 1), (1, 1), (0, 0)]
    assert stretches.ended(Standing((101,), (3,))) == (1, 1)


def test_it_closes_as_the_last_one_behind_the_same_text_did_else_as_any() -> None:
    stretches = written(100, 1, 9, 101, 3, 8, 102)
    assert stretches.closer(Standing((100,), (1,)), anything) == 9
    assert stretches.closer(Standing((101,), (1,)), anything) == 8
    assert stretches.closer(Standing((105,), (1,)), anything) == 8
    assert stretches.closer(Standing((100,), (1,)), lambda token: token == 8) == 8
    assert stretches.closer(Standing((100,), (1,)), lambda token: False) is None


def test_what_stands_before_anything_forced_is_no_stretch() -> None:
    assert written(1, 2, 3, 100).closer(Standing((100,), (1,)), anything) is None


def space(text: bytes) -> Spacing:
    """A text in which every `,` and `:` leaves a blank open."""
    spacing = Spacing()
    for byte in text:
        spacing.wrote(byte, pauses=byte in b",:")
    return spacing


def test_blanks_are_set_as_behind_the_same_character() -> None:
    blank, letter = list(b" x")
    spaced = space(b"a: b:").behind([])
    assert spaced.choose([blank, letter]) == blank
    spaced.wrote(blank)
    assert spaced.choose([blank, letter]) == letter
    assert space(b"a:b:").behind([]).choose([blank, letter]) == letter
    assert space(b"a: b,").behind([]).choose([blank, letter]) == blank
    assert space(b"a,").behind([]).choose([blank, letter]) is None
    assert space(b"a: b").behind([b"}"]).choose([blank, letter]) == letter


def test_nothing_is_chosen_among_more_than_blanks_and_one_character() -> None:
    blank, *letters = list(b" xyz")
    assert space(b"a:b:").behind([]).choose([blank, *letters]) is None
    assert space(b"a: b:").behind([]).choose([blank, *letters]) == blank
    assert space(b"a: b:").behind([]).choose(list(range(32, 127))) is None


def test_an_indentation_is_set_as_a_whole() -> None:
    spaces = space(b"{,\n  a,").behind([])
    chosen = b""
    for _ in range(4):
        byte = spaces.choose(sorted(b"\n a"))
        assert byte is not None
        chosen += bytes([byte])
        spaces.wrote(byte)
    assert chosen == b"\n  a"


PIECES = [b"an", b" an", b"n", b",", b" the", b" an", b"na", b" and", b" an", b"ton", b"\n", b"an", b"n"]


def test_a_word_is_found_by_its_beginning_behind_the_place() -> None:
    """Its cut without the blank is another: a letter a token."""
    found = Words(range(len(PIECES)), PIECES.__getitem__, lambda word: list(word.encode()))
    assert found.behind(list(b"ann"), 0) == ((), 3)
    assert found.behind(list(b"an"), 0) == ((ord("n"),), 3)
    assert found.behind(list(b"ann"), 3) == ((ord("a"),), 7)
    assert found.behind(list(b"ant"), 0) == (tuple(b"on"), 10)
    assert found.behind(list(b"ann"), 12) == ((), 3)
    assert found.behind(list(b"ax"), 0) is None
    assert found.behind(list(b"x"), 0) is None
