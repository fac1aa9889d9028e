"""Real edits by the starter pair: what may be written is whole, applies, and touches nothing else."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from localspec.assist import diff, edit, edit_file
from localspec.assist.edit_job import EditResult
from localspec.bench.paired import last_event
from localspec.engine.client import EngineClient
from localspec.engine.requests import Request
from tests.real.conftest import STARTER, Pair
from tests.real.edit_cases import CART, CASES, Case

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


class Edited(NamedTuple):
    case: Case
    result: EditResult
    new: str | None


@pytest.fixture(scope="module")
def edits(client: EngineClient, tmp_path_factory: pytest.TempPathFactory) -> list[Edited]:
    """Every case, answered once."""
    info = client.start()
    folder = tmp_path_factory.mktemp("edits")
    made = []
    for case in CASES:
        path = folder / case.name
        path.write_bytes(case.text.encode())
        file = edit_file.read(path)
        (job,) = edit.plan(file, case.instruction, case.lines, [], edit.Budget.of(info, client.count))
        end = last_event(client.generate(job.request(Request(prompt=(), sampling=edit.SAMPLING))))
        result = edit.take(job, end.text, end.reason)
        made.append(Edited(case, result, edit.edited(file, [result]) if result.text is not None else None))
    return made


def test_the_answers_can_be_used_and_do_what_was_asked(edits: list[Edited]) -> None:
    """A model of this size is allowed two slips; a prompt that it does not understand makes many."""
    refused = {one.case.name: one.result.problem for one in edits if one.new is None}
    missed = [
        one.case.name
        for one in edits
        if one.new is not None
        and not (
            all(text in one.new for text in one.case.wanted) and not any(text in one.new for text in one.case.unwanted)
        )
    ]
    assert len(refused) + len(missed) <= 2, (refused, missed, [one.new for one in edits if one.case.name in missed])


def test_outside_the_region_every_byte_is_the_same(edits: list[Edited]) -> None:
    for one in edits:
        if one.new is None:
            continue
        lines = edit.lines_of(one.case.text)
        region = one.result.job.region
        assert one.new.startswith("".join(lines[: region.first - 1])), one.case.name
        assert one.new.endswith("".join(lines[region.last :])), one.case.name
        assert one.new.endswith("\n") == one.case.text.endswith("\n"), one.case.name
        assert ("\r\n" in one.new) == ("\r\n" in one.case.text), one.case.name
        assert one.new.count("\r\n") in (0, one.new.count("\n")), one.case.name


def test_edited_python_is_python(edits: list[Edited]) -> None:
    parsed = [ast.parse(one.new) for one in edits if one.new is not None and one.case.name.endswith(".py")]
    assert len(parsed) >= 4


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_the_diffs(edits: list[Edited], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    patch = b""
    for one in edits:
        (tmp_path / one.case.name).write_bytes(one.case.text.encode())
        if one.new is not None:
            patch += diff.unified(one.case.name, diff.hunks(one.case.text, one.new)).encode()
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch, check=True)
    for one in edits:
        text = one.case.text if one.new is None else one.new
        assert (tmp_path / one.case.name).read_bytes() == text.encode(), one.case.name


def run(*arguments: str, folder: Path, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "localspec", "edit", "--pair", STARTER, "--ctx", "2048", *arguments],
        cwd=folder, input=stdin, capture_output=True, timeout=500, check=False,
    )  # fmt: skip


def test_the_command_writes_and_undoes(starter_on_menu: Pair, tmp_path: Path) -> None:
    file = tmp_path / "cart.js"
    file.write_text(CART)
    done = run("cart.js", "Rename the method total to sum.", "--apply", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    *events, line = map(json.loads, done.stdout.splitlines())
    assert line["applied"]
    assert "+  sum() {" in line["diff"]
    assert "  sum() {" in file.read_text()
    copied = [event for event in events if event["type"] == "token" and event["kind"] == "accepted"]
    assert len(copied) > 20
    assert run("--undo", folder=tmp_path).returncode == 0
    assert file.read_text() == CART


def test_the_filter_gives_the_new_text_and_nothing_else(starter_on_menu: Pair, tmp_path: Path) -> None:
    done = run("-", "Rename the method total to sum.", folder=tmp_path, stdin=CART.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"  sum() {" in done.stdout
    assert done.stdout.startswith(b"export class Cart {")
    assert done.stdout.endswith(b"}\n")
