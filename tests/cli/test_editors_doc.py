"""docs/editors.md: every command in it is one, and every file it names is there."""

import importlib
import re
from pathlib import Path

import click
import pytest

from localspec.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
CALLS = re.findall(r"localspec (run|edit|complete|serve)\b((?:\\\n|[^\n`|<>#])*)", TEXT)


def options_of(name: str) -> set[str]:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("name", ["run", "edit", "complete", "serve"])
def test_every_option_is_one(name: str) -> None:
    calls = [re.sub(r'"[^"]*"', "", arguments) for called, arguments in CALLS if called == name]
    assert calls
    used = {word for arguments in calls for word in arguments.split() if re.fullmatch(r"--?[a-z][a-z-]*", word)}
    assert used <= options_of(name)


def test_options_named_in_sentences_are_some_commands() -> None:
    everywhere = set().union(*map(options_of, COMMANDS.keys() & {"run", "edit", "complete", "serve"}))
    assert set(re.findall(r"`(--[a-z-]+)", TEXT)) <= everywhere


def test_the_port_is_the_default_one() -> None:
    from localspec.cli.serve import serve

    (port,) = (parameter.default for parameter in serve.params if parameter.name == "port")
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", TEXT)) == {str(port)}


def test_files_it_names_are_there() -> None:
    names = re.findall(r"\]\((\.\./[^)]+)\)", TEXT)
    assert names
    for name in names:
        assert (ROOT / "docs" / name).is_file()
