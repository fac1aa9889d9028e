"""Files in a question."""

from pathlib import Path

import pytest

from localspec.chat.attach import Attached, CannotAttach, mentions, read, sources_in, with_files
from localspec.engine.requests import SourceText


def test_mentions_name_files_that_exist(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    (tmp_path / "with blank.txt").touch()
    text = 'see @a.py and @"with blank.txt", not @missing, me@a.py, @a.py again'
    assert mentions(text, tmp_path) == [
        ("@a.py", tmp_path / "a.py"),
        ('@"with blank.txt"', tmp_path / "with blank.txt"),
    ]


def test_a_folder_or_an_impossible_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert mentions(f"@sub @{'x' * 5000} @a\x00b", tmp_path) == []


def test_a_fence_that_nothing_inside_closes() -> None:
    assert Attached("a.md", "```\nx\n```\n", ".md").fenced() == "a.md:\n````md\n```\nx\n```\n````"


def test_the_bytes_are_kept(tmp_path: Path) -> None:
    """V4: tabs, CRLF and the lack of a last newline; only a byte order mark goes."""
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbf\ta\r\nb")
    assert read(file).text == "\ta\r\nb"
    assert with_files("look", [read(file)]).endswith("```txt\n\ta\r\nb\n```")


def test_what_cannot_be_attached_says_why(tmp_path: Path) -> None:
    binary = tmp_path / "b.bin"
    binary.write_bytes(b"\x00\xff")
    with pytest.raises(CannotAttach, match=r"@b is not UTF-8 text \(byte 1\)"):
        read(binary, "@b")
    with pytest.raises(CannotAttach, match="No such file"):
        read(tmp_path / "gone")
    large = tmp_path / "large.txt"
    with large.open("wb") as opened:
        opened.truncate(9_000_000)
    with pytest.raises(CannotAttach, match="9 MB"):
        read(large)


def test_attached_files_are_found_again_in_a_question() -> None:
    """Also in one out of the history: what is copied from them can be named."""
    files = [
        Attached("src/a.py", "x = 1\n```\ny = 2\n", ".py"),
        Attached("/b", "no end", ""),
        Attached("c.txt", "", ".txt"),
    ]
    assert sources_in(with_files("look", files)) == (
        SourceText("src/a.py", "x = 1\n```\ny = 2\n"),
        SourceText("/b", "no end\n"),
        SourceText("c.txt", "\n"),
    )


@pytest.mark.parametrize(
    "text",
    ["Here it is:\n```py\nx\n```", "Here:\n```\nx\n```", "a.py:\n```py\nx\n", "```py\nx\n```", "a.py:\n```js\nx\n```"],
)
def test_a_block_under_other_words_is_no_file(text: str) -> None:
    assert sources_in(text) == ()
