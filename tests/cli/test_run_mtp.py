"""`--speculate mtp` and `auto`: which files draft with heads of their own, what is said, and one answer of the real
thing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.engine.errors import LoadError
from tests.cli.model_commands import data
from tests.cli.streams import CommandLine, failed, run
from tests.tiny import vocabulary, write_hybrid, write_step

WAYS = [
    ((), "mtp", "auto"),
    (("--speculate", "auto"), "mtp", "auto"),
    (("--speculate", "mtp"), "mtp", "mtp"),
    (("--speculate", "lookup"), "draft", "lookup"),
    (("--speculate", "off"), "draft", "off"),
]


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = vocabulary(26, with_bytes=True)
    return write_step(tmp_path_factory.mktemp("heads") / "heads.gguf", tokens=tokens, scale=0.5, agreeing=6.0)


@pytest.mark.parametrize(("options", "drafter", "mode"), WAYS)
def test_heads_are_loaded_where_they_may_draft(
    cli: CommandLine, heads: Path, options: tuple[str, ...], drafter: str, mode: str
) -> None:
    assert run(cli, heads, *options, "hi").code == 0
    [engine] = cli.engines
    assert (engine.config.drafter, engine.config.draft, engine.requests[-1].speculate) == (drafter, None, mode)


def test_a_draft_that_was_given_goes_before_heads(cli: CommandLine, heads: Path, tmp_path: Path) -> None:
    draft = write_step(tmp_path / "draft.gguf", tokens=vocabulary(26, with_bytes=True), heads=0, seed=2)
    assert run(cli, heads, "--draft", str(draft), "hi").code == 0
    config = cli.engines[-1].config
    assert (config.drafter, config.draft) == ("draft", str(draft))
    outcome = run(cli, heads, "--draft", str(draft), "--speculate", "mtp", "hi")
    assert "the draft is not loaded" in outcome.err
    assert (cli.engines[-1].config.drafter, cli.engines[-1].config.draft) == ("mtp", None)


def test_a_file_without_heads_is_refused_when_they_are_asked_for(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    failed(run(cli, model, "--speculate", "mtp", "hi"), "tiny.gguf carries no MTP heads that can run")
    two = write_hybrid(tmp_path / "two.gguf", heads=2)
    failed(run(cli, two, "--speculate", "mtp", "hi"), "two.gguf carries no MTP heads that can run")
    assert not cli.engines
    assert run(cli, two, "hi").code == 0
    assert cli.engines[-1].config.drafter == "draft"


def test_heads_nobody_asked_for_that_cannot_be_loaded_are_left_out_in_words(cli: CommandLine, heads: Path) -> None:
    cli.use(loads_fail={"mtp": LoadError("out of memory")})
    outcome = run(cli, heads, "hi")
    assert (outcome.code, outcome.out) == (0, "Hello.")
    assert "the MTP heads could not be loaded (out of memory)" in outcome.err
    assert [engine.config.drafter for engine in cli.engines] == ["mtp", "draft"]
    failed(run(cli, heads, "--speculate", "mtp", "hi"), "out of memory")


def test_heads_that_the_settings_ask_for_and_that_cannot_be_loaded_are_an_error(
    cli: CommandLine, heads: Path, home: Path
) -> None:
    """Without them every answer would be refused."""
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text('speculate = "mtp"\n')
    cli.use(loads_fail={"mtp": LoadError("out of memory")})
    failed(run(cli, heads, "hi"), "out of memory")
    assert len(cli.engines) == 1


@pytest.mark.usefixtures("own_places")
def test_commands_say_that_a_file_carries_heads(cli: CommandLine, heads: Path, tmp_path: Path) -> None:
    two = write_hybrid(tmp_path / "two.gguf", heads=2)
    checked = cli.run("models", "check", "--no-hash", str(heads))
    assert "ok     carries 3 MTP heads: it drafts for itself" in checked.out
    [file] = data(cli.run("models", "check", "--no-hash", "--json", str(heads)))["files"]
    assert file["mtp_heads"] == 3
    named = cli.run("models", "check", "--no-hash", str(two))
    assert (named.code, "note   names 2 MTP heads, which llama.cpp cannot run for qwen35" in named.out) == (0, True)
    assert cli.run("models", "add", "mine", "--target", str(heads)).code == 0
    assert "carries 3 MTP heads" in cli.run("doctor").out
    listed = data(cli.run("models", "list", "--json"))
    [mine] = [one for pair in listed["pairs"] if pair["key"] == "mine" for one in pair["files"]]
    assert mine["mtp_heads"] == 3


def test_an_answer_of_heads_through_the_whole_program(heads: Path, tmp_path: Path) -> None:
    def answer(*options: str) -> list[dict[str, object]]:
        done = subprocess.run(
            [
                sys.executable, "-m", "localspec", "run", "--target", str(heads), "--raw", "--no-history", "--json",
                "--threads", "1", "--max-tokens", "40", "--ctx", "256", "--temp", "0", *options, "one two one two",
            ],
            env=os.environ | {"LOCALSPEC_HOME": str(tmp_path)}, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return [json.loads(line) for line in done.stdout.splitlines()]

    lines, plain = answer("--speculate", "mtp", "--draft-length", "3"), answer("--speculate", "off")
    assert (lines[0]["speculate"], lines[0]["drafter"], lines[0]["draft"]) == ("mtp", "mtp", None)
    kept = [line for line in lines if line["type"] == "token" and line["kind"] == "accepted"]
    assert kept
    assert {line["drafter"] for line in kept} == {"mtp"}
    assert {line["drafter"] for line in lines if line["type"] == "cycle" and line["proposed"]} == {"mtp"}
    assert lines[-1]["text"] == plain[-1]["text"]
