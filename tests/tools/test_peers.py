"""The tool that starts servers to compare with: its commands, and a whole run against stand-ins for them."""

import json
import os
import stat
import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path

import pytest

from localspec.engine import waiting
from tests.tiny import vocabulary, write_llama
from tests.tools import peers

ROOT = Path(__file__).parents[2]
MACHINE = peers.Machine("llama-server", "t.gguf", "d.gguf", 2, 4096, "off")


def test_every_setting_gets_the_same_machine_and_its_own_flags() -> None:
    commands = {name: MACHINE.command(name, 81) for name in peers.SETTINGS}
    shared = commands["plain"]
    assert all(command[: len(shared)] == shared for command in commands.values())
    flags = dict(pairwise(shared))
    assert (flags["-m"], flags["--host"], flags["--port"], flags["-np"]) == ("t.gguf", "127.0.0.1", "81", "1")
    assert (flags["-t"], flags["-fa"], flags["-c"]) == ("2", "off", "4096")
    assert commands["draft-3"][-6:] == ["-md", "d.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "3"]
    assert peers.DRAFT not in chain(*commands.values())


def test_a_setting_may_have_its_own_flash_attention() -> None:
    assert dict(pairwise(MACHINE.command("ngram-mod:on", 81)))["-fa"] == "on"
    assert peers.counts(["plain:on", "ngram-mod:on"], 5) == {"plain:on": 1, "ngram-mod:on": 5}
    assert peers.settings(["plain:on", "draft-3:off"], None) == ["plain:on"]


def test_without_a_draft_the_settings_that_need_one_are_left_out() -> None:
    assert peers.settings(list(peers.SETTINGS), None) == ["plain", "ngram-simple", "ngram-4-15", "ngram-mod"]


def test_a_setting_that_remembers_gets_a_server_for_every_round() -> None:
    assert peers.counts(["plain", "ngram-mod"], 5) == {"plain": 1, "ngram-mod": 5}


def test_options_of_the_comparison_follow_the_two_dashes() -> None:
    options, rest = peers.parse(["--server", "a b", "--target", "t", "--", "--json", "--workload", "c d"])
    assert (options.server, options.target) == ("a b", "t")
    assert rest == ["--json", "--workload", "c d"]


@pytest.mark.parametrize("unknown", ["fast", "plain:maybe"])
def test_an_unknown_setting_is_refused(unknown: str) -> None:
    with pytest.raises(SystemExit, match=f"no such setting: {unknown}"):
        peers.main(["--server", "s", "--target", "t", "--only", f"plain,{unknown}"])


def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    server = program(tmp_path / "llama-server", f"exec {sys.executable} -c \"raise SystemExit('no such flag')\"")
    with pytest.raises(SystemExit, match="no such flag"):
        peers.main(["--server", str(server), "--target", "t", "--only", "plain"])


def test_the_threads_wait_as_our_engines_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked on what a server is really started with."""
    monkeypatch.setattr(waiting, "crowded", lambda: False)
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    server = program(tmp_path / "llama-server", 'echo "policy=$OMP_WAIT_POLICY,$GOMP_SPINCOUNT."')
    chosen = ((), f"policy=passive,{waiting.ALONE}."), (("--wait-policy", "active"), "policy=active,.")
    for options, wanted in chosen:
        with pytest.raises(SystemExit, match=wanted):
            peers.main(["--server", str(server), "--target", "t", "--only", "plain", *options])


def program(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for the server")
def test_a_whole_comparison_with_the_real_engine(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "tiny.gguf", tokens=vocabulary(with_bytes=True), context=4096)
    workload = tmp_path / "w.jsonl"
    workload.write_text(json.dumps({"id": "one", "category": "chat", "prompt": "abcabcabc"}) + "\n")
    server = program(
        tmp_path / "llama-server", f'cd "{ROOT}" && exec {sys.executable} -m tests.tools.llama_server "$@"'
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.tools.peers", "--server", str(server), "--target", str(model), "--threads", "1",
         "--repeats", "2", "--only", "plain,ngram-mod", "--", "--workload", str(workload), "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3 servers are ready" in done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == {}
    assert found["against_best_single"]["chosen"] == ["@ngram-mod", "@ngram-mod"]
    assert [one["way"] for one in found["answers"]] == [
        "plain", "ours", "@plain", "@ngram-mod", "@ngram-mod", "@plain", "ours", "plain",
    ]  # fmt: skip
