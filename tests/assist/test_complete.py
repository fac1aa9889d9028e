"""From a place to a prompt within the context, and from an answer to the middle."""

from dataclasses import replace

import pytest

from localspec.assist.complete import Excerpt, FillIn, NoRoom, excerpt_of, fill_in, room_for_others
from localspec.assist.middle import Rules
from localspec.assist.place import Place, place_in
from localspec.assist.relevance import Piece
from localspec.engine.requests import Segment
from tests.assist.test_fim import QWEN
from tests.fake_engine import INFO

OTHERS = [Piece("lib/x.py", "x = 1\n", 40)]


def words(prompt: tuple[Segment, ...]) -> int:
    """One token a word, a line end being one too."""
    return sum(len(segment.text.replace("\n", " \n ").split(" ")) for segment in prompt)


def excerpt(text: str, line: int, column: int | None = None, *, context: int = 4096, fixed: int = 0) -> Excerpt:
    return excerpt_of(replace(QWEN, context=context), words, place_in(text, line, column), 64, fixed)


def filled(text: str, line: int, column: int | None = None, *, native: bool = True) -> FillIn:
    return fill_in(QWEN if native else INFO, excerpt(text, line, column), "a.py", "shop", OTHERS)


class TestWithinTheContext:
    def test_a_small_file_goes_in_whole(self) -> None:
        text = "a = 1\nb = 2\nc = 3\n"
        made = excerpt(text, 2)
        assert (made.place, made.first_line) == (Place("a = 1\nb = 2", "\nc = 3\n", 2), 1)
        assert made.tokens == words((Segment(made.place.prefix),)) + words((Segment(made.place.suffix),))

    @pytest.mark.parametrize("context", [160, 200, 300, 1000])
    def test_of_a_long_file_whole_lines_near_the_gap_go_in(self, context: int) -> None:
        text = "".join(f"line {number} has words\n" for number in range(1, 1001))
        made = excerpt(text, 500, 6, context=context)
        prefix, suffix = made.place.prefix, made.place.suffix
        assert prefix.startswith(f"line {made.first_line} has")
        assert prefix.endswith("\nline ")
        assert suffix.startswith("500 has words\nline 501")
        assert suffix.endswith("words\n")
        assert words((Segment(prefix), Segment(suffix))) <= context - 64
        room = room_for_others(replace(QWEN, context=context), made, 64)
        assert made.tokens + room <= context - 64

    def test_a_gpu_reads_more_and_so_gets_more(self) -> None:
        text = "word\n" * 20_000
        on_gpu = replace(QWEN, context=32_768, gpu_layers=9)
        more = excerpt_of(on_gpu, words, place_in(text, 10_000), 64)
        less = excerpt(text, 10_000, context=32_768)
        assert more.tokens > 3 * less.tokens
        room = room_for_others(replace(QWEN, context=32_768), less, 64)
        assert room_for_others(on_gpu, more, 64) > 3 * room > 0
        assert room_for_others(on_gpu, more, 64, wanted=5) == 5

    def test_a_line_longer_than_the_budget_is_cut_inside(self) -> None:
        text = "word " * 5000
        made = excerpt(text, 1, 12501, context=400)
        assert 0 < words((Segment(made.place.prefix),)) <= 400
        assert text[:12500].endswith(made.place.prefix)
        assert text[12500:].startswith(made.place.suffix)
        assert made.first_line == 1

    def test_what_must_go_in_takes_its_room(self) -> None:
        text = "word\n" * 2000
        assert excerpt(text, 1000, context=600, fixed=300).tokens < excerpt(text, 1000, context=600).tokens

    def test_no_room_is_told_with_the_numbers(self) -> None:
        with pytest.raises(NoRoom, match="context of 100 tokens has no room for a completion of 64"):
            excerpt("a", 1, context=100)
        with pytest.raises(NoRoom, match="no room for 900 tokens of --context and a completion of 64"):
            excerpt("a", 1, context=1000, fixed=900)


class TestPrompts:
    def test_in_the_models_own_tokens(self) -> None:
        made = filled("a = 1\nb = \nc = 3\n", 2)
        assert made.native
        assert "".join(segment.text for segment in made.prompt) == (
            "<|repo_name|>shop\n<|file_sep|>lib/x.py\nx = 1\n<|file_sep|>a.py\n"
            "<|fim_prefix|>a = 1\nb = <|fim_suffix|>\nc = 3\n<|fim_middle|>"
        )
        assert "<|fim_middle|>" in made.stop
        assert made.stop == made.keep_control

    def test_the_texts_can_be_named(self) -> None:
        sources = filled("".join(f"{n}\n" for n in range(1, 9)), 5).sources
        assert [(source.name, source.first_line) for source in sources] == [("a.py", 1), ("a.py", 5), ("lib/x.py", 40)]
        assert filled("a\nb\nc\n", 2).shown == (1, 3)

    def test_without_them_as_an_instruction_with_the_gap_marked(self) -> None:
        made = filled("a = 1\nb = \nc = 3\n", 2, native=False)
        assert not made.native
        text = "".join(segment.text for segment in made.prompt)
        assert "a = 1\nb = <<GAP>>\nc = 3\n" in text
        assert "lib/x.py:\n```py\nx = 1\n```" in text
        assert "".join(segment.text for segment in made.prompt if segment.trusted).count("x = 1") == 0

    def test_the_mark_is_one_that_the_text_has_not(self) -> None:
        made = filled("m = '<<GAP>>'\nn = \n", 2, native=False)
        assert "n = <<GAP1>>" in "".join(segment.text for segment in made.prompt)


class TestAnswers:
    @pytest.mark.parametrize(
        ("answer", "middle"),
        [
            ("```python\nmax(a)\n```", "max(a)"),
            ("Here it is:\n\n```\nmax(a)\nx\n```\nThat is all.", "max(a)\nx"),
            ("```py\nb = max(a)\n```", "max(a)"),
            ("max(a)", "max(a)"),
            ("```py\nmax(a", "max(a"),
            ("````md\n```\nx\n```\n````", "```\nx\n```"),
            ("```\n```", ""),
        ],
    )
    def test_the_code_block_is_the_middle(self, answer: str, middle: str) -> None:
        start, end = filled("a = 1\nb = \n", 2, native=False).middle_of(answer)
        assert answer[start:end] == middle

    def test_the_gaps_own_indentation_is_passed_over(self) -> None:
        made = filled("def f():\n    \n", 2, native=False)
        answer = "```py\n    x = 1\n    y = 2\n```"
        start, end = made.middle_of(answer)
        assert answer[start:end] == "x = 1\n    y = 2"

    def test_a_native_answer_is_the_middle_itself(self) -> None:
        answer = "```py\nb = 1\n```"
        assert filled("b = \n", 1).middle_of(answer) == (0, len(answer))

    def test_an_answer_is_complete_with_its_block(self) -> None:
        made = filled("a = 1\nb = \n", 2, native=False)
        rules = Rules(made.place)
        assert not made.is_complete("def f():\n\n\nx", rules)
        assert not made.is_complete("```py\nmax(a)", rules)
        assert made.is_complete("```py\nmax(a)\n```", rules)
        assert made.is_complete("```py\nx\n\ny = 1\n", rules)
        native = filled("a = 1\nb = \n", 2)
        assert native.is_complete("x\n\ny", Rules(native.place))
