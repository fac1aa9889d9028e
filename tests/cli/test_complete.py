"""`localspec complete` with a scripted engine: what is asked, what of the answer is kept, where it goes."""

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.engine.events import Source
from tests.assist.test_fim import QWEN
from tests.cli.streams import CommandLine, Outcome, failed, lines
from tests.fake_engine import INFO, Say, Script, Wait, plain

CODE = "def total(cart):\n    return sum()\n\n\ndef count(cart):\n    return len(cart)\n"
GAP = "2:16"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`CODE` in a folder of its own, which is the current one."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "cart.py"
    path.write_text(CODE)
    return path


def answers(cli: CommandLine, *scripts: Script, **info: Any) -> None:
    cli.use(scripts=scripts, info=replace(QWEN, **{"context": 4096, **info}))


def complete(cli: CommandLine, model: Path, *arguments: str, **streams: Any) -> Outcome:
    return cli.run("complete", "--target", str(model), *arguments, **streams)


def prompt_of(cli: CommandLine, number: int = -1) -> str:
    return "".join(segment.text for segment in cli.engines[-1].requests[number].prompt)


class TestWhatIsAsked:
    def test_the_gap_is_filled_by_the_models_own_tokens(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("cart", ".", "items")))
        outcome = complete(cli, model, f"cart.py:{GAP}")
        assert (outcome.code, outcome.out) == (0, "cart.items")
        before, behind = CODE.split("sum(")
        assert prompt_of(cli) == f"<|fim_prefix|>{before}sum(<|fim_suffix|>{behind}<|fim_middle|>"
        request = cli.engines[0].requests[0]
        assert request.sampling.temperature == 0
        assert "<|file_sep|>" in request.stop
        assert [source.name for source in request.sources] == ["cart.py", "cart.py"]
        assert cli.engines[0].closed

    def test_files_around_are_named_and_shown(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("x")))
        Path("other.py").write_text("def total(things):\n    return 3\n")
        outcome = complete(cli, model, f"cart.py:{GAP}")
        assert "<|file_sep|>other.py\ndef total(things):" in prompt_of(cli)
        assert "other.py from line 1" in outcome.err
        assert "other.py" in [source.name for source in cli.engines[0].requests[0].sources]
        complete(cli, model, f"cart.py:{GAP}", "--neighbours", "off")
        assert "other.py" not in prompt_of(cli)
        complete(cli, model, f"cart.py:{GAP}", "--neighbours", "3")
        assert "other.py" not in prompt_of(cli)

    def test_in_a_repository_names_begin_at_its_root(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("x")))
        subprocess.run(["git", "init", "-q", str(file.parent.parent)], check=True)
        (file.parent.parent / "lib.py").write_text("def count(things): ...\n")
        (file.parent / ".gitignore").write_text("ignored.py\n")
        Path("ignored.py").write_text("def count(secret): ...\n")
        complete(cli, model, f"cart.py:{GAP}")
        assert "<|file_sep|>lib.py\ndef count(things)" in prompt_of(cli)
        assert "<|file_sep|>shop/cart.py\n<|fim_prefix|>" in prompt_of(cli)
        assert "secret" not in prompt_of(cli)

    def test_files_that_are_named_go_in_whole_and_once(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("x")))
        Path(".env").write_text("NOTHING=alike\n")
        Path("other.py").write_text("def total(things): ...\n")
        complete(cli, model, f"cart.py:{GAP}", "--context", ".env", "--context", "other.py")
        assert "<|file_sep|>.env\nNOTHING=alike\n" in prompt_of(cli)
        assert prompt_of(cli).count("def total(things)") == 1

    def test_files_that_do_not_fit_are_refused(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("x")))
        Path("long.txt").write_text("word " * 5000)
        failed(complete(cli, model, f"cart.py:{GAP}", "--context", "long.txt"), "no room for", "--ctx")
        failed(complete(cli, model, f"cart.py:{GAP}", "--context", "no.txt"), "no.txt")

    def test_without_the_tokens_it_is_asked_in_words_and_said_so(
        self, cli: CommandLine, model: Path, file: Path
    ) -> None:
        cli.use(scripts=[Script(plain("Here:\n", "```py\n", "cart.items\n", "```\n", "Enjoy."))], info=INFO)
        outcome = complete(cli, model, f"cart.py:{GAP}")
        assert outcome.out == "cart.items"
        assert "tiny.gguf has no fill-in-the-middle tokens" in outcome.err
        assert "return sum(<<GAP>>)" in prompt_of(cli)

    def test_a_piped_text(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("x")))
        Path("other.py").write_text("def total(things): ...\n")
        outcome = complete(cli, model, "-", "--at", "1:5", "--name", "cart.py", stdin=b"def \ntotal\n")
        assert outcome.out == "x"
        assert "<|fim_prefix|>def <|fim_suffix|>\ntotal\n" in prompt_of(cli)
        assert "things" in prompt_of(cli)
        complete(cli, model, "-", "--at", "1", stdin=b"def \n")
        assert prompt_of(cli) == "<|fim_prefix|>def <|fim_suffix|>\n<|fim_middle|>"


class TestWhatIsKept:
    def test_the_answer_ends_with_the_line_and_the_engine_is_stopped(
        self, cli: CommandLine, model: Path, file: Path
    ) -> None:
        wait = Wait()
        answers(cli, Script([*plain("cart", ")\n", "junk"), wait, *plain("more")]))
        outcome = complete(cli, model, f"cart.py:{GAP}")
        assert (outcome.code, outcome.out) == (0, "cart")
        assert "left out what stands behind the gap already: )" in outcome.err
        assert not wait.reached.is_set()

    def test_the_block_ends_where_the_next_begins(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("\n    pass", "\n\n\n", "def g", "():")))
        outcome = complete(cli, model, "cart.py:1")
        assert outcome.out == "\n    pass"
        assert "the block ends here" in outcome.err
        assert complete(cli, model, "cart.py:1", "--lines", "0").out == "\n    pass\n\n\ndef g():"
        assert complete(cli, model, "cart.py:1", "--lines", "1").out == ""

    def test_a_limit_is_told(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("x"), reason="max_tokens"))
        outcome = complete(cli, model, f"cart.py:{GAP}", "--max-tokens", "1")
        assert "cut at 1 tokens" in outcome.err
        assert cli.engines[0].requests[0].max_tokens == 1

    def test_nothing_is_told(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain(")")))
        outcome = complete(cli, model, f"cart.py:{GAP}")
        assert (outcome.code, outcome.out) == (0, "")
        assert "would fill in nothing" in outcome.err

    def test_alternatives_are_drawn_with_seeds_and_repetitions_left_out(
        self, cli: CommandLine, model: Path, file: Path
    ) -> None:
        answers(cli, Script(plain("a")), Script(plain("b")), Script(plain("a", ")")))
        outcome = complete(cli, model, f"cart.py:{GAP}", "-n", "3", "--seed", "7")
        assert outcome.out == "--- 1 of 2\na\n--- 2 of 2\nb\n"
        assert "2 of 3 alternatives differ" in outcome.err
        asked = [(each.sampling.temperature, each.seed) for each in cli.engines[0].requests]
        assert asked == [(0.0, 7), (0.4, 8), (0.4, 9)]
        complete(cli, model, f"cart.py:{GAP}", "-n", "2", "--temp", "0.9")
        assert [each.sampling.temperature for each in cli.engines[1].requests] == [0.9, 0.9]

    def test_quiet_is_quiet_unless_it_fails(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("cart", ")")))
        outcome = complete(cli, model, f"cart.py:{GAP}", "--quiet")
        assert (outcome.out, outcome.err) == ("cart", "")
        failed(complete(cli, model, "cart.py:99", "--quiet"), "no line 99")

    def test_an_interrupt_keeps_what_came(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script([*plain("half"), KeyboardInterruptNow(), *plain("late")]))
        outcome = complete(cli, model, f"cart.py:{GAP}", "-n", "3")
        assert (outcome.code, outcome.out) == (130, "half")
        assert "not complete" in outcome.err


class KeyboardInterruptNow(Wait):
    """Ctrl+C while the engine works."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = _Interrupting()


class _Interrupting:
    def set(self) -> None:
        os.kill(os.getpid(), 2)


class TestWhereItGoes:
    MIXED = Script([*plain("cart"), Say([".", "items"], end=("bonus", ")"))])

    def test_a_terminal_gets_colours_and_figures(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, self.MIXED)
        outcome = complete(cli, model, f"cart.py:{GAP}", terminal=True)
        assert outcome.out == "cart\x1b[1;32m.\x1b[0m\x1b[1;32mitems\x1b[0m\n"
        assert "tokens/s" in outcome.err
        assert "resampled" in outcome.err

    def test_where_it_was_copied_from(self, cli: CommandLine, model: Path, file: Path) -> None:
        copied = [
            Say(["a", "b"], ("bonus", "c"), source=Source("x.py", 7)),
            Say(["d"], ("bonus", "e"), source=Source("y.py", 2)),
            Say(["f"], ("bonus", ")"), source=Source("x.py", 5)),
            Say(["\n"], ("bonus", "g"), source=Source("z.py", 1)),
        ]
        answers(cli, Script([*plain("-"), *copied]))
        outcome = complete(cli, model, f"cart.py:{GAP}")
        assert outcome.out == "-abcdef"
        assert "copied from x.py lines 5-7, y.py line 2\n" in outcome.err
        answers(cli, Script(plain("x")))
        assert "copied" not in complete(cli, model, f"cart.py:{GAP}").err

    def test_between_the_lines_around(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, self.MIXED)
        outcome = complete(cli, model, f"cart.py:{GAP}", "--show", "--color", "marks")
        assert outcome.out == CODE.replace("sum()", "sum(cart‹.items›)")
        shown = complete(cli, model, f"cart.py:{GAP}", "--show", terminal=True).out
        assert "\x1b[2m    return sum(\x1b[0mcart\x1b[1;32m" in shown

    def test_json_lines(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script([*plain("a", "\nb"), Wait()]), Script(plain("a")))
        outcome = complete(cli, model, f"cart.py:{GAP}", "--json", "-n", "2")
        told = lines(outcome)
        ends = [line for line in told if line["type"] == "end"]
        assert [line["alternative"] for line in ends] == [1, 2]
        assert [line["reason"] for line in ends] == ["stop", "end_of_text"]
        assert [(line["text"], line["completion"], line["dropped"]) for line in ends] == [
            ("a\nb", "a", "\nb"),
            ("a", "a", ""),
        ]
        assert [line["ended"] for line in ends] == ["lines", "model"]
        assert [line["duplicate"] for line in ends] == [False, True]
        first = told[: told.index(ends[0])]
        assert "".join(line["text"] for line in first if line["type"] == "token") == "a\nb"

    def test_written_into_the_file_in_one_step(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, self.MIXED)
        file.write_bytes(b"\xef\xbb\xbf" + CODE.replace("\n", "\r\n").encode())
        file.chmod(0o640)
        outcome = complete(cli, model, "cart.py:1", "--apply", "--lines", "0")
        assert outcome.out == "cart.items)"
        written = b"\xef\xbb\xbf" + CODE.replace("\n", "\r\n").replace("(cart):", "(cart):cart.items)", 1).encode()
        assert file.read_bytes() == written
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert "cart.py: 1 line filled in at line 1" in outcome.err

    def test_a_line_end_written_is_one_of_the_files(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script(plain("\n    x", "\r\n    y")))
        file.write_bytes(b"def f():\r\n")
        complete(cli, model, "cart.py:1", "--apply", "--lines", "0")
        assert file.read_bytes() == b"def f():\r\n    x\r\n    y\r\n"

    def test_a_file_that_changed_meanwhile_is_left_alone(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli, Script([*plain("a"), Changing(file)]))
        outcome = complete(cli, model, f"cart.py:{GAP}", "--apply")
        assert outcome.code == 1
        assert "changed by somebody else" in outcome.err
        assert file.read_text() == "other\n"


class Changing(Wait):
    """Somebody else writes the file while the engine works."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.release.set()
        self.reached = self

    def set(self) -> None:
        self.file.write_text("other\n")


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("arguments", "word", "code"),
        [
            (["cart.py"], "FILE:LINE", 1),
            (["cart.py:99"], "no line 99", 1),
            (["cart.py:1:99"], "no column 99", 1),
            (["no.py:1"], "no.py: no such file", 1),
            (["cart.py:1", "--at", "3"], "--at", 2),
            (["-"], "--at", 2),
            (["-", "--at", "1"], "nothing is piped", 2),
            (["-", "--at", "x"], "LINE:COL", 1),
            (["-", "--at", "1", "--apply"], "--apply", 2),
            (["cart.py:1", "--apply", "-n", "2"], "--apply", 2),
            (["cart.py:1", "--neighbours", "some"], "auto", 2),
        ],
    )
    def test_it_is_told_before_anything_loads(
        self, cli: CommandLine, model: Path, file: Path, arguments: list[str], word: str, code: int
    ) -> None:
        answers(cli)
        failed(complete(cli, model, *arguments), word, code=code)
        assert cli.engines == []

    def test_with_json_it_is_a_line_too(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli)
        for arguments in (["cart.py:99", "--json"], ["-", "--json"], ["cart.py:1", "--json", "--lines", "x"]):
            outcome = complete(cli, model, *arguments)
            (line,) = lines(outcome)
            assert line["type"] == "error"
            assert line["message"] in outcome.err

    def test_what_is_no_text_is_refused(self, cli: CommandLine, model: Path, file: Path) -> None:
        answers(cli)
        file.write_bytes(b"\0\1\2")
        failed(complete(cli, model, "cart.py:1"), "cart.py")
