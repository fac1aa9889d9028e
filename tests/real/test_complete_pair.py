"""`localspec complete` on the starter pair, as a person or an editor calls it, in a git repository."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real.conftest import SMOLLM, STARTER

pytestmark = pytest.mark.real

PRICES = '''"""Prices in cents."""


def price_of(item, currency):
    """What one item costs in a currency."""
    return item.prices[currency]
'''
CART = '''from lib.prices import price_of


class Cart:
    def __init__(self, currency):
        self.currency = currency
        self.items = []

    def add(self, item):
        self.items.append(item)

    def total(self):
        """What all items cost together, in the cart's currency."""

    def count(self):
        return len(self.items)
'''
TOTAL = CART.split("\n").index('        """What all items cost together, in the cart\'s currency."""') + 1


@pytest.fixture
def cart(tmp_path: Path) -> Path:
    """The file, in a repository with one other."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "prices.py").write_text(PRICES)
    file = tmp_path / "shop" / "cart.py"
    file.parent.mkdir()
    file.write_text(CART)
    return file


def complete(file: Path, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "localspec", "complete", *arguments],
        cwd=file.parent, capture_output=True, encoding="utf-8", timeout=500, check=True,
        **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
    )  # fmt: skip


def with_lines(made: str) -> str:
    lines = CART.split("\n")
    return "\n".join([*lines[: TOTAL - 1], lines[TOTAL - 1] + made, *lines[TOTAL:]])


def names_in(text: str, function: str) -> set[str]:
    """Names and attributes in a function's body. The text must be a program."""
    found = next(
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == function
    )
    nodes = list(ast.walk(found))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@pytest.mark.usefixtures("starter_on_menu")
def test_a_body_is_filled_in_by_what_another_file_defines(cart: Path) -> None:
    done = complete(cart, f"cart.py:{TOTAL}", "--pair", STARTER)
    assert "lib/prices.py" in done.stderr
    assert {"price_of", "currency", "items"} <= names_in(with_lines(done.stdout), "total")
    assert "def count" not in done.stdout


@pytest.mark.usefixtures("starter_on_menu")
def test_every_way_to_speculate_gives_a_program_and_counts_right(cart: Path) -> None:
    for speculate in ("off", "lookup", "draft"):
        done = complete(cart, f"cart.py:{TOTAL}", "--pair", STARTER, "--speculate", speculate, "--json")
        *events, end = map(json.loads, done.stdout.splitlines())
        tokens = [line for line in events if line["type"] == "token"]
        assert "".join(token["text"] for token in tokens) == end["text"]
        assert end["text"] == end["completion"] + end["dropped"]
        assert end["stats"]["tokens"] == len(tokens)
        assert "items" in names_in(with_lines(end["completion"]), "total")


@pytest.mark.usefixtures("starter_on_menu")
def test_inside_a_line_and_written_into_the_file(cart: Path) -> None:
    line = CART.split("\n").index("        return len(self.items)") + 1
    cart.write_text(CART.replace("len(self.items)", "len()"))
    done = complete(cart, f"cart.py:{line}:20", "--pair", STARTER, "--apply", "--neighbours", "off")
    assert "\n" not in done.stdout
    text = cart.read_text()
    assert text == CART.replace("len(self.items)", f"len({done.stdout})")
    assert "items" in names_in(text, "count")


def test_a_model_without_the_tokens_is_asked_in_words(cart: Path, here: Callable[[str], list[Path]]) -> None:
    (target,) = here(SMOLLM)
    done = complete(cart, f"cart.py:{TOTAL}", "--target", str(target), "--max-tokens", "48")
    assert "has no fill-in-the-middle tokens" in done.stderr
    assert "```" not in done.stdout
