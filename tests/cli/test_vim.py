"""As a filter of Vim, which takes stderr into the text or onto its screen; with a tiny model in the real llama.cpp."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.assist.test_fim import TEXTS, fim_model

TEXT = "abc\nabc\nabc\n"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fim_model(tmp_path_factory.mktemp("vim") / "tiny.gguf", *TEXTS)


def command(tiny: Path, place: str = "2:2") -> list[str]:
    """A command that writes the text with its gap filled in, in marks: `--show` of a short text shows all of it."""
    return [
        sys.executable, "-m", "localspec", "complete", "-", "--at", place, "--target", str(tiny), "--ctx", "128",
        "--threads", "1", "--max-tokens", "4", "--show", "--color", "never",
    ]  # fmt: skip


def run(tiny: Path, place: str = "2:2", *, vim: bool, together: bool) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "VIMRUNTIME": "/usr/share/vim"}
    if not vim:
        del environment["VIMRUNTIME"]
    return subprocess.run(
        command(tiny, place), input=TEXT, env=environment, encoding="utf-8", timeout=120, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if together else subprocess.PIPE,
    )  # fmt: skip


def test_only_the_answer_comes_into_the_text(tiny: Path) -> None:
    answer = run(tiny, vim=False, together=False)
    assert answer.returncode == 0
    assert "prompt: lines 1-3" in answer.stderr
    assert answer.stdout.startswith("abc\na")
    assert run(tiny, vim=True, together=True).stdout == answer.stdout
    assert run(tiny, vim=True, together=False).stderr == ""
    assert "prompt: lines" in run(tiny, vim=False, together=True).stdout


def test_a_failure_is_told_all_the_same(tiny: Path) -> None:
    failed = run(tiny, "9", vim=True, together=True)
    assert failed.returncode == 1
    assert failed.stdout == "localspec: there is no line 9: the text has 4\n"


@pytest.mark.parametrize("editor", ["vim", "nvim"])
def test_the_whole_buffer_through_the_editor_itself(tiny: Path, tmp_path: Path, editor: str) -> None:
    if shutil.which(editor) is None:
        pytest.skip(f"{editor} is not installed")
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    filter_ = " ".join(command(tiny))
    subprocess.run(
        [editor, "-u", "NONE", "-i", "NONE", "-es", "-c", f"%!{filter_}", "-c", "wq", str(file)],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert file.read_text() == run(tiny, vim=False, together=False).stdout


PLUGIN = Path(__file__).parents[2] / "contrib" / "localspec.vim"


@pytest.mark.parametrize("editor", ["vim", "nvim"])
class TestThePlugin:
    def keys(self, editor: str, file: Path, options: str, *commands: str) -> str:
        """The buffer after the commands, with the plugin loaded; a test on its own process each."""
        if shutil.which(editor) is None:
            pytest.skip(f"{editor} is not installed")
        given = [
            f"let g:localspec_command = '{sys.executable} -m localspec'",
            f"let g:localspec_options = '{options}'",
            f"source {PLUGIN}",
            *commands,
            "wq",
        ]
        subprocess.run(
            [editor, "-u", "NONE", "-i", "NONE", "-n", "-es", "-c", "set nocompatible autoindent",
             *(word for command in given for word in ("-c", command)), str(file)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return file.read_text()

    def test_the_gap_at_the_cursor_is_filled_in(self, tiny: Path, tmp_path: Path, editor: str) -> None:
        options = f"--target {tiny} --ctx 128 --threads 1 --max-tokens 6 --lines 0"
        file = tmp_path / "a.txt"
        text = "éabc\n  abc\nabc\n"
        file.write_text(text)
        answer = subprocess.run(
            [sys.executable, "-m", "localspec", "complete", f"{file}:2:4", *options.split()],
            capture_output=True, encoding="utf-8", timeout=120, check=True,
        ).stdout  # fmt: skip
        assert answer
        made = self.keys(editor, file, options, "call cursor(2, 4)", 'exe "normal i\\<C-X>\\<C-G>!"')
        assert made == text.replace("  abc", f"  a{answer}!bc")

    def test_an_edit_that_fails_leaves_the_text(self, tmp_path: Path, editor: str) -> None:
        file = tmp_path / "a.txt"
        file.write_text(TEXT)
        assert self.keys(editor, file, "--target /nowhere.gguf", "2Localspec say more") == TEXT
