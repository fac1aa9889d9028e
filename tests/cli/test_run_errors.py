"""`localspec run` when something is wrong: every bad input, and interrupts. D2, D4, S4, V3."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.engine.errors import EngineDied, PromptTooLong
from localspec.engine.events import Finished, Started
from tests.cli.streams import CommandLine, failed, lines, run
from tests.fake_engine import INFO, FakeEngine, Say, Script, Step, Wait, plain

ANSWER: list[Step] = [*plain("def "), Say(["merge", "("], end=("bonus", "a")), *plain(" and", " more", " text")]


@pytest.fixture
def talking(cli: CommandLine) -> CommandLine:
    cli.use(scripts=[Script(ANSWER)])
    return cli


class TestBadInput:
    def test_a_missing_file(self, cli: CommandLine) -> None:
        failed(cli.run("run", "--target", "/nowhere/x.gguf", "hi"), "/nowhere/x.gguf")

    @pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html><html>", b"GGUF", b"GGUF\x03\x00\x00\x00"])
    def test_not_a_whole_gguf(self, cli: CommandLine, tmp_path: Path, content: bytes) -> None:
        """D4."""
        file = tmp_path / "bad.gguf"
        file.write_bytes(content)
        failed(cli.run("run", "--target", str(file), "hi"), "bad.gguf")

    def test_a_cut_gguf(self, cli: CommandLine, model: Path, tmp_path: Path) -> None:
        """D4."""
        file = tmp_path / "half.gguf"
        file.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
        failed(cli.run("run", "--target", str(file), "hi"), "half.gguf")

    def test_an_unknown_pair(self, cli: CommandLine) -> None:
        failed(cli.run("run", "--pair", "nonsense", "hi"), "nonsense", "models list")

    def test_a_model_that_is_not_here_names_the_command(self, cli: CommandLine) -> None:
        """D2: offline, at once."""
        failed(cli.run("run", "--offline", "hi"), "not on this disk", "localspec models pull qwen2.5-coder-1.5b")

    def test_pair_and_target_together(self, cli: CommandLine, model: Path) -> None:
        failed(run(cli, model, "--pair", "x", "hi"), "--pair")

    @pytest.mark.parametrize("text", ["", "  \n"])
    def test_an_empty_prompt(self, cli: CommandLine, model: Path, text: str) -> None:
        failed(run(cli, model, text), "empty")
        failed(run(cli, model, stdin=text.encode()), "empty")
        failed(run(cli, model), "empty")

    def test_a_prompt_that_is_not_utf8(self, cli: CommandLine, model: Path, tmp_path: Path) -> None:
        failed(run(cli, model, "hi", stdin=b"abc\xff"), "not UTF-8", "byte 3")
        failed(run(cli, model, "caf\udce9"), "not UTF-8")
        file = tmp_path / "latin.txt"
        file.write_bytes(b"\xe9")
        failed(run(cli, model, "--file", str(file), "hi"), "latin.txt", "not UTF-8")

    def test_a_file_that_cannot_be_read(self, cli: CommandLine, model: Path, tmp_path: Path) -> None:
        failed(run(cli, model, "--file", str(tmp_path / "none.py"), "hi"), "none.py")
        failed(run(cli, model, "--file", str(tmp_path), "hi"), str(tmp_path))

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--temp", "-1"), ("--temp", "nan"), ("--temp", "inf"), ("--top-k", "-1"), ("--top-p", "1.5"),
            ("--min-p", "-0.1"), ("--repeat-penalty", "0"), ("--frequency-penalty", "inf"), ("--max-tokens", "0"),
            ("--ctx", "0"), ("--threads", "0"), ("--gpu-layers", "-1"), ("--draft-length", "65"), ("--seed", "-1"),
            ("--seed", "9" * 400), ("--stop", ""),
        ],
        ids=" ".join,
    )  # fmt: skip
    def test_out_of_range(self, cli: CommandLine, model: Path, arguments: tuple[str, str]) -> None:
        failed(run(cli, model, *arguments, "hi"), arguments[0])

    @pytest.mark.parametrize(
        ("option", "value", "words"),
        [
            ("--temp", "nan", "a finite number, 0 or more, not nan"),
            ("--repeat-penalty", "0", "a finite number above 0, not 0.0"),
            ("--presence-penalty", "inf", "a finite number, not inf"),
            ("--max-tokens", "0", "1 or more, not 0"),
            ("--draft-length", "0", "between 1 and 64, not 0"),
            ("--seed", "-1", "between 0 and 18446744073709551615, not -1"),
        ],
    )
    def test_the_range_in_words(self, cli: CommandLine, model: Path, option: str, value: str, words: str) -> None:
        failed(run(cli, model, option, value, "hi"), f"{option} must be {words}")

    @pytest.mark.parametrize(
        "arguments",
        [("--temp", "hot"), ("--ctx", "big"), ("--speculate", "maybe"), ("--no-such-option",), ("one", "two")],
        ids=" ".join,
    )
    def test_wrong_usage(self, cli: CommandLine, model: Path, arguments: tuple[str, ...]) -> None:
        failed(run(cli, model, *arguments, "hi"), "--help", code=2)

    @pytest.mark.parametrize(
        "error",
        [
            PromptTooLong("the prompt is 12 tokens too long for the context of 512"),
            EngineDied("the engine died: SIGKILL"),
        ],
    )
    def test_an_error_of_the_engine(self, cli: CommandLine, model: Path, error: Exception) -> None:
        cli.use(scripts=[Script([error])])
        outcome = run(cli, model, "hi")
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.endswith(f"localspec: {error}\n")
        assert cli.engines[0].closed

    def test_what_was_said_before_an_error_stays(self, cli: CommandLine, model: Path) -> None:
        cli.use(scripts=[Script([*plain("half an "), EngineDied("the engine died: SIGSEGV")])])
        outcome = run(cli, model, "--color", "never", "hi", terminal=True)
        assert (outcome.code, outcome.out) == (1, "half an \n")

    def test_a_template_that_refuses(self, cli: CommandLine, model: Path) -> None:
        """V3."""
        cli.use(info=replace(INFO, chat_template="{{ raise_exception('no poems\\n\\u001b[2J') }}"))
        outcome = run(cli, model, "hi")
        assert outcome.code == 1
        assert outcome.err == "localspec: no poems [2J\n"

    def test_errors_are_json_lines_too(self, cli: CommandLine, model: Path) -> None:
        outcome = run(cli, model, "--json", "--temp", "0", "")
        assert outcome.code == 1
        assert [line["type"] for line in lines(outcome)] == ["error"]
        assert "empty" in lines(outcome)[0]["message"]
        assert "empty" in outcome.err
        cli.use(scripts=[Script([*plain("x"), EngineDied("the engine died: SIGSEGV")])])
        found = lines(run(cli, model, "--json", "hi"))
        assert [line["type"] for line in found] == ["start", "token", "error"]
        assert found[-1] == {"type": "error", "title": "Engine", "message": "the engine died: SIGSEGV"}

    @pytest.mark.parametrize(
        ("arguments", "title", "code"), [(("--temp", "-1"), "Cannot answer", 1), (("--nope",), "Wrong usage", 2)]
    )
    def test_a_wrong_option_is_a_json_line_too(
        self, cli: CommandLine, model: Path, arguments: tuple[str, ...], title: str, code: int
    ) -> None:
        outcome = run(cli, model, "--json", *arguments, "hi")
        assert outcome.code == code
        (line,) = lines(outcome)
        assert (line["type"], line["title"]) == ("error", title)
        assert arguments[0] in line["message"]
        assert run(cli, model, *arguments, "hi").out == ""

    def test_a_broken_pipe_ends_quietly(self, talking: CommandLine, model: Path) -> None:
        for option in ("--color=never", "--json"):
            outcome = run(talking, model, option, "hi", breaks_after=8)
            assert outcome.code == 1
            assert "localspec:" not in outcome.err
            assert talking.engines[-1].closed

    def test_a_broken_config_costs_the_setting_and_not_the_answer(
        self, cli: CommandLine, model: Path, home: Path
    ) -> None:
        (home / "config").mkdir()
        (home / "config" / "config.toml").write_text('think = "maybe"\ncolor = "marks"\n')
        cli.use(scripts=[Script(ANSWER)])
        outcome = run(cli, model, "hi")
        assert "‹merge(›" in outcome.out
        assert "config.toml:1: think" in outcome.err

    def test_a_fault_of_the_program_is_one_line_with_a_trace_on_disk(
        self, cli: CommandLine, model: Path, home: Path
    ) -> None:
        cli.use(scripts=[Script([ZeroDivisionError("division by zero")])])
        outcome = run(cli, model, "hi")
        assert outcome.code == 1
        assert "internal error: ZeroDivisionError" in outcome.err.splitlines()[-1]
        assert "Traceback" in (home / "state" / "crash.log").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be raised in the own process there")
class TestInterrupt:
    """S4, in this process; across processes in test_processes.py."""

    def interrupt_at(self, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
        from localspec.cli import answering

        method = {Started: "started", Finished: "finished"}[kind]
        real = getattr(answering.TextSink, method)

        def struck(sink: Any, *given: Any) -> None:
            real(sink, *given)
            os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(answering.TextSink, method, struck)

    def test_the_partial_text_stays_and_is_marked(
        self, cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.interrupt_at(monkeypatch, Started)
        before = signal.getsignal(signal.SIGINT)
        cli.use(scripts=[Script(plain("never", "said"))])
        outcome = run(cli, model, "hi")
        assert outcome.code == 130
        assert "interrupted: the answer is not complete" in outcome.err
        assert "Traceback" not in outcome.err
        assert cli.engines[0].closed
        assert signal.getsignal(signal.SIGINT) is before

    def test_one_that_comes_before_the_engine_has_begun_is_not_lost(
        self, cli: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = FakeEngine.generate

        def struck(engine: FakeEngine, request: Any) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return real(engine, request)

        monkeypatch.setattr(FakeEngine, "generate", struck)
        cli.use(scripts=[Script([Wait()])])
        assert run(cli, model, "hi").code == 130

    def test_in_load(self, cli: CommandLine, model: Path) -> None:
        cli.use(load=lambda: os.kill(os.getpid(), signal.SIGINT))
        failed(run(cli, model, "hi"), "interrupted", code=130)
        assert cli.engines[0].closed
