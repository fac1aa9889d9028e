"""Diffs as values: what is applied is what was compared, one hunk or all; git reads the text form."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.assist import diff
from localspec.assist.diff import DoesNotApply, Hunk, Row, Sign, hunks
from localspec.assist.diff_names import name_for
from tests.assist.edits import PATIENT

LINE = st.sampled_from(["a\n", "b\n", "\n", "  a\n", "c\r\n", "\td\n", "x\x0cy\n", "\u2028\n", "-- a\n", "é\n"])
TEXT = st.builds(
    lambda lines, rest: "".join(lines) + rest, st.lists(LINE, max_size=30), st.sampled_from(["", "end", "a\r"])
)


@PATIENT
@given(TEXT, TEXT)
def test_all_hunks_make_the_new_text_of_the_old_one(old: str, new: str) -> None:
    found = hunks(old, new)
    assert diff.apply(old, found) == new
    assert bool(found) == (old != new)


@PATIENT
@given(TEXT, TEXT, st.integers(0, 4), st.data())
def test_a_chosen_hunk_changes_its_own_lines_and_no_others(
    old: str, new: str, context: int, data: st.DataObject
) -> None:
    found = hunks(old, new, context)
    kept = data.draw(st.lists(st.sampled_from(range(len(found))), unique=True) if found else st.just([]))
    chosen = [found[number] for number in sorted(kept)]
    result = diff.apply(old, chosen)
    rest = [hunk for number, hunk in enumerate(found) if number not in kept]
    # The same from the other side: the new text with all other changes taken back.
    assert diff.apply(new, [backwards(hunk) for hunk in rest]) == result


def backwards(hunk: Hunk) -> Hunk:
    swapped: dict[Sign, Sign] = {" ": " ", "-": "+", "+": "-"}
    return Hunk(hunk.new_start, hunk.old_start, tuple(Row(swapped[row.sign], row.text) for row in hunk.rows))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nc"),
        ("a\n", "a"),
        ("a", "a\n"),
        ("", "new\n"),
        ("old\n", ""),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("a\n" * 40 + "x\n" + "b\n" * 40, "a\n" * 39 + "x\ny\n" + "b\n" * 40 + "z\n"),
        ("-- a\n++ b\n", "-- b\n++ a\n"),
        ("é\x0c\u2028\n", "è\x0c\u2028\n"),
    ],
    ids=["one line", "no final newline", "newline lost", "newline added", "from empty", "to empty", "CRLF", "two hunks",
         "lines that look like headers", "odd characters"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["code.py", "sub/a file.py", 'odd "name"\\é\t.txt'])
def test_git_applies_the_text_form(old: str, new: str, name: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(old.encode())
    patch = diff.unified(name, hunks(old, new))
    done = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (file.read_bytes() if file.exists() else b"") == new.encode()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_it_from_a_subdirectory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    folder = tmp_path / "src" / "deep"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(folder)
    name = name_for(Path("a.py"))
    assert name == "src/deep/a.py"
    patch = diff.unified(name, hunks("x = 1\n", "x = 2\n"))
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch.encode(), check=True)
    assert (folder / "a.py").read_text() == "x = 2\n"


def test_names_outside_a_repository_are_relative_to_the_folder(tmp_path: Path) -> None:
    assert name_for(tmp_path / "sub" / "a.py", tmp_path) == "sub/a.py"
    assert name_for(tmp_path / "a.py", tmp_path / "elsewhere") == (tmp_path / "a.py").as_posix().lstrip("/")


def test_a_link_is_named_by_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("")
    (tmp_path / "link.py").symlink_to("real.py")
    assert name_for(tmp_path / "link.py", tmp_path) == "real.py"


def test_hunks_that_are_near_are_one_and_far_ones_are_not() -> None:
    lines = [f"{number}\n" for number in range(30)]
    near, far = list(lines), list(lines)
    near[5] = near[11] = "x\n"
    far[5] = far[13] = "x\n"
    assert len(hunks("".join(lines), "".join(near))) == 1
    first, second = hunks("".join(lines), "".join(far))
    assert (first.header, second.header) == ("@@ -3,7 +3,7 @@", "@@ -11,7 +11,7 @@")
    assert (first.added, first.removed) == (1, 1)


def test_a_text_that_changed_is_refused() -> None:
    found = hunks("a\nb\nc\n", "a\nB\nc\n")
    with pytest.raises(DoesNotApply, match="line 1"):
        diff.apply("a\nb\nd\n", found)
    with pytest.raises(DoesNotApply):
        diff.apply("a\nb\nc\n", [found[0], found[0]])


def test_a_large_text_with_a_small_change_is_quick_to_compare() -> None:
    """Common ends are taken off first, so this is linear; the limit on the test is the suite's."""
    lines = [f"line {number % 50}\n" for number in range(60_000)]
    new = [*lines[:30_000], "changed\n", *lines[30_000:]]
    (hunk,) = hunks("".join(lines), "".join(new))
    assert (hunk.added, hunk.removed) == (1, 0)
    assert hunk.old_start == 29_998
