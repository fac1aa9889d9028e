"""`localspec demo`: both runs of one engine, and a table whose figures are those of the runs."""

import ast
import re
from pathlib import Path

from localspec.cli import demo
from tests.cli.streams import CommandLine
from tests.fake_engine import Reading, Say, Script, plain

SLOW = Script([Reading(1, 10), *plain("a", "b", "c", "d", "e")], prompt_tokens=300, plain_tokens_per_s=None)
FAST = Script([*plain("a"), Say(["b", "c", "d"], end=("bonus", "e"))], prompt_tokens=300, prompt_reused=299)


def cells(text: str, row: str) -> list[str]:
    line = next(line for line in text.splitlines() if row in line)
    return [cell.strip() for cell in re.split("[│|┃]", line) if cell.strip()][1:]


def test_the_request_is_a_code_edit_that_can_be_copied() -> None:
    ast.parse(demo.CODE)
    assert 35 <= len(demo.CODE.splitlines()) <= 50


def test_plain_first_then_speculative_in_one_engine(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[SLOW, FAST])
    outcome = cli.run("demo", "--target", str(model))
    assert outcome.code == 0
    assert len(cli.engines) == 1
    first, second = cli.engines[0].requests
    assert (first.speculate, second.speculate) == ("off", "auto")
    assert first.prompt == second.prompt
    assert first.sampling.temperature == second.sampling.temperature == 0.0
    assert cli.engines[0].closed


def test_the_table_is_the_ratio_of_the_two_runs(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[SLOW, FAST])
    out = cli.run("demo", "--target", str(model)).out
    assert cells(out, "tokens/s") == ["100.0", "400.0"]
    assert cells(out, "speed-up over the plain run") == ["1.00x", "4.00x"]
    assert cells(out, "acceptance rate") == ["–", "100%"]
    assert cells(out, "tokens per cycle") == ["1.00", "4.00"]
    assert cells(out, "time to first token") == ["0.01 s", "0.01 s"]
    assert cells(out, "prompt tokens reused") == ["0 of 300", "299 of 300"]
    assert "the same text" in out
    assert "\x1b" not in out


def test_texts_that_differ_are_told(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[SLOW, Script(plain("a", "b", "x"))])
    assert "the same up to character 2" in cli.run("demo", "--target", str(model)).out


def test_a_run_without_figures_has_dashes(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[Script(plain("a"), plain_tokens_per_s=None)])
    out = cli.run("demo", "--target", str(model)).out
    assert cells(out, "tokens/s") == ["–", "–"]
    assert cells(out, "speed-up") == ["–", "–"]


def test_a_terminal_sees_colours(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[SLOW, FAST])
    outcome = cli.run("demo", "--target", str(model), terminal=True)
    assert "\x1b[1;32mb\x1b[0m" in outcome.out
    assert outcome.err.count("resampled") == 1


def test_nothing_to_compare_is_refused(cli: CommandLine, model: Path) -> None:
    outcome = cli.run("demo", "--target", str(model), "--speculate", "off")
    assert outcome.code == 1
    assert "nothing to compare" in outcome.err
