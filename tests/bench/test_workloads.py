"""Workload files: what a line may say, and how a bad one is named."""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import builtin
from localspec.bench.workloads import EDIT, Task, WorkloadError, module_lines, read

PROMPT = {"id": "chat-1", "category": "chat", "prompt": "Hello\n\n  you"}
STDLIB = {"id": "edit-1", "category": EDIT, "stdlib": "shlex", "lines": [3, 9], "instruction": "Add type hints."}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_prompts_and_code_edits_become_single_turns(tmp_path: Path) -> None:
    import shlex

    tasks = read(write(tmp_path / "w.jsonl", {**PROMPT, "source": "ours"}, "", STDLIB, ""))
    lines = "".join(inspect.getsource(shlex).splitlines(keepends=True)[2:9])
    assert tasks == [
        Task("chat-1", "chat", "Hello\n\n  you"),
        Task("edit-1", EDIT, f"Add type hints.\n\n```python\n{lines}```"),
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep"),
        ({"category": "chat", "prompt": "x"}, "id must be a text"),
        ({**PROMPT, "id": "x", "prompt": " "}, "prompt must be a text"),
        ({**PROMPT, "id": "x", "category": 3}, "category must be a text"),
        ({"id": "x", "category": "chat"}, "needs a prompt"),
        (PROMPT, "the id 'chat-1' is there twice"),
        ({**STDLIB, "stdlib": "no_such_module"}, "no module of the standard library"),
        ({**STDLIB, "stdlib": "localspec.paths"}, "no module of the standard library"),
        ({**STDLIB, "stdlib": "email.nothing"}, "has no source of the module email.nothing"),
        ({**STDLIB, "stdlib": "sys"}, "has no source of the module sys"),
        ({**STDLIB, "stdlib": "shlex.deeper"}, "has no source"),
        ({**STDLIB, "lines": [90_000, 90_010]}, "lines, none from 90000 on"),
        ({**STDLIB, "lines": [0, 4]}, "two line numbers"),
        ({**STDLIB, "lines": [5, 4]}, "two line numbers"),
        ({**STDLIB, "lines": ["1", "4"]}, "two line numbers"),
        ({key: value for key, value in STDLIB.items() if key != "lines"}, "two line numbers"),
        ({**STDLIB, "instruction": None}, "instruction must be a text"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: Any, words: str) -> None:
    file = write(tmp_path / "w.jsonl", PROMPT, "", row)
    with pytest.raises(WorkloadError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}:3: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"), [(b"\n\n", "holds no request"), (b"\xff\xfe", "is not UTF-8"), (None, "No such file")]
)
def test_a_bad_file_is_named(tmp_path: Path, data: bytes | None, words: str) -> None:
    file = tmp_path / "w.jsonl"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(WorkloadError, match=words) as caught:
        read(file)
    assert str(file) in str(caught.value)


def test_no_module_of_a_workload_is_run() -> None:
    """Reading the source of a module must not import it: what it does on import is nobody's wish."""
    assert "this" not in sys.modules
    assert module_lines("this", 1, 1).startswith("s = ")
    assert module_lines("email.message", 1, 2).startswith("# Copyright")
    assert "def getcwdb" in module_lines("os", 1, 2000) or "import abc" in module_lines("os", 1, 100)
    assert "this" not in sys.modules


def test_the_built_in_workload_has_three_requests_and_more_of_eight_kinds() -> None:
    categories = [task.category for task in builtin.TASKS]
    assert list(dict.fromkeys(categories)) == list(builtin.CATEGORIES)
    assert len(builtin.CATEGORIES) == 8
    assert all(categories.count(category) >= 3 for category in builtin.CATEGORIES)
    assert len({task.id for task in builtin.TASKS}) == len(builtin.TASKS)
    for task in builtin.TASKS:
        assert task.prompt == task.prompt.strip()
        assert len(task.prompt) < 4 * 1024, f"{task.id} and its answer do not fit a small context"


def test_the_built_in_edits_are_of_several_languages_and_whole() -> None:
    languages = []
    for task in builtin.TASKS:
        if task.category == EDIT:
            instruction, language, code = re.fullmatch(r"(.+)\n\n```(\w+)\n(.*)```", task.prompt, re.S).groups()  # type: ignore[union-attr]
            assert "Return the whole file" in instruction
            languages.append(language)
            if language == "python":
                compile(code, task.id, "exec")
            assert code.count("{") == code.count("}")
    assert len(set(languages)) >= 3


def test_texts_to_read_are_as_long_as_real_ones() -> None:
    for task in builtin.TASKS:
        if task.category in ("summarization", "question-answering"):
            assert 250 <= len(task.prompt.split()) <= 550, task.id


def test_the_figures_keep_their_requests() -> None:
    assert tuple(task.id for task in builtin.FIGURE_TASKS) == builtin.FIGURE_IDS
    assert [task.category for task in builtin.FIGURE_TASKS].count(EDIT) == 3


def test_the_mark_some_editors_put_in_front_is_no_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "w.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(PROMPT).encode())
    assert [task.id for task in read(file)] == ["chat-1"]
