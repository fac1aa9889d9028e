"""From a file and an instruction to questions, and from answers to a new file: nothing outside the regions changes."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.assist import edit, edit_file
from localspec.assist.edit_file import CannotEdit
from localspec.chat.attach import Attached
from localspec.chat.thinking import Thinking
from localspec.engine.requests import Request, SamplerSettings
from tests.assist.edits import PATIENT, block, budget, file_of, job_for, prompt_text

SOURCE = '''\
"""A module."""


class A:
    def f(self):
        return 1

    def g(self):
        return 2


def h():
    return 3
'''


class TestThePlan:
    def test_a_whole_file_in_one_question(self) -> None:
        job = job_for(SOURCE)
        text = prompt_text(job)
        assert f"```python\n{SOURCE}```" in text
        assert "code.py" in text
        assert text.count("Change it.") == 2
        assert (job.part, job.parts, job.whole) == (1, 1, True)
        assert (job.region.first, job.region.last) == (1, 13)

    def test_lines_alone_are_shown(self) -> None:
        job = job_for(SOURCE, "5-6")
        text = prompt_text(job)
        assert "```python\n    def f(self):\n        return 1\n```" in text
        assert "def g" not in text
        assert not job.whole

    def test_what_is_copied_can_be_named(self) -> None:
        beside = Attached("other.py", "x = 1\r\n", ".py")
        (job,) = edit.plan(file_of(SOURCE), "Change it.", "5-6", [beside], budget())
        assert [(one.name, one.first_line) for one in job.sources] == [("other.py", 1), ("code.py", 5)]
        for source in job.sources:
            assert source.text in prompt_text(job)

    def test_files_in_the_context_stand_before_the_text_and_cannot_close_their_fence(self) -> None:
        beside = Attached("notes.md", "```\nx\n```\n", ".md")
        (job,) = edit.plan(file_of(SOURCE), "Change it.", None, [beside], budget())
        text = prompt_text(job)
        assert "````markdown\n```\nx\n```\n````" in text
        assert text.index("notes.md") < text.index("class A")

    def test_the_file_and_the_instruction_are_never_trusted(self) -> None:
        (job,) = edit.plan(file_of("x = '<|im_end|>'\n"), "Say <|im_end|>.", None, [], budget())
        assert all("<|im_end|>'" not in part.text and "Say" not in part.text for part in job.prompt if part.trusted)

    def test_a_fence_in_the_text_makes_the_fence_longer_and_is_told(self) -> None:
        job = job_for("# T\n\n```\nx\n```\n", name="a.md")
        assert "````markdown\n# T" in prompt_text(job)
        assert "4 backticks" in prompt_text(job)

    def test_crlf_is_not_shown_to_the_model(self) -> None:
        assert "\r" not in prompt_text(job_for("a\r\nb\r\n"))

    def test_the_request_carries_the_job(self) -> None:
        job = job_for(SOURCE)
        base = Request(prompt=(), sampling=SamplerSettings(temperature=0.5), max_tokens=7, seed=3)
        request = job.request(base)
        assert (request.prompt, request.sources, request.max_tokens) == (job.prompt, job.sources, 7)
        assert (request.sampling.temperature, request.seed) == (0.5, 3)
        assert job.request(Request(prompt=())).max_tokens == job.max_tokens

    def test_the_answer_has_room_for_the_text_and_never_more_than_the_context(self) -> None:
        job = job_for(SOURCE)
        assert job.max_tokens > 2 * len(SOURCE.split())
        (tight,) = edit.plan(file_of(SOURCE), "Change it.", None, [], budget(300))
        assert tight.prompt_tokens + tight.max_tokens < 300

    def test_a_model_that_thinks_may_think_as_long_as_there_is_room(self) -> None:
        plain = job_for("x\n")
        thinking = edit.Budget(4096, budget().count, budget().template, Thinking(thinks=True))
        (job,) = edit.plan(file_of("x\n"), "Change it.", None, [], thinking)
        assert job.max_tokens == 4096 - job.prompt_tokens - 1 > plain.max_tokens

    def test_an_empty_file_is_written_from_nothing(self) -> None:
        job = job_for("")
        assert "is empty" in prompt_text(job)
        result = edit.take(job, block("x = 1\n"), "end_of_text")
        assert edit.edited(job.file, [result]) == "x = 1\n"

    def test_what_a_text_spells_of_the_models_tokens_is_not_lost_from_the_answer(self) -> None:
        """A model may answer with the token where the text spells it; hidden, the new text would lack it."""
        text = 'SEP = "<|file_sep|>"\nASK = "[INST]<|file_sep|>"\nless = a < b and b > c\n'
        assert job_for(text).request(Request(())).keep_control == ("<|file_sep|>", "[INST]")
        thinking = edit.Budget(4096, budget().count, budget().template, Thinking(keep_control=("<think>", "[INST]")))
        (job,) = edit.plan(file_of(text), "Change it.", None, [], thinking)
        assert job.request(Request(())).keep_control == ("<think>", "[INST]", "<|file_sep|>")

    def test_lines_that_are_not_there(self) -> None:
        with pytest.raises(CannotEdit, match="13 lines"):
            job_for(SOURCE, "10-20")

    def test_no_instruction(self) -> None:
        with pytest.raises(CannotEdit, match="instruction"):
            edit.plan(file_of(SOURCE), "  ", None, [], budget())


BIG = "".join(f"def f{number}(x):\n    y = x + {number}\n\n    return y\n\n\n" for number in range(60))


class TestLargerThanTheContext:
    def test_it_is_edited_block_by_block(self) -> None:
        file = file_of(BIG)
        jobs = edit.plan(file, "Change it.", None, [], budget(600))
        assert len(jobs) > 3
        assert [job.part for job in jobs] == list(range(1, len(jobs) + 1))
        assert {job.parts for job in jobs} == {len(jobs)}
        assert all(job.old.startswith("def f") and job.old.endswith("return y\n") for job in jobs)
        assert all(job.prompt_tokens + job.max_tokens < 600 for job in jobs)
        results = [edit.take(job, block(job.old.replace("return y", "return -y")), "end_of_text") for job in jobs]
        assert edit.edited(file, results) == BIG.replace("return y", "return -y")

    def test_only_the_changed_blocks_change(self) -> None:
        file = file_of(BIG.replace("\n", "\r\n"))
        jobs = edit.plan(file, "Change it.", None, [], budget(600))
        results = [edit.take(job, block(job.old.replace("def f30(", "def g30(")), "end_of_text") for job in jobs]
        assert [result.changed for result in results].count(True) == 1
        assert edit.edited(file, results) == file.text.replace("def f30(", "def g30(")

    def test_lines_of_a_large_file_are_one_question(self) -> None:
        (job,) = edit.plan(file_of(BIG), "Change it.", "7-10", [], budget(600))
        assert job.old == "def f1(x):\n    y = x + 1\n\n    return y\n"

    def test_a_block_that_is_too_large_is_told_with_the_numbers(self) -> None:
        text = "def f():\n" + "    x = 1\n" * 400 + "\n\ndef g():\n    return 1\n"
        with pytest.raises(CannotEdit) as error:
            edit.plan(file_of(text), "Change it.", None, [], budget(600))
        words = str(error.value)
        assert "lines 1-4" in words
        assert "context of 600" in words
        assert "--lines" in words
        assert "--ctx" in words
        assert "\n" not in words

    def test_context_files_that_fill_the_context_are_told(self) -> None:
        beside = Attached("big.py", "x = 1\n" * 500, ".py")
        with pytest.raises(CannotEdit, match="--context"):
            edit.plan(file_of("x\n"), "Change it.", None, [beside], budget(600))

    def test_a_megabyte(self) -> None:
        file = file_of("".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(32_000)))
        assert len(file.data) > 1_000_000
        (job,) = edit.plan(file, "Change it.", "40001-40002", [], budget())
        result = edit.take(job, block(job.old.replace("return", "yield")), "end_of_text")
        new = edit.edited(file, [result])
        assert [a for a, b in zip(new.split("\n"), file.text.split("\n"), strict=True) if a != b] == ["    yield 10000"]


class TestTheAnswer:
    @pytest.mark.parametrize(
        ("reason", "words"),
        [("max_tokens", "cut at"), ("context_full", "context is full"), ("cancelled", "interrupted")],
    )
    def test_a_cut_answer_is_never_taken_even_when_its_block_is_closed(self, reason: str, words: str) -> None:
        result = edit.take(job_for(SOURCE), block(SOURCE), reason)  # type: ignore[arg-type]
        assert result.text is None
        assert words in result.problem
        with pytest.raises(CannotEdit, match=words):
            edit.edited(result.job.file, [result])

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ("I cannot do that.", "no code block"),
            (f"```python\n{SOURCE}", "no end"),
            (block("class A:\n    # ... rest of the class unchanged\n"), "leaves text out"),
            (block("\n\n"), "empty"),
        ],
    )
    def test_an_answer_that_cannot_be_used(self, answer: str, words: str) -> None:
        result = edit.take(job_for(SOURCE), answer, "end_of_text")
        assert result.text is None
        assert words in result.problem

    def test_prose_apart(self) -> None:
        result = edit.take(job_for(SOURCE), "Here:\n" + block(SOURCE) + "\nDone.", "end_of_text")
        assert (result.prose, result.changed) == ("Here:\n\nDone.", False)

    def test_a_fragment_keeps_its_margin(self) -> None:
        job = job_for(SOURCE, "5-6")
        result = edit.take(job, block("def f(self):\n    return 10\n"), "end_of_text")
        assert edit.edited(job.file, [result]) == SOURCE.replace("return 1\n", "return 10\n")

    def test_a_part_answered_with_the_whole_text(self) -> None:
        job = job_for(SOURCE, "5-6")
        result = edit.take(job, block(SOURCE.replace("return 1\n", "return 10\n")), "end_of_text")
        assert edit.edited(job.file, [result]) == SOURCE.replace("return 1\n", "return 10\n")

    def test_mixed_tabs_and_blanks_stay_where_they_are(self) -> None:
        text = "if a:\n\tx = 1\n        y = 2 \n\t    z = 3\n"
        job = job_for(text)
        result = edit.take(job, block(text.replace("y = 2", "y = 3")), "end_of_text")
        assert edit.edited(job.file, [result]) == text.replace("y = 2", "y = 3")

    @pytest.mark.parametrize("text", ["a\nb\n", "a\nb", "a\r\nb\r\n", "a\r\nb", "\n\na\nb\n\n\n", "\ufeffa\nb\n"])
    @pytest.mark.parametrize("answer", ["a\nc\n", "\na\nc\n\n", "a\nc\n\n\n"])
    def test_blank_lines_and_the_final_newline_are_the_files_own(self, text: str, answer: str) -> None:
        file = edit_file.of_bytes(text.encode(), "a.txt", Path("a.txt"))
        (job,) = edit.plan(file, "Change it.", None, [], budget())
        new = edit.edited(file, [edit.take(job, block(answer), "end_of_text")])
        assert file.encoded(new) == text.replace("b", "c").encode()


LINES = st.lists(
    st.sampled_from(["def f():", "    x = 1", "    return x", "", "\ty", "# é", "}"]), min_size=1, max_size=25
)


@PATIENT
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_outside_the_lines_every_byte_stays(lines: list[str], newline: str, final: bool, data: st.DataObject) -> None:
    text = newline.join(lines) + newline * final
    file = file_of(text)
    count = len(edit.lines_of(text))
    if not count:
        return
    first = data.draw(st.integers(1, count))
    last = data.draw(st.integers(first, count))
    (job,) = edit.plan(file, "Change it.", f"{first}-{last}", [], budget())
    new = "".join(f"{line}\n" for line in data.draw(LINES))
    result = edit.take(job, f"Words.\n{block(new)}", "end_of_text")
    if result.text is None:
        assert result.problem
        return
    made = edit.edited(file, [result])
    all_lines = edit.lines_of(text)
    before, after = "".join(all_lines[: first - 1]), "".join(all_lines[last:])
    assert made.startswith(before)
    assert made.endswith(after)
    assert len(made) >= len(before) + len(after)


@PATIENT
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_an_answer_that_is_the_text_changes_nothing(lines: list[str], newline: str, final: bool) -> None:
    job = job_for(newline.join(lines) + newline * final)
    result = edit.take(job, block(job.old), "end_of_text")
    if job.old.strip():
        assert result.text is not None
        assert not result.changed
        assert edit.edited(job.file, [result]) == job.file.text


def test_results_that_do_not_belong_together_are_refused() -> None:
    job = job_for(SOURCE)
    result = edit.take(job, block(SOURCE), "end_of_text")
    with pytest.raises(CannotEdit):
        edit.edited(job.file, [result, result])
    with pytest.raises(CannotEdit):
        edit.edited(file_of("other\n"), [result])


def test_the_edited_python_is_python() -> None:
    job = job_for(SOURCE, "12-13")
    result = edit.take(job, block("def h(x: int) -> int:\n    return x\n"), "end_of_text")
    ast.parse(edit.edited(job.file, [result]))
