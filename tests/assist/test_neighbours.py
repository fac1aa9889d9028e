"""Which files around a file are read, and which pieces of them go into a prompt."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.assist.neighbours import MAX_BYTES, Neighbour, Project, is_secret, neighbours, project_of
from localspec.assist.place import Place
from localspec.assist.relevance import Piece, pieces_for

KEY = "-----BEGIN " + "RSA PRIVATE KEY-----"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str | bytes = "x = 1\n") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def names(file: Path, text: str = "") -> list[str]:
    return [near.name for near in neighbours(file, text, project_of(file))]


class TestFiles:
    def test_a_repository_is_seen_from_its_root(self, repository: Path, write: Write) -> None:
        file = write("shop/cart.py")
        write("shop/price.py")
        write("lib/money.py")
        assert project_of(file) == Project(repository.resolve(), True)
        assert names(file) == ["shop/price.py", "lib/money.py"]

    def test_a_hooks_own_variables_do_not_mislead(
        self, repository: Path, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = write("shop/cart.py")
        write("lib/money.py")
        monkeypatch.setenv("GIT_DIR", ".git")
        monkeypatch.setenv("GIT_INDEX_FILE", ".git/other")
        assert names(file) == ["lib/money.py"]

    def test_without_a_repository_the_folder_is_all(self, tmp_path: Path, write: Write) -> None:
        file = write("shop/cart.py")
        write("shop/price.py")
        write("shop/deep/other.py")
        write("lib/money.py")
        assert project_of(file) == Project(file.parent.resolve(), False)
        assert names(file) == ["price.py"]

    def test_what_git_ignores_is_left_out_and_what_is_new_is_not(self, repository: Path, write: Write) -> None:
        file = write("a.py")
        write("tracked.py")
        git(repository, "add", "tracked.py")
        write("new.py")
        write("ignored.py")
        write(".gitignore", "ignored.py\n")
        assert sorted(names(file)) == ["new.py", "tracked.py"]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("binary.py", b"x = 1\n\0\n"),
            ("latin.py", b"x = '\xe9'\n"),
            ("empty.py", "\n"),
            ("huge.py", "x = 1\n" * (MAX_BYTES // 6 + 1)),
            ("key.py", f"KEY = '''{KEY}\nabc'''\n"),
            ("secrets.py", "x = 1\n"),
            ("node_modules/x.py", "x = 1\n"),
            ("schema_pb2.py", "x = 1\n"),
            ("notes.md", "x\n"),
        ],
        ids=lambda value: value if isinstance(value, str) and value.endswith((".py", ".md")) else "",
    )
    def test_what_is_never_read(self, repository: Path, write: Write, name: str, text: str | bytes) -> None:
        file = write("a.py")
        write("fine.py")
        write(name, text)
        assert names(file, f"import {Path(name).stem}\n") == ["fine.py"]

    @pytest.mark.parametrize(
        "name",
        [".env", ".env.local", "prod.env", "server.pem", "id_rsa", "id_ed25519.pub", "aws_credentials", ".netrc"],
    )
    def test_secrets_by_name(self, repository: Path, write: Write, name: str) -> None:
        assert is_secret(name)
        file = write("a.env")
        write(name)
        assert names(file) == []

    def test_code_about_tokens_is_no_secret(self) -> None:
        assert not any(is_secret(name) for name in ("tokens.py", "tokenizer.json", "environment.py", "keys.py"))

    def test_links_lead_nowhere(self, tmp_path: Path) -> None:
        inside = tmp_path / "project"
        inside.mkdir()
        (tmp_path / "outside.py").write_text("x = 1\n")
        (inside / "link.py").symlink_to(tmp_path / "outside.py")
        (inside / "a.py").write_text("import link\n")
        git(inside, "init", "-q")
        assert names(inside / "a.py", "import link\n") == []

    def test_through_a_linked_folder_the_file_is_still_itself(self, repository: Path, write: Write) -> None:
        write("real/a.py")
        write("real/b.py")
        (repository / "link").symlink_to(repository / "real")
        assert names(repository / "link" / "a.py") == ["real/b.py"]

    def test_a_file_that_is_not_written_yet_has_neighbours(self, repository: Path, write: Write) -> None:
        write("b.py")
        assert names(repository / "new.py") == ["b.py"]

    def test_the_newest_of_equally_near_files_come_first(self, repository: Path, write: Write) -> None:
        file = write("a.py")
        for age, name in enumerate(("new.py", "newer.py", "old.py")):
            os.utime(write(name), times=(1_000_000 + (100, 200, 1)[age],) * 2)
        assert names(file) == ["newer.py", "new.py", "old.py"]


class TestImports:
    @pytest.mark.parametrize(
        ("line", "imported"),
        [
            ("import lib.money", "lib/money.py"),
            ("import os, lib.money as m", "lib/money.py"),
            ("from lib import money, tax", "lib/money.py"),
            ("from lib.money import Euro", "lib/money.py"),
            ("from .price import of", "shop/price.py"),
            ("from . import price", "shop/price.py"),
            ("from ..lib.money import Euro", "lib/money.py"),
            ("    from lib import (money,", "lib/money.py"),
        ],
    )
    def test_python(self, repository: Path, write: Write, line: str, imported: str) -> None:
        file = write("shop/cart.py")
        for name in ("lib/__init__.py", "lib/money.py", "shop/price.py", "shop/aaa.py"):
            write(name)
        near = neighbours(file, f"{line}\ndef broken(:\n", project_of(file))
        assert imported in [each.name for each in near if each.imported]
        assert near[0].imported
        assert "shop/aaa.py" in [each.name for each in near if not each.imported]

    @pytest.mark.parametrize(
        ("file", "line", "imported"),
        [
            ("src/a.ts", "import { x } from './b'", "src/b.ts"),
            ("src/a.js", "const b = require('../lib/c')", "lib/c.js"),
            ("src/a.c", '#include "util.h"', "include/util.h"),
        ],
    )
    def test_other_languages(self, repository: Path, write: Write, file: str, line: str, imported: str) -> None:
        path = write(file)
        write(imported)
        near = neighbours(path, f"{line}\n", project_of(path))
        assert [(each.name, each.imported) for each in near] == [(imported, True)]


def words(text: str) -> int:
    return len(text.split())


def near(name: str, text: str, **facts: bool) -> Neighbour:
    return Neighbour(name, text, facts.get("imported", False), facts.get("same_folder", False), 0.0)


GAP = Place("def total(cart):\n    return sum(price_of(item) for item in ", "\n", 2)
OTHER = near("other.py", "def unrelated(thing):\n    return thing\n")
USES = near("uses.py", "print(price_of(apple))\n")
DEFINED = near("prices.py", "def price_of(item):\n    return item.cents\n")


class TestPieces:
    def test_definitions_come_last_and_the_unrelated_not_at_all(self) -> None:
        pieces = pieces_for(GAP, [DEFINED, OTHER, USES], 100, words)
        assert [piece.name for piece in pieces] == ["uses.py", "prices.py"]
        assert pieces[1] == Piece("prices.py", DEFINED.text, 1)

    def test_what_is_imported_counts_more(self) -> None:
        twin = near("twin.py", USES.text, imported=True)
        assert [piece.name for piece in pieces_for(GAP, [twin, USES], 100, words)] == ["uses.py", "twin.py"]

    def test_the_budget_holds_and_the_best_is_taken(self) -> None:
        filler = near("filler.py", USES.text + "pad " * 60)
        for budget in (4, 5, 30, 66, 200):
            pieces = pieces_for(GAP, [filler, DEFINED], budget, words)
            assert sum(words(f"{piece.name}\n{piece.text}") for piece in pieces) <= budget
        assert [piece.name for piece in pieces_for(GAP, [filler, DEFINED], 30, words)] == ["prices.py"]
        assert pieces_for(GAP, [filler, DEFINED], 4, words) == []

    def test_of_a_long_file_only_the_telling_lines_are_taken(self) -> None:
        dull = "\n".join(f"def dull_{number}(a):\n    return {number}\n" for number in range(40))
        long = near("long.py", f"{dull}\n{DEFINED.text}\n{dull}")
        (piece,) = pieces_for(GAP, [long], 1000, words)
        assert DEFINED.text in piece.text
        assert piece.text.count("\n") <= 40
        assert long.text.splitlines()[piece.first_line - 1] == piece.text.splitlines()[0]

    def test_pieces_that_touch_become_one(self) -> None:
        half = "".join(f"price_of({number})\n" for number in range(40))
        (piece,) = pieces_for(GAP, [near("long.py", half + half)], 1000, words)
        assert piece == Piece("long.py", half + half, 1)
