"""The command's frame: help, unknown commands, config, doctor."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.cli import doctor
from localspec.cli.main import COMMANDS
from tests.cli.streams import CommandLine


def test_no_command_prints_help_and_what_to_try(cli: CommandLine) -> None:
    outcome = cli.run()
    assert outcome.code == 0
    assert "localspec demo" in outcome.out
    assert "localspec run" in outcome.out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(cli: CommandLine, name: str) -> None:
    outcome = cli.run(name, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: localspec {name}")


def test_an_unknown_command_is_wrong_usage_in_one_line(cli: CommandLine) -> None:
    outcome = cli.run("rum\x1b[2J")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert "\x1b" not in outcome.err


class TestConfig:
    def test_it_prints_where_everything_lies(self, cli: CommandLine, home: Path) -> None:
        outcome = cli.run("config")
        assert outcome.code == 0
        for kind in ("config", "data", "state", "cache"):
            assert f"{home / kind}\n" in outcome.out
        assert "config.toml (not there yet)" in outcome.out

    def test_set_keeps_comments_and_everything_else(self, cli: CommandLine, home: Path) -> None:
        file = home / "config" / "config.toml"
        file.parent.mkdir()
        file.write_text('# mine\nother = 1 # stays\npair = "a"\n[models]\nx = 2\n')
        assert cli.run("config", "set", "pair", "smollm2-135m-q4_1").code == 0
        assert cli.run("config", "set", "models.folders", "/data/a", "/data/b").code == 0
        assert cli.run("config", "set", "sources.order", "disk").code == 0
        text = file.read_text()
        assert text.startswith('# mine\nother = 1 # stays\npair = "smollm2-135m-q4_1"\n[models]\nx = 2\n')
        outcome = cli.run("config")
        assert "smollm2-135m-q4_1" in outcome.out
        assert "/data/a, /data/b" in outcome.out
        assert outcome.err == ""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("nonsense", "1"), "there is no setting"),
            (("think", "maybe"), "auto, on, off"),
            (("pair", "a", "b"), "one value"),
        ],
    )
    def test_set_refuses_what_would_not_hold(self, cli: CommandLine, arguments: tuple[str, ...], words: str) -> None:
        outcome = cli.run("config", "set", *arguments)
        assert outcome.code == 1
        assert words in outcome.err

    def test_set_does_not_touch_a_broken_file(self, cli: CommandLine, home: Path) -> None:
        """T11."""
        file = home / "config" / "config.toml"
        file.parent.mkdir()
        file.write_text("pair = [broken")
        outcome = cli.run("config", "set", "pair", "x")
        assert outcome.code == 1
        assert "config.toml cannot be read" in outcome.err
        assert file.read_text() == "pair = [broken"

    def test_the_configured_pair_answers(self, cli: CommandLine, home: Path, model: Path) -> None:
        folder = home / "config"
        folder.mkdir()
        (folder / "models.toml").write_text(f'[files.mine]\npath = "{model}"\n[pairs.mine]\ntarget = "mine"\n')
        cli.run("config", "set", "pair", "mine")
        assert cli.run("run", "hi").code == 0
        assert cli.engines[-1].config.target == str(model)


class TestDoctor:
    def test_a_whole_installation(self, cli: CommandLine) -> None:
        outcome = cli.run("doctor")
        assert outcome.code == 0, outcome.out
        assert "BLOCKS" not in outcome.out
        assert "llama-cpp-python" in outcome.out
        assert "localspec models pull" in outcome.out

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("raise ImportError('no llama_cpp here')", "no llama_cpp here"),
            ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "CMAKE_ARGS"),
            ("import os; os._exit(3)", "exit code 3"),
        ],
    )
    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    def test_a_library_that_cannot_start_blocks(
        self, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, code: str, words: str
    ) -> None:
        """I1, I2: seen from outside, with the cure."""
        monkeypatch.setattr(doctor, "PROBE", code)
        outcome = cli.run("doctor")
        assert outcome.code == 1
        line = next(line for line in outcome.out.splitlines() if line.startswith("BLOCKS"))
        assert words in line

    def test_a_data_directory_that_cannot_be_written_blocks(
        self, cli: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = home / "file"
        file.write_text("in the way")
        monkeypatch.setenv("LOCALSPEC_HOME", str(file))
        outcome = cli.run("doctor")
        assert outcome.code == 1
        assert "cannot be written" in outcome.out


def test_the_module_is_the_command(home: Path) -> None:
    done: Any = subprocess.run(
        [sys.executable, "-m", "localspec"], capture_output=True, text=True, env=os.environ, check=True
    )
    assert "Usage: localspec" in done.stdout
