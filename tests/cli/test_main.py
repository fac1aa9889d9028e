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


def test_without_a_terminal_the_app_names_run(cli: CommandLine) -> None:
    outcome = cli.run()
    assert outcome.code == 1
    assert "needs a terminal" in outcome.err
    assert "localspec run" in outcome.err


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
        assert outcome.err == f"localspec: {file}:2: other: unknown setting, not used\n"

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
        assert "config.toml cannot be changed before it is correct" in outcome.err
        assert file.read_text() == "pair = [broken"

    def test_what_is_set_holds_for_run_and_options_stand_over_it(
        self, cli: CommandLine, home: Path, model: Path
    ) -> None:
        for key, value in (("temperature", "0.2"), ("context", "300"), ("seed", "7"), ("system", "Be brief.")):
            assert cli.run("config", "set", key, value).code == 0
        assert cli.run("run", "hi", "--target", str(model)).code == 0
        request, config = cli.engines[-1].requests[-1], cli.engines[-1].config
        assert (request.sampling.temperature, request.seed, config.context) == (0.2, 7, 300)
        assert "Be brief." in "".join(segment.text for segment in request.prompt)
        assert cli.run("run", "hi", "--target", str(model), "--temp", "0.9", "--ctx", "auto").code == 0
        assert cli.engines[-1].requests[-1].sampling.temperature == 0.9
        assert cli.engines[-1].config.context is None

    def test_a_pairs_own_settings_hold_for_that_pair(self, cli: CommandLine, home: Path, model: Path) -> None:
        folder = home / "config"
        folder.mkdir()
        (folder / "models.toml").write_text(f'[files.mine]\npath = "{model}"\n[pairs.mine]\ntarget = "mine"\n')
        (folder / "config.toml").write_text('pair = "mine"\ntop_k = 3\n[pairs.mine]\ntemperature = 0.1\n')
        assert cli.run("run", "hi").code == 0
        sampling = cli.engines[-1].requests[-1].sampling
        assert (sampling.temperature, sampling.top_k) == (0.1, 3)
        assert cli.run("run", "hi", "--target", str(model)).code == 0
        assert cli.engines[-1].requests[-1].sampling.temperature == 0.8

    def test_a_value_out_of_range_is_refused_in_the_engines_words(self, cli: CommandLine) -> None:
        outcome = cli.run("config", "set", "temperature", "--", "-1")
        assert outcome.code == 1
        assert "temperature must be a finite number, 0 or more, not -1.0" in outcome.err

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
        [sys.executable, "-m", "localspec", "--help"], capture_output=True, text=True, env=os.environ, check=True
    )
    assert "Usage: localspec" in done.stdout
