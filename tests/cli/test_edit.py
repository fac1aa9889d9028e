"""`localspec edit` with a scripted engine: what is shown, asked, written, refused, undone, and what a pipe gets."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.assist import writing
from localspec.engine.errors import EngineDied
from tests.cli.streams import CommandLine, Outcome, Stream, failed, lines
from tests.fake_engine import Script, Step, plain

SOURCE = "def total(x):\n    return x\n\n\ndef other():\n    return 2\n"
NEW = SOURCE.replace("total", "add_up")
KEPT = "\x20\n"
DIFF = f"""\
--- a/code.py
+++ b/code.py
@@ -1,4 +1,4 @@
-def total(x):
+def add_up(x):
     return x
{KEPT}{KEPT}"""


def says(*answers: str, reason: Any = "end_of_text") -> list[Script]:
    return [Script(plain(*answer.splitlines(keepends=True)), reason=reason) for answer in answers]


def block(code: str) -> str:
    return f"```python\n{code}```\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "code.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def edit(cli: CommandLine, model: Path) -> Any:
    """`edit(*arguments)`: one call, whose model answers with `NEW` unless `cli.use` said otherwise."""
    cli.use(scripts=says(block(NEW)))

    def call(*arguments: str, keys: str | None = None, **streams: Any) -> Outcome:
        if keys is not None:
            _type(cli, keys)
        return cli.run("edit", "--target", str(model), *arguments, **streams)

    return call


def _type(cli: CommandLine, keys: str) -> None:
    """What comes from the keyboard."""
    cli.monkeypatch.setattr(Stream, "readline", lambda self, *_: keys)


class TestWhatIsShown:
    def test_a_pipe_gets_the_diff_plain_and_nothing_is_written(self, edit: Any, file: Path) -> None:
        outcome = edit("code.py", "Rename total.", stdin=b"")
        assert (outcome.code, outcome.out) == (0, DIFF)
        assert "nothing was written" in outcome.err
        assert file.read_text() == SOURCE

    def test_a_terminal_gets_it_in_colour_and_the_answer_as_it_comes(self, edit: Any, file: Path) -> None:
        outcome = edit("code.py", "Rename total.", "--diff", terminal=True)
        assert "\x1b[31m-def total(x):\x1b[0m\n\x1b[32m+def add_up(x):\x1b[0m\n" in outcome.out
        assert "```python\ndef add_up(x):\n" in outcome.err
        assert "tokens/s" in outcome.err
        assert "```" not in outcome.out

    def test_no_colour_where_none_is_wanted(self, edit: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert edit("code.py", "x", "--diff", "--color", "never", terminal=True).out == DIFF
        monkeypatch.setenv("NO_COLOR", "1")
        assert edit("code.py", "x", "--diff", terminal=True).out == DIFF
        assert "\x1b[32m+" in edit("code.py", "x", "--diff", "--color", "always").out

    def test_control_characters_are_visible_on_a_terminal_and_unchanged_in_a_pipe(
        self, edit: Any, cli: CommandLine, file: Path
    ) -> None:
        """S5."""
        cli.use(scripts=says(block("x = '\x1b[2J'\n")))
        assert "\x1b[2J" not in edit("code.py", "x", "--diff", terminal=True).out
        assert "+x = '\x1b[2J'\n" in edit("code.py", "x", "--diff").out

    def test_prose_is_shown_apart(self, edit: Any, cli: CommandLine, file: Path) -> None:
        cli.use(scripts=says(f"Sure.\n{block(NEW)}I renamed [it].\n"))
        outcome = edit("code.py", "x", "--diff")
        assert outcome.out == DIFF
        assert "  Sure.\n  \n  I renamed [it].\n" in outcome.err

    def test_the_same_text_is_nothing_to_change(self, edit: Any, cli: CommandLine, file: Path) -> None:
        cli.use(scripts=says(block(SOURCE)))
        outcome = edit("code.py", "x", "--apply")
        assert (outcome.code, outcome.out) == (0, "")
        assert "nothing to change" in outcome.err

    def test_stdout_prints_the_new_text_and_writes_nothing(self, edit: Any, cli: CommandLine, file: Path) -> None:
        file.write_bytes(SOURCE.replace("\n", "\r\n").encode())
        outcome = edit("code.py", "x", "--stdout")
        assert outcome.out == NEW.replace("\n", "\r\n")
        assert edit("code.py", "x", "--stdout", terminal=True).out == outcome.out
        assert b"total" in file.read_bytes()

    def test_what_is_asked(self, edit: Any, cli: CommandLine, file: Path) -> None:
        (file.parent / "notes.md").write_text("Names are words.\n")
        edit("code.py", "Rename total.", "--context", "notes.md", "--diff", "--max-tokens", "77")
        request = cli.engines[-1].requests[-1]
        text = "".join(segment.text for segment in request.prompt)
        assert "Rename total." in text
        assert SOURCE in text
        assert "Names are words." in text
        assert request.sampling.temperature == 0
        assert request.max_tokens == 77
        assert [source.name for source in request.sources] == ["notes.md", "code.py"]

    def test_the_sampler_is_the_options_alone(self, edit: Any, cli: CommandLine, file: Path, home: Path) -> None:
        """What suits a chat (a temperature, a penalty on repeating, a short answer) spoils a copy."""
        (home / "config").mkdir()
        (home / "config" / "config.toml").write_text("temperature = 0.9\nrepeat_penalty = 1.3\nmax_tokens = 5\n")
        edit("code.py", "x", "--diff")
        request = cli.engines[-1].requests[-1]
        assert (request.sampling.temperature, request.sampling.repeat_penalty) == (0, 1)
        assert request.max_tokens > 5
        edit("code.py", "x", "--diff", "--temp", "0.4", "--top-k", "3", "--seed", "9")
        request = cli.engines[-1].requests[-1]
        assert (request.sampling.temperature, request.sampling.top_k, request.seed) == (0.4, 3, 9)


class TestWriting:
    def test_it_asks_and_writes_on_yes(self, edit: Any, file: Path) -> None:
        file.chmod(0o750)
        outcome = edit("code.py", "x", terminal=True, keys="y\n")
        assert "Write code.py? [y/N]" in outcome.err
        assert file.read_text() == NEW
        assert stat.S_IMODE(file.stat().st_mode) == 0o750
        assert "code.py is written: +1 -1 lines" in outcome.err

    @pytest.mark.parametrize("keys", ["\n", "n\n", "", "yo\n"])
    def test_anything_else_is_no(self, keys: str, edit: Any, file: Path) -> None:
        outcome = edit("code.py", "x", terminal=True, keys=keys)
        assert outcome.code == 0
        assert "nothing was written" in outcome.err
        assert file.read_text() == SOURCE

    def test_apply_does_not_ask(self, edit: Any, file: Path) -> None:
        outcome = edit("code.py", "x", "--apply", terminal=True)
        assert "[y/N]" not in outcome.err
        assert file.read_text() == NEW

    def test_only_the_lines_are_changed(self, edit: Any, cli: CommandLine, file: Path) -> None:
        cli.use(scripts=says(block("def other():\n    return 3\n")))
        edit("code.py", "x", "--lines", "5-6", "--apply")
        assert file.read_text() == SOURCE.replace("2", "3")
        assert "total" not in "".join(segment.text for segment in cli.engines[-1].requests[-1].prompt)

    @pytest.mark.parametrize("text", [SOURCE, SOURCE.rstrip("\n"), "\ufeff" + SOURCE, SOURCE.replace("\n", "\r\n")])
    def test_encoding_line_ends_and_final_newline_are_kept(self, text: str, edit: Any, file: Path) -> None:
        file.write_bytes(text.encode())
        assert edit("code.py", "x", "--apply").code == 0
        assert file.read_bytes() == text.replace("total", "add_up").encode()

    def test_a_symlink_stays_one(self, edit: Any, file: Path) -> None:
        link = file.parent / "link.py"
        link.symlink_to("code.py")
        outcome = edit("link.py", "x", "--apply")
        assert link.is_symlink()
        assert file.read_text() == NEW
        assert "+++ b/code.py" in outcome.out

    def test_a_file_that_changed_meanwhile_is_left_alone(
        self, edit: Any, cli: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cli.use(scripts=says(block(NEW)), load=lambda: file.write_text("theirs\n") and None)
        outcome = edit("code.py", "x", "--apply")
        assert outcome.code == 1
        assert "changed by somebody else" in outcome.err
        assert file.read_text() == "theirs\n"

    def test_a_full_disk_costs_a_message(self, edit: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(writing.os, "fsync", full)
        outcome = edit("code.py", "x", "--apply")
        assert outcome.code == 1
        assert "No space left" in outcome.err.splitlines()[-1]
        assert file.read_text() == SOURCE
        assert [path.name for path in file.parent.iterdir()] == ["code.py"]

    def test_python_that_would_not_parse_is_shown_but_not_written(
        self, edit: Any, cli: CommandLine, file: Path
    ) -> None:
        cli.use(scripts=says(block("def total(:\n    return x\n\n\ndef other():\n    return 2\n")))
        outcome = edit("code.py", "x", "--apply")
        assert outcome.code == 1
        assert "no Python any more (line 1" in outcome.err
        assert file.read_text() == SOURCE

    def test_several_files_one_diff(self, edit: Any, cli: CommandLine, file: Path) -> None:
        (file.parent / "b.py").write_text("x = 1\n")
        (file.parent / "c.py").write_text("y = 1\n")
        cli.use(scripts=says(block(NEW), block("x = 2\n"), block("y = 1\n")))
        outcome = edit("code.py", "b.py", "c.py", "code.py", "x", "--apply")
        assert outcome.out == DIFF + "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
        assert len(cli.engines[-1].requests) == 3
        assert (file.read_text(), (file.parent / "b.py").read_text()) == (NEW, "x = 2\n")
        edit("--undo")
        assert (file.read_text(), (file.parent / "b.py").read_text()) == (SOURCE, "x = 1\n")

    def test_one_bad_answer_of_several_writes_nothing(self, edit: Any, cli: CommandLine, file: Path) -> None:
        (file.parent / "b.py").write_text("x = 1\n")
        cli.use(scripts=says(block(NEW), "I cannot."))
        outcome = edit("code.py", "b.py", "x", "--apply")
        assert (outcome.code, outcome.out) == (1, "")
        assert "b.py: the answer has no code block: nothing was written" in outcome.err
        assert file.read_text() == SOURCE

    def test_a_large_file_goes_part_by_part(self, edit: Any, cli: CommandLine, file: Path) -> None:
        text = "".join(f"def f{number}():\n    a = {number}\n    return a\n\n\n" for number in range(120))
        file.write_text(text)
        cli.use(scripts=says("no"))
        parts = edit("code.py", "x", "--apply")
        assert "part 1 of " in parts.err
        assert parts.code == 1
        assert file.read_text() == text


class TestRefusals:
    @pytest.mark.parametrize(
        ("answer", "reason", "words"),
        [
            (block(NEW), "max_tokens", "--max-tokens"),
            (block(NEW), "context_full", "--ctx"),
            (f"```python\n{NEW}", "end_of_text", "no end"),
            ("def add_up(x): ...", "end_of_text", "no code block"),
            (block("def add_up(x):\n# ... rest of the file unchanged\n"), "end_of_text", "leaves text out"),
        ],
    )
    def test_an_answer_that_is_cut_or_lacks_the_text_is_never_written(
        self, answer: str, reason: str, words: str, edit: Any, cli: CommandLine, file: Path
    ) -> None:
        cli.use(scripts=says(answer, reason=reason))
        outcome = edit("code.py", "x", "--apply")
        assert (outcome.code, outcome.out) == (1, "")
        assert words in outcome.err
        assert file.read_text() == SOURCE

    @pytest.mark.parametrize(
        ("data", "words"), [(b"a\x00b", "binary"), ("a\n".encode("utf-16"), "UTF-16"), (b"\xe9", "UTF-8")]
    )
    def test_what_is_no_text(self, data: bytes, words: str, edit: Any, cli: CommandLine, file: Path) -> None:
        file.write_bytes(data)
        failed(edit("code.py", "x", "--apply"), "code.py", words)
        assert not cli.engines

    def test_a_read_only_file_is_refused_before_the_model_loads(self, edit: Any, cli: CommandLine, file: Path) -> None:
        file.chmod(0o444)
        failed(edit("code.py", "x", "--apply"), "read-only")
        assert not cli.engines
        assert edit("code.py", "x", "--diff").out == DIFF

    def test_a_file_that_is_too_large_for_the_context(self, edit: Any, file: Path) -> None:
        file.write_text("x = [\n" + "    1, 2, 3,\n" * 200 + "]\n")
        failed(edit("code.py", "x"), "lines 1-202 have", "context of 512", "--lines")

    def test_places_that_are_not_there(self, edit: Any, file: Path) -> None:
        failed(edit("none.py", "x"), "none.py", "no such file")
        failed(edit("code.py", "x", "--lines", "3-99"), "6 lines")
        failed(edit("code.py", "x", "--context", "none.md"), "none.md")

    @pytest.mark.parametrize(
        "arguments",
        [
            ["code.py"],
            [],
            ["code.py", " "],
            ["code.py", "b.py", "x", "--lines", "1-2"],
            ["code.py", "x", "--apply", "--diff"],
            ["code.py", "x", "--stdout", "--undo"],
            ["code.py", "x", "--force"],
        ],
    )
    def test_wrong_usage(self, arguments: list[str], edit: Any, cli: CommandLine, file: Path) -> None:
        failed(edit(*arguments, stdin=b"a\n"), "--help", code=2)
        assert not cli.engines


class TestUndo:
    def test_the_last_edit_of_a_file(self, edit: Any, file: Path) -> None:
        file.write_bytes(SOURCE.replace("\n", "\r\n").encode())
        before = file.read_bytes()
        edit("code.py", "x", "--apply")
        outcome = edit("--undo", "code.py")
        assert (outcome.code, outcome.out) == (0, "")
        assert file.read_bytes() == before
        failed(edit("--undo", "code.py"), "no edit to undo")

    def test_a_later_change_is_kept_unless_forced(self, edit: Any, file: Path) -> None:
        edit("code.py", "x", "--apply")
        file.write_text("mine\n")
        failed(edit("--undo"), "changed since", "--force")
        assert file.read_text() == "mine\n"
        assert edit("--undo", "--force").code == 0
        assert file.read_text() == SOURCE

    def test_of_two_files_one_changed_since_none_is_touched(self, edit: Any, cli: CommandLine, file: Path) -> None:
        other = file.parent / "b.py"
        other.write_text("x = 1\n")
        cli.use(scripts=says(block(NEW), block("x = 2\n")))
        edit("code.py", "b.py", "x", "--apply")
        other.write_text("mine\n")
        failed(edit("--undo"), "b.py", "changed since")
        assert file.read_text() == NEW

    def test_an_edit_that_cannot_be_kept_is_told(self, edit: Any, file: Path, home: Path) -> None:
        (home / "state").mkdir(exist_ok=True)
        (home / "state" / "undo").write_text("a file in the way")
        outcome = edit("code.py", "x", "--apply")
        assert "cannot be undone" in outcome.err
        assert file.read_text() == NEW


class TestAFilter:
    """`:%!localspec edit - "..."`."""

    def test_the_new_text_alone(self, edit: Any) -> None:
        for streams in ({}, {"err_terminal": True}):
            outcome = edit("-", "x", stdin=SOURCE.replace("\n", "\r\n").encode(), **streams)
            assert (outcome.code, outcome.out, outcome.err) == (0, NEW.replace("\n", "\r\n"), "")

    def test_prose_and_notices_stay_away(self, edit: Any, cli: CommandLine) -> None:
        cli.use(scripts=says(f"Sure.\n{block(NEW)}Done.\n"))
        outcome = edit("-", "x", stdin=SOURCE.encode())
        assert (outcome.code, outcome.out, outcome.err) == (0, NEW, "")

    @pytest.mark.parametrize("data", [SOURCE.encode(), b"caf\xe9\r\n", b"a\x00", b"a"])
    def test_a_failure_gives_the_text_back(self, data: bytes, edit: Any, cli: CommandLine) -> None:
        cli.use(scripts=says("I cannot."))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stream, "written", property(lambda self: self.bytes.kept.decode("latin-1")))
            outcome = edit("-", "x", stdin=data)
        assert outcome.code == 1
        assert outcome.out.encode("latin-1") == data
        assert outcome.err.startswith("localspec: ")
        assert outcome.err.count("\n") == 1

    def test_an_engine_that_dies_gives_the_text_back(self, edit: Any, cli: CommandLine) -> None:
        steps: list[Step] = [*plain("```\n"), EngineDied("The engine ended: SIGILL.")]
        cli.use(scripts=[Script(steps)])
        outcome = edit("-", "x", stdin=SOURCE.encode())
        assert (outcome.code, outcome.out) == (1, SOURCE)
        assert "SIGILL" in outcome.err

    @pytest.mark.parametrize(
        "arguments",
        [
            ["-"],
            ["-", " "],
            ["-", "x", "--apply"],
            ["-", "code.py", "x"],
            ["-", "x", "--lnes", "2"],
            ["-", "x", "--lines"],
        ],
    )
    def test_wrong_usage_gives_it_back_too(
        self, arguments: list[str], edit: Any, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = b"caf\xc3\xa9\r\n\ta"
        outcome = edit(*arguments, stdin=data)
        assert (outcome.code, outcome.out.encode()) == (2, data)
        assert "--help" in outcome.err
        assert not cli.engines
        # In Vim the reason would stand in the text.
        monkeypatch.setenv("VIMRUNTIME", "/usr/share/vim")
        outcome = edit(*arguments, stdin=data)
        assert (outcome.code, outcome.out.encode(), outcome.err) == (2, data, "")

    def test_where_no_text_is_awaited_none_is_given(self, edit: Any) -> None:
        for option in ("--diff", "--json"):
            assert "a\n" not in edit("-", " ", option, stdin=b"a\n").out

    def test_some_lines_and_a_diff(self, edit: Any, cli: CommandLine) -> None:
        cli.use(scripts=says(block("def other():\n    return 3\n")))
        assert edit("-", "x", "--lines", "5-6", stdin=SOURCE.encode()).out == SOURCE.replace("2", "3")
        assert "+    return 3\n" in edit("-", "x", "--lines", "5-6", "--diff", stdin=SOURCE.encode()).out

    def test_the_same_text_comes_back_to_the_byte(self, edit: Any, cli: CommandLine) -> None:
        cli.use(scripts=says(block(SOURCE)))
        text = "\ufeff\r\n" + SOURCE.replace("\n", "\r\n") + "\r\n\r\n"
        assert edit("-", "x", stdin=text.encode()).out == text

    @pytest.mark.parametrize(("answer", "code", "text"), [(block(NEW), 0, NEW), ("I cannot.", 1, SOURCE)])
    def test_a_process_as_vim_starts_it(self, answer: str, code: int, text: str, model: Path) -> None:
        """Vim puts stdout and stderr into the text: nothing but a text may be there, the old one after a failure."""
        program = "; ".join(
            [
                "import sys",
                "from localspec.cli import session",
                "from localspec.cli.main import main",
                "from tests.fake_engine import FakeEngine, Script, plain",
                f"script = Script(plain({answer!r}))",
                "session.EngineClient = lambda config: FakeEngine(config, scripts=[script])",
                "main(sys.argv[1:])",
            ]
        )
        done = subprocess.run(
            [sys.executable, "-c", program, "edit", "--target", str(model), "-", "Rename total."],
            input=SOURCE.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=Path(__file__).parents[2], env={**os.environ, "VIMRUNTIME": "/usr/share/vim"}, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout.decode()) == (code, text)


class TestJson:
    def test_events_and_an_edit_line(self, edit: Any, file: Path) -> None:
        outcome = edit("code.py", "x", "--json")
        start, *middle, end, line = lines(outcome)
        assert (start["type"], end["type"]) == ("start", "end")
        assert {event["type"] for event in middle} == {"token", "cycle"}
        assert line == {
            "type": "edit", "file": "code.py", "applied": False, "diff": DIFF, "prose": "", "problem": None,
        }  # fmt: skip
        assert file.read_text() == SOURCE

    def test_applied(self, edit: Any, file: Path) -> None:
        assert lines(edit("code.py", "x", "--json", "--apply"))[-1]["applied"] is True
        assert file.read_text() == NEW

    def test_a_failure_is_a_line(self, edit: Any, cli: CommandLine, file: Path) -> None:
        cli.use(scripts=says("no"))
        outcome = edit("code.py", "x", "--json")
        assert outcome.code == 1
        assert lines(outcome)[-1]["type"] == "error"
        assert "no code block" in lines(outcome)[-1]["message"]
        assert json.loads(edit("code.py", "--json").out)["type"] == "error"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_the_printed_diff_from_a_subdirectory(
    edit: Any, cli: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=file.parent, check=True)
    folder = file.parent / "src"
    folder.mkdir()
    inner = folder / "b.py"
    inner.write_bytes(b"x = 1\r\n")
    monkeypatch.chdir(folder)
    cli.use(scripts=says(block(NEW), block("x = 2\n")))
    patch = edit("../code.py", "b.py", "x", "--diff").out
    for path in ("code.py", "src/b.py"):
        assert f"--- a/{path}\n+++ b/{path}\n" in patch
    subprocess.run(["git", "apply", "-"], cwd=file.parent, input=patch.encode(), check=True)
    assert (file.read_text(), inner.read_bytes()) == (NEW, b"x = 2\r\n")
