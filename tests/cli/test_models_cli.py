"""`localspec models`: what goes where, exit codes, and that listing loads nothing heavy."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec import paths
from localspec.models import adding, catalog
from tests.cli.model_commands import config, data, store_path
from tests.cli.streams import CommandLine, Outcome
from tests.models import ggufs
from tests.models.stored import menu

pytestmark = pytest.mark.usefixtures("own_places")


def test_the_list_on_an_empty_machine_is_the_whole_menu_with_what_fits(cli: CommandLine) -> None:
    found = cli.run("models", "list")
    assert found.code == 0
    for key in catalog.load().pairs:
        assert key in found.out
    assert "fits" in found.out
    assert "memory free" in found.out
    listed = data(cli.run("models", "list", "--json"))
    assert [pair["key"] for pair in listed["pairs"]] == list(catalog.load().pairs)
    first = listed["pairs"][0]
    assert (first["state"], first["to_fetch"], first["verdict"]) == ("absent", 1_608_720_832, None)
    assert first["fits"] in ("fits", "tight", "no")
    assert first["fit"]["needed"] > 1_608_720_832
    assert {one["key"] for one in listed["files"]} == {"smollm2-135m-q4_1", "gemma-3-270m-base-q4"}


NO_NETWORK = """
import socket, sys
def no(*a, **k): raise SystemExit('network')
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = no
from localspec.cli.main import main
try: main(sys.argv[1:])
except SystemExit as end: assert end.code == 0, end.code
loaded = {'huggingface_hub', 'llama_cpp', 'textual', 'httpx2'} & set(sys.modules)
assert not loaded, loaded
assert sys.argv[2] != 'list' or 'numpy' not in sys.modules
"""


@pytest.mark.parametrize("arguments", ["list", "scan", "check mine", "path mine", "add more --target {}", "pull mine"])
def test_what_needs_no_network_touches_none(tmp_path: Path, arguments: str) -> None:
    """D2: every socket call is a failure here, and so is loading what is of use for a download or an answer only."""
    target = ggufs.model(tmp_path / "t.gguf")
    words = [sys.executable, "-c", NO_NETWORK, "models", *arguments.format(target).split()]
    if "list" not in arguments:
        adding.put("mine", target)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_was_measured_here_is_shown(cli: CommandLine) -> None:
    paths.state_dir().mkdir(parents=True)
    note = {"qwen2.5-coder-1.5b": {"edits": 2.91, "chat": 1.0}, "smollm2-360m": 3}
    (paths.state_dir() / "measured.json").write_text(json.dumps(note))
    assert "edits 2.9x, chat 1.0x" in cli.run("models", "list").out
    (paths.state_dir() / "measured.json").write_text("{")
    assert cli.run("models", "list").code == 0


def test_a_broken_own_menu_is_said_and_the_list_still_comes(cli: CommandLine) -> None:
    """T11"""
    menu("[files.x]\nsize = \n")
    found = cli.run("models", "list")
    assert found.code == 0
    assert "qwen2.5-coder-1.5b" in found.out
    assert f"{catalog.own_file()}:2: files.x: not valid TOML" in found.err
    assert data(cli.run("models", "list", "--json"))["problems"][0]["line"] == 2


def test_what_the_menu_does_not_say_is_learned_from_the_header(cli: CommandLine, tmp_path: Path) -> None:
    path = ggufs.model(tmp_path / "x.gguf", general__license="mit")
    cli.run("models", "add", "mine", "--target", str(path))
    assert any(line.startswith("mine") and " mit " in line for line in cli.run("models", "list").out.splitlines())
    listed = {pair["key"]: pair for pair in data(cli.run("models", "list", "--json"))["pairs"]}
    [file] = listed["mine"]["files"]
    assert (file["licence"], file["quantisation"], file["architecture"]) == ("mit", "Q4_K_M", "llama")
    assert (file["size"], listed["mine"]["size"]) == (path.stat().st_size, path.stat().st_size)


def test_names_are_whole_on_a_narrow_terminal(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = cli.run("models", "list", terminal=True)
    for key in catalog.load().pairs:
        assert key in found.out


def test_names_are_not_read_as_markup(cli: CommandLine, tmp_path: Path) -> None:
    """T2"""
    path = ggufs.model(tmp_path / "a[red]b[/]c.gguf")
    menu(f'[files.mine]\npath = "{path}"\n[pairs.mine]\ntarget = "mine"\npurpose = "[/] list[int] [bold]"\n')
    found = cli.run("models", "list")
    assert "[/] list[int] [bold]" in found.out
    assert "a[red]b[/]c.gguf" in cli.run("models", "check", str(path)).out


def test_add_check_path_and_remove_a_pair_of_ones_own(cli: CommandLine, tmp_path: Path) -> None:
    target, draft = ggufs.model(tmp_path / "t.gguf", width=64), ggufs.model(tmp_path / "d.gguf")
    done = cli.run("models", "add", "mine", "--target", str(target), "--draft", str(draft))
    assert done.code == 0, done.err
    assert "mine is on the menu" in done.err
    assert cli.run("models", "path", "mine").out == f"{target}\n{draft}\n"
    assert data(cli.run("models", "path", "mine", "--json")) == {"target": str(target), "draft": str(draft)}
    listed = {pair["key"]: pair for pair in data(cli.run("models", "list", "--json"))["pairs"]}
    assert (listed["mine"]["state"], listed["mine"]["verdict"]) == ("here", True)
    checked = cli.run("models", "check", "mine")
    assert checked.code == 0
    assert "a pair: the vocabularies agree" in checked.out
    assert "fits: with 4,096 tokens of context it needs" in checked.out
    assert "the longest context that fits is 2,048 tokens" in checked.out
    assert data(cli.run("models", "check", "mine", "--json"))["fit"]["verdict"] == "fits"
    removed = cli.run("models", "remove", "mine", "--yes")
    assert removed.code == 0
    assert removed.err.endswith("localspec: mine is off the menu\n")
    assert target.exists()
    assert "mine" not in catalog.load().pairs


def test_an_incompatible_draft_is_not_added_and_the_token_named(cli: CommandLine, tmp_path: Path) -> None:
    """V1"""
    target = ggufs.model(tmp_path / "t.gguf", width=64)
    words = [*ggufs.VOCABULARY]
    words[139] = "other"
    draft = ggufs.model(tmp_path / "d.gguf", tokens=words)
    done = cli.run("models", "add", "mine", "--target", str(target), "--draft", str(draft))
    assert (done.code, done.out) == (1, "")
    assert "token 139 is" in done.err
    checked = cli.run("models", "check", str(target), str(draft))
    assert checked.code == 1
    assert "NO PAIR (rule: text): token 139 is" in checked.out
    assert data_of_failure(cli.run("models", "check", str(target), str(draft), "--json"))["pair"]["token_id"] == 139


def data_of_failure(outcome: Outcome) -> Any:
    assert outcome.code == 1
    return json.loads(outcome.out)


def test_drafts_are_proposed_by_vocabulary(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    config(f'[models]\nfolders = ["{folder}"]\n')
    target = ggufs.model(folder / "big.gguf", width=256)
    small = ggufs.model(folder / "small.gguf")
    ggufs.model(folder / "stranger.gguf", tokens=[f"x{i}" for i in range(256)])
    added = data(cli.run("models", "add", "mine", "--target", str(target), "--json"))
    assert added["proposed_drafts"] == [str(small)]


def test_the_scan_shows_files_pairs_and_what_is_broken(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    config(f'[models]\nfolders = ["{folder}"]\n')
    target, draft = ggufs.model(folder / "big.gguf", width=256), ggufs.model(folder / "small one.gguf")
    (folder / "cut.gguf").write_bytes(target.read_bytes()[:1000])
    found = cli.run("models", "scan")
    assert found.code == 0
    assert f"folder: small one.gguf ({draft.stat().st_size / 1000:.0f} kB, Q4_K_M)\n  {draft}\n" in found.out
    assert f"localspec models add NAME --target {target} --draft '{draft}'" in found.out
    assert "cut.gguf" in found.err
    listed = data(cli.run("models", "scan", "--json"))
    assert {one["path"] for one in listed["files"]} == {str(target), str(draft)}
    assert [(one["target"], one["draft"]) for one in listed["pairs"]] == [(str(target), str(draft))]
    assert len(listed["broken"]) == 1


def test_a_damaged_file_fails_the_check_with_the_next_step(cli: CommandLine, tmp_path: Path) -> None:
    """D4"""
    path = ggufs.model(tmp_path / "x.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    done = cli.run("models", "check", str(path))
    assert done.code == 1
    assert "WRONG" in done.out
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<!doctype html>")
    assert cli.run("models", "check", str(page)).code == 1


def test_a_pair_of_which_one_file_is_here_is_checked_as_far_as_it_goes(cli: CommandLine) -> None:
    menu('[files.t]\nname = "t.gguf"\n[files.d]\nname = "d.gguf"\n[pairs.duo]\ntarget = "t"\ndraft = "d"\n')
    assert "t and d not on this disk" in cli.run("models", "check", "duo").err
    target = ggufs.model(store_path("t", "t.gguf"))
    done = cli.run("models", "check", "duo")
    assert done.code == 1
    assert f"{target}\n  ok     header" in done.out
    assert "d.gguf\n  WRONG  not on this disk: fetch it with `localspec models pull duo`" in done.out


def test_how_many_layers_go_to_the_gpu_is_said(cli: CommandLine, tmp_path: Path) -> None:
    target, draft = ggufs.model(tmp_path / "t.gguf", width=64), ggufs.model(tmp_path / "d.gguf")
    paths.cache_dir().mkdir(parents=True)
    gpu = {"name": "CUDA0", "description": "", "free": 8 << 30, "total": 8 << 30, "kind": "gpu"}
    (paths.cache_dir() / "devices.json").write_text(json.dumps([gpu]))
    done = cli.run("models", "check", str(target), str(draft))
    assert "layers on the GPU: 3 of the target, 3 of the draft" in done.out


def test_a_file_of_another_name_is_known_by_its_hash(cli: CommandLine, tmp_path: Path) -> None:
    path = ggufs.model(tmp_path / "renamed.gguf")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert f"sha256 {digest} (nothing to compare it with)" in cli.run("models", "check", str(path)).out
    menu(f'[files.thing]\nname = "x.gguf"\nsha256 = "{digest}"\n')
    assert f"sha256 {digest} (that of thing)" in cli.run("models", "check", str(path)).out


def test_a_flipped_byte_is_found_by_the_hash(cli: CommandLine) -> None:
    """D4"""
    path = ggufs.model(paths.models_dir() / "thing" / "x.gguf")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    menu(f'[files.thing]\nname = "x.gguf"\nsize = {path.stat().st_size}\nsha256 = "{digest}"\n')
    assert f"sha256 {digest}" in cli.run("models", "check", "thing").out
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    done = cli.run("models", "check", "thing")
    assert done.code == 1
    assert "fetch it again" in done.out
    assert cli.run("models", "check", "thing", "--no-hash").code == 0


def test_the_directory_of_the_store_is_printed(cli: CommandLine) -> None:
    assert cli.run("models", "path").out == f"{paths.models_dir()}\n"
    missing = cli.run("models", "path", "qwen3-8b")
    assert (missing.code, missing.out) == (1, "")
    assert "localspec models pull qwen3-8b" in missing.err


def test_every_command_has_help(cli: CommandLine) -> None:
    for command in ("list", "pull", "check", "scan", "add", "remove", "path"):
        found = cli.run("models", command, "--help")
        assert found.code == 0
        assert "--json" in found.out
