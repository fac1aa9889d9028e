"""Where a filled-in middle ends. `|` is the gap."""

import pytest

from localspec.assist.middle import Middle, Rules
from localspec.assist.place import Place


def at(text: str) -> Place:
    prefix, suffix = text.split("|")
    return Place(prefix, suffix, prefix.count("\n") + 1)


def middle(text: str, answer: str, lines: int | None = None) -> Middle:
    made = Rules(at(text), lines).middle(answer)
    assert made.text + made.dropped == answer
    return made


class TestLines:
    def test_in_the_middle_of_a_line_one_line_is_wanted(self) -> None:
        made = middle("x = foo(|, 3)\n", "a, b\nreturn x")
        assert (made.text, made.ended) == ("a, b", "lines")

    def test_so_many_lines_when_asked(self) -> None:
        assert middle("f:|\n", "\n a\n b\n c", lines=3).text == "\n a\n b"
        assert middle("f:|\n", "\n a\n\n\nb\n\nc", lines=0) == Middle("\n a\n\n\nb\n\nc", "model")


class TestBlocks:
    @pytest.mark.parametrize(
        ("text", "answer", "kept"),
        [
            ("def f(x):|", "\n    return x\n\n\ndef g():", "\n    return x"),
            ("def f(x):|", "\n    if x:\n        y\n\n    return x", "\n    if x:\n        y\n\n    return x"),
            ("def f(x):\n    |", "a = x\n\n    return a\n\n\nprint(f(1))", "a = x\n\n    return a"),
            ("class A:\n    def f(self):|\n", "\n        return 1\n\n    def g(self)", "\n        return 1"),
            ("class A:\n    def f(self):|\n", "\n        return 1\nb", "\n        return 1"),
            ("# the sum\n|", "def s(a, b):\n    return a + b\n\nprint", "def s(a, b):\n    return a + b"),
            ("if a:\n    |", "b()\nelse:\n    c()", "b()\nelse:\n    c()"),
            ("def f(x):\n    if x:\n        raise x|\n\n\nf(1)\n", "\n    return 1\n\n\ndef g", "\n    return 1"),
            ("class A:\n    def f(x):\n        if x:\n            y|", "\n        z\n\n    def g", "\n        z"),
            ("def f(x):\n    for y in x:\n        |\n    return 1\n", "a\n\n        b\nx = 2", "a\n\n        b"),
            ("def f(x):\n|\n    return 1\n", "    a = 1\n\n    b = 2\nx", "    a = 1\n\n    b = 2"),
            ("\n\n|", "\n\nx = 1\ny = 2", "\n\nx = 1\ny = 2"),
        ],
    )
    def test_a_block_ends_where_the_next_begins(self, text: str, answer: str, kept: str) -> None:
        made = middle(text, answer)
        assert (made.text, made.ended) == (kept, "model" if kept == answer else "block")

    def test_a_bracket_nobody_else_closes_stays(self) -> None:
        assert middle("int f() {\n    |", "return 1;\n}\n").text == "return 1;\n}\n"
        assert middle("int f() {\n    |\n}\n", "return 1;\n}\n").text == "return 1;"


class TestWhatStandsThereAlready:
    @pytest.mark.parametrize(
        ("text", "answer", "kept"),
        [
            ("def f(x):\n    |\n    return x\n", "x += 1\n    return x", "x += 1"),
            ("def f(x):\n    |\n\n    return x\n", "x += 1\n    return x\n", "x += 1"),
            ("total = sum(|)\n", "a, b)", "a, b"),
            ("total = sum(|)\n", "len(a)", "len(a)"),
            ("total = |or None\n", "x or None", "x "),
            ("x = 1|\n\ny = 2\n", "\n\n", ""),
            ("a |b\n", "x ", "x "),
            ("a = |x\n", "max", "max"),
        ],
    )
    def test_it_is_left_out(self, text: str, answer: str, kept: str) -> None:
        assert middle(text, answer).text == kept

    def test_it_is_told_when_words_were_left_out(self) -> None:
        assert middle("f(\n|\nreturn x\n", "a\nreturn x").ended == "suffix"
        assert middle("f(|\n\ny = 2\n", "a)\n").ended == "model"

    def test_an_answer_that_goes_on_behind_the_gap_is_cut_in_its_middle(self) -> None:
        text = "def f(x):\n    |\n    y = x\n    return y\n"
        made = middle(text, "x += 1\n    y = x\n    return y\n\n    more", lines=0)
        assert (made.text, made.ended) == ("x += 1", "suffix")

    def test_one_line_that_comes_again_later_is_not_cut_at(self) -> None:
        answer = "if x:\n        return y\n    z = 1"
        assert middle("def f(x):\n    |\n    return y\n", answer).text == answer


class TestWhileItComes:
    @pytest.mark.parametrize(
        ("text", "lines", "open_", "complete"),
        [
            ("def f(x):|", None, "\n    return x\n\n  ", "\n    return x\n\nd"),
            ("foo(|)", None, "a, b", "a, b)\n"),
            ("f:|", 2, "\n a", "\n a\n"),
            ("f:\n |\n a = 1\n b = 2\n", 0, "c\n a = 1\n b = 2", "c\n a = 1\n b = 2\n"),
        ],
    )
    def test_an_answer_is_complete_as_soon_as_nothing_more_would_be_kept(
        self, text: str, lines: int | None, open_: str, complete: str
    ) -> None:
        rules = Rules(at(text), lines)
        assert not rules.complete(open_)
        assert rules.complete(complete)
        assert rules.middle(complete + "more").text == rules.middle(complete).text
