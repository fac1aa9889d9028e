"""`localspec models`: what goes where, exit codes, and that listing loads nothing heavy."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from localspec import paths
from localspec.models import catalog, store
from tests.cli.streams import CommandLine, Outcome
from tests.models import ggufs
from tests.models.hubserver import HubServer, serving


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the person's model folders is seen."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def data(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def menu(text: str) -> None:
    file = catalog.own_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def config(text: str) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(text, encoding="utf-8")


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


def test_listing_touches_neither_network_nor_heavy_libraries() -> None:
    """D2: every socket call is a failure here."""
    code = (
        "import socket, sys\n"
        "def no(*a, **k): raise SystemExit('network')\n"
        "socket.socket.connect = socket.getaddrinfo = no\n"
        "from localspec.cli.main import main\n"
        "try: main(['models', 'list'])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "heavy = {'huggingface_hub', 'llama_cpp', 'textual', 'httpx2', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
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


@pytest.fixture
def hub() -> Any:
    with serving() as server:
        server.repos["Some/Repo"] = {"m-Q4_K_M.gguf": random.Random(1).randbytes(500_000)}
        config(f'[sources]\norder = ["hub"]\nendpoint = "{server.endpoint}"\n')
        yield server


def test_a_pull_says_what_it_does_on_stderr_and_leaves_stdout_alone(cli: CommandLine, hub: HubServer) -> None:
    done = cli.run("models", "pull", "Some/Repo")
    assert (done.code, done.out) == (0, "")
    assert "trying hub" in done.err
    assert "Some/Repo is here (from hub): 500 kB" in done.err
    again = cli.run("models", "pull", "Some/Repo:Q4_K_M")
    assert "was here already" in again.err


def test_a_pull_as_json_is_one_event_a_line(cli: CommandLine, hub: HubServer) -> None:
    done = cli.run("models", "pull", "Some/Repo", "--json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert {line["type"] for line in lines} == {"said", "moved", "pulled"}
    assert lines[-1]["type"] == "pulled"
    assert Path(lines[-1]["path"]).stat().st_size == 500_000
    moved = [line for line in lines if line["type"] == "moved"]
    assert moved[-1]["done"] == moved[-1]["total"] == 500_000
    failed = cli.run("models", "pull", "No/Such", "--json")
    assert failed.code == 1
    assert json.loads(failed.out.splitlines()[-1])["type"] == "error"
    assert "shows no repository No/Such" in failed.err


def test_drafts_are_proposed_for_a_pulled_repository(cli: CommandLine, hub: HubServer, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    big, small = ggufs.model(tmp_path / "big.gguf", width=256), ggufs.model(folder / "small.gguf")
    ggufs.model(folder / "stranger.gguf", tokens=[f"x{i}" for i in range(256)])
    hub.repos["Some/Big"] = {"big-Q8_0.gguf": big.read_bytes()}
    with paths.config_file().open("a") as file:
        file.write(f'[models]\nfolders = ["{folder}"]\n')
    done = cli.run("models", "pull", "Some/Big")
    assert "drafts on this disk with the same vocabulary" in done.err
    assert f"- {small}" in done.err
    assert "stranger" not in done.err
    last = json.loads(cli.run("models", "pull", "Some/Big:Q8_0", "--json").out.splitlines()[-1])
    assert last["type"] == "drafts"
    assert last["proposed"] == [str(small)]


def test_a_download_into_a_log_is_spoken_of_now_and_then(
    cli: CommandLine, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call waits in silence, also where no bar is drawn."""
    quiet = cli.run("models", "pull", "Some/Repo")
    assert "fetching m-Q4_K_M.gguf" not in quiet.err
    cli.run("models", "remove", "Some/Repo", "--yes")
    monkeypatch.setattr("localspec.cli.models_pull.SAY_AGAIN_S", 0.0)
    spoken = cli.run("models", "pull", "Some/Repo")
    assert "Some/Repo: fetching m-Q4_K_M.gguf: 500 kB of 500 kB" in spoken.err
    assert "Some/Repo: checking m-Q4_K_M.gguf: 500 kB of 500 kB" in spoken.err


def test_a_pull_offline_and_of_nothing_known_are_one_line(cli: CommandLine, hub: HubServer) -> None:
    """D2"""
    for arguments in (("Some/Repo", "--offline"), ("qwen3-8b", "--offline"), ("nonsense",)):
        done = cli.run("models", "pull", *arguments)
        assert (done.code, done.out) == (1, "")
        assert done.err.count("\n") == 1, done.err
    assert hub.paths == []


def test_a_licence_is_shown_and_asked_for_once(cli: CommandLine, hub: HubServer) -> None:
    hub.licences["Some/Repo"] = "gemma"
    refused = cli.run("models", "pull", "Some/Repo", stdin=b"")
    assert refused.code == 1
    assert "--accept-licence" in refused.err
    assert hub.sent == 0
    assert cli.run("models", "pull", "Some/Repo", "--accept-licence", stdin=b"").code == 0
    cli.run("models", "remove", "Some/Repo", "--yes")
    assert cli.run("models", "pull", "Some/Repo", stdin=b"").code == 0


def test_removing_asks_and_says_what_it_frees(cli: CommandLine, hub: HubServer) -> None:
    cli.run("models", "pull", "Some/Repo")
    path = store_path("Some/Repo", "m-Q4_K_M.gguf")
    unasked = cli.run("models", "remove", "Some/Repo", stdin=b"")
    assert unasked.code == 1
    assert "Delete 1 file, which frees 500 kB?" in unasked.err
    assert path.exists()
    done = cli.run("models", "remove", "Some/Repo", "--yes", "--json", stdin=b"")
    assert data(done)["freed"] == 500_000
    assert not path.exists()
    assert cli.run("models", "remove", "Some/Repo", "--yes").code == 1


def store_path(key: str, name: str) -> Path:
    return store.place(catalog.ModelFile(key, name))


def test_an_interrupted_pull_ends_with_130_and_continues(hub: HubServer) -> None:
    """T6, D5: Ctrl+C in the middle."""
    data_there = random.Random(2).randbytes(4_000_000)
    hub.repos["Some/Repo"]["m-Q4_K_M.gguf"] = data_there
    hub.bytes_per_s = 2_000_000
    command = [sys.executable, "-m", "localspec", "models", "pull", "Some/Repo"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TERM": "dumb"})
    part = store_path("Some/Repo", "m-Q4_K_M.gguf").with_name("m-Q4_K_M.gguf.hub.part")
    while child.poll() is None and not (part.exists() and part.stat().st_size > 100_000):
        threading.Event().wait(0.002)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == 130, errors
    assert "Traceback" not in errors
    assert "what was fetched is kept" in errors
    kept = part.stat().st_size
    assert 0 < kept < len(data_there)
    hub.bytes_per_s = None
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert store_path("Some/Repo", "m-Q4_K_M.gguf").read_bytes() == data_there
    assert f"bytes={kept}-" in hub.ranges


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
