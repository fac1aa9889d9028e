"""Taking the new text out of an answer, and refusing the answers that are not all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.assist import answer_checks
from localspec.assist.answer import fence_for, find
from localspec.assist.answer_checks import elision, reindented, syntax_problem
from tests.assist.edits import PATIENT

OLD = "def f(x):\n    return x\n\n\ndef g(y):\n    return y\n"
NEW = OLD.replace("x", "z")


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{NEW}```",
        f"```\n{NEW}```",
        f"~~~py\n{NEW}~~~",
        f"````python title=code.py\n{NEW}````",
        f"  ```python\n{NEW}  ```",
        f"``` python \n{NEW}```  \n\n",
        f"```python\n{NEW}`````",
    ],
    ids=["backticks", "no language", "tildes", "longer", "indented", "blanks", "closed by more"],
)
def test_the_block_is_taken(answer: str) -> None:
    assert find(answer, OLD).code == NEW
    assert find(answer, OLD).prose == ""


def test_prose_is_kept_apart() -> None:
    found = find(f"Sure! Here it is:\n\n```python\n{NEW}```\n\nI renamed `x`.", OLD)
    assert found.code == NEW
    assert found.prose == "Sure! Here it is:\n\nI renamed `x`."


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (NEW, "no code block"),
        ("", "no code block"),
        (f"```python\n{NEW}", "no end"),
        (f"```python\n{NEW}~~~", "no end"),
        (f"````python\n{NEW}```", "no end"),
        (f"```python\n{NEW}```\n\nUse it so:\n\n```python\ng(1)", "no end"),
    ],
)
def test_no_block_no_text(answer: str, reason: str) -> None:
    found = find(answer, OLD)
    assert found.code is None
    assert reason in found.problem


def test_an_example_beside_the_text_is_prose() -> None:
    for answer in (
        f"```python\n{NEW}```\nUse it so:\n```python\nf(1)\n```",
        f"```bash\npip install z\n```\nthen\n```python\n{NEW}```",
    ):
        found = find(answer, OLD)
        assert found.code == NEW
        assert "f(1)" in found.prose or "pip install" in found.prose


def test_a_text_handed_out_in_pieces_is_refused() -> None:
    first, second = NEW.split("\n\n\n")
    found = find(f"```python\n{first}\n```\nand\n```python\n{second}```", OLD)
    assert found.code is None
    assert "none of the 2 code blocks" in found.problem


def test_two_new_texts_for_nothing_are_refused() -> None:
    assert find("```\na\n```\nor\n```\nb\n```", "").code is None
    assert find("```\na\n```", "").code == "a\n"


README = "# T\n\n```bash\npip install t\n```\n\nRun:\n\n```\nt run\n```\n\nDone.\n"


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
@pytest.mark.parametrize("language", ["", "markdown"])
def test_fences_in_the_text(fence: str, language: str) -> None:
    """A model closes with three backticks whatever it was asked for; the end is where the whole text is."""
    new = README.replace("t run", "t start")
    found = find(f"Here:\n\n{fence}{language}\n{new}{fence}\n\nThe command is `t start` now.", README)
    assert found.code == new
    assert found.prose == "Here:\n\nThe command is `t start` now."


def test_a_fence_that_the_edit_adds() -> None:
    old = "# T\n\nRun it.\n"
    new = "# T\n\nRun it:\n\n```bash\nt run\n```\n"
    assert find(f"```markdown\n{new}```", old).code == new


def test_a_text_that_would_lose_its_end_to_an_inner_fence_is_refused() -> None:
    """Two readings are possible, and by the likelier one a part of the text stands outside."""
    old = "# T\n\nFirst.\n\nSecond line.\n\nThird line.\n"
    new = "# T\n\nFirst.\n\n```\na\n```\n\nSecond line.\n\n```\nb\n```\n\nThird line.\n"
    found = find(f"```\n{new}```", old)
    assert found.code in (None, new)


@PATIENT
@given(st.lists(st.sampled_from(["a", "```", "````python", "~~~", "  ```", "", "`"]), max_size=12))
def test_a_block_in_the_fence_that_is_asked_for_is_taken_whole(lines: list[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    fence = fence_for(text)
    assert find(f"{fence}\n{text}{fence}", text).code == text


BODY = "".join(f"line_{number} = {number}\n" for number in range(12))


@pytest.mark.parametrize(
    "marker",
    [
        "# ... rest of the file unchanged",
        "# ...",
        "    # ... existing code ...",
        "// ...",
        "// rest of the code remains the same",
        "/* ... */",
        "<!-- rest of the file -->",
        "-- remaining functions unchanged",
        "# Rest of the code...",
        "# (rest of the class is unchanged)",
        "# … the rest stays the same",
        "# existing code here",
        "# The remaining methods are omitted for brevity",
        "# same as before",
        "... (rest of the file)",
        "...",
        "…",
        "[...]",
    ],
)
def test_a_line_that_stands_for_left_out_text_is_found(marker: str) -> None:
    new = "line_0 = 1\n" + marker + "\n"
    assert elision(BODY, new) == marker.strip()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def f():\n    pass\n", "def f():\n    ...\n"),
        ("a\n# ... rest of the file unchanged\n", "b\n# ... rest of the file unchanged\n"),
        ("x = 1\n", "# The rest is silence.\nx = 1\n"),
        ("x = 1\n", "# Load the existing file.\nx = 2\n"),
        ("f(a)\n", "f(*args, ...)\n"),
        ("x = 1\n", "# Remove the remaining whitespace.\nx = 1\n"),
        (BODY, BODY.replace("= 3", "= [...]")),
        ("class A:\n    def f(self): ...\n", "class A:\n    def f(self): ...\n\n    def g(self): ...\n"),
        ("let a = 1;\n", "// Keeps the original value.\nlet a = 1;\n"),
        (BODY, BODY + "# Other tests\n# ... more to come\ny = 1\n"),
        (BODY, BODY.replace("line_3 = 3\n", "# Existing code\nline_3 = 4\n")),
        ("", "# ...\nx = 1\n"),
    ],
)
def test_other_lines_are_no_gaps(old: str, new: str) -> None:
    assert elision(old, new) is None


FRAGMENT = "    def f(self):\n        x = 1\n\n        return x\n"


@pytest.mark.parametrize(
    "answer",
    [
        "def f(self):\n    y = 1\n\n    return y\n",
        "        def f(self):\n            y = 1\n\n            return y\n",
        "def f(self):\n        y = 1\n\n        return y\n",
        "    def f(self):\n        y = 1\n\n        return y\n",
    ],
    ids=["moved left", "moved right", "first line only", "as it was"],
)
def test_a_fragment_comes_back_to_its_margin(answer: str) -> None:
    assert reindented(FRAGMENT, answer) == FRAGMENT.replace("x", "y")


@pytest.mark.parametrize(
    ("old", "answer", "expected"),
    [
        ("    a()\n    b()\n", "if x:\n    a()\n    b()\n", "    if x:\n        a()\n        b()\n"),
        ("    a()\n    b()\n", "a(1)\n    b()\n", "    a(1)\n    b()\n"),
        ("\ta()\n", "a(1)\n", "\ta(1)\n"),
        ("\t\ta()\n\t\t\tb()\n", "\ta(1)\n\t\tb()\n", "\t\ta(1)\n\t\t\tb()\n"),
        ("a()\n", "    a()\n", "a()\n"),
        ("    a()\n", "    if x:\n        a()\n", "    if x:\n        a()\n"),
        ("", "    a()\n", "    a()\n"),
    ],
)
def test_margins(old: str, answer: str, expected: str) -> None:
    assert reindented(old, answer) == expected


@PATIENT
@given(
    st.lists(st.sampled_from(["a", "  b", "    c", "", "\td"]), min_size=1, max_size=8),
    st.sampled_from(["    ", "\t", "  "]),
)
def test_a_uniform_move_is_undone(lines: list[str], margin: str) -> None:
    old = "".join(f"{margin}{line}\n" if line else "\n" for line in lines)
    moved = "".join(f"{line}\n" for line in lines)
    assert reindented(old, old) == old
    if not any(line and not line[0].isspace() for line in lines[:1]):
        return
    first_alone = len([line for line in lines[1:] if line]) and all(line[:1].isspace() for line in lines[1:] if line)
    if not first_alone:
        assert reindented(old, moved) == old


def test_python_that_stops_being_python() -> None:
    assert syntax_problem(OLD, NEW, ".py") is None
    assert "line 1" in str(syntax_problem(OLD, "def f(:\n", ".py"))
    assert syntax_problem("def f(:\n", "def g(:\n", ".py") is None
    assert syntax_problem(OLD, "def f(:\n", ".txt") is None
    assert syntax_problem(OLD, "x = '\\d'\n", ".py") is None
    assert syntax_problem(OLD, "(" * 100_000, ".py") is not None


def test_the_margin_is_the_common_white_space() -> None:
    assert answer_checks._margin(["\t  a\n", "\n", "\t b\n"]) == "\t "
    assert answer_checks._margin(["  a\n", "\tb\n"]) == ""
