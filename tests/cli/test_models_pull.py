"""`localspec models pull` and `remove`: what goes where, exit codes, Ctrl+C."""

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
from tests.cli.model_commands import config, data, store_path
from tests.cli.streams import CommandLine
from tests.models import ggufs
from tests.models.hubserver import HubServer, serving

pytestmark = pytest.mark.usefixtures("own_places")


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
    cli: CommandLine, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call waits in silence, also where no bar is drawn."""
    quiet = cli.run("models", "pull", "Some/Repo")
    assert "fetching m-Q4_K_M.gguf" not in quiet.err
    cli.run("models", "remove", "Some/Repo", "--yes")
    monkeypatch.setattr("localspec.cli.models_progress.SAY_AGAIN_S", 0.0)
    spoken = cli.run("models", "pull", "Some/Repo")
    assert "Some/Repo: fetching m-Q4_K_M.gguf: 500 kB of 500 kB" in spoken.err
    assert "Some/Repo: checking m-Q4_K_M.gguf: 500 kB of 500 kB" in spoken.err
    model = ggufs.model(tmp_path / "x.gguf")
    assert "localspec: checking x.gguf: " in cli.run("models", "check", str(model)).err


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
