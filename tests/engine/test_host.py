"""The engine's process: no orphans, a private wire, deaf to Ctrl+C."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from localspec.engine import wire
from localspec.engine.errors import EngineDied
from localspec.engine.events import Prefill, Token
from localspec.engine.requests import EngineConfig
from tests.engine.engine_clients import DEADLINE_S, HOSTS, ask, fake_client, fake_command, is_gone, text_of, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripted engines use POSIX signals and libc")


@contextmanager
def host(mode: str = "plain") -> Iterator["subprocess.Popen[bytes]"]:
    """A bare host process, as the client starts it; killed at the end whatever happened."""
    with subprocess.Popen(
        fake_command(mode), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process: "subprocess.Popen[bytes]", message: wire.ToChild) -> None:
    assert process.stdin is not None
    process.stdin.write(wire.pack(message))
    process.stdin.flush()


def receive(process: "subprocess.Popen[bytes]") -> object:
    assert process.stdout is not None
    return wire.read_message(process.stdout)


def load(process: "subprocess.Popen[bytes]") -> None:
    send(process, wire.Load(1, EngineConfig("t.gguf")))
    while not isinstance(receive(process), wire.Loaded):
        pass


@pytest.mark.parametrize("doing", ["loading", "idle", "prefill", "native", "endless"])
def test_the_pipe_is_the_life_line(doing: str) -> None:
    """The process ends at once when its pipe closes, also inside a native call, and takes no clean-up for it."""
    with host("load-forever" if doing == "loading" else "plain") as process:
        assert process.stdin is not None
        if doing == "loading":
            send(process, wire.Load(1, EngineConfig("t.gguf")))
            assert isinstance(receive(process), wire.Progress)
        else:
            load(process)
        if doing not in {"loading", "idle"}:
            send(process, wire.Generate(2, ask(doing)))
            last = Token if doing == "endless" else Prefill
            while not (isinstance(reply := receive(process), wire.Emitted) and isinstance(reply.event, last)):
                pass
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_client_that_stops_listening_ends_it_too() -> None:
    with host() as process:
        assert process.stdout is not None
        load(process)
        process.stdout.close()
        send(process, wire.Generate(2, ask("endless")))
        assert process.wait(DEADLINE_S) == 0


def test_nonsense_on_the_pipe_ends_it() -> None:
    with host() as process:
        assert process.stdin is not None
        process.stdin.write(b"GET / HTTP/1.1\r\n\r\n")
        process.stdin.flush()
        assert process.wait(DEADLINE_S) == 70


def test_a_shutdown_while_loading_is_obeyed_at_once() -> None:
    with host("load-forever") as process:
        send(process, wire.Load(1, EngineConfig("t.gguf")))
        assert isinstance(receive(process), wire.Progress)
        send(process, wire.Shutdown())
        assert process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize(
    ("mode", "prompt"),
    [("load-forever", "none"), ("plain", "prefill"), ("plain", "native"), ("plain", "endless")],
)
def test_a_killed_parent_leaves_no_orphan(mode: str, prompt: str) -> None:
    """`kill -9` of the program while the engine loads, prefills, sits in a native call, decodes."""
    parent = subprocess.Popen(
        [sys.executable, str(HOSTS / "parent.py"), mode, prompt], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        pid, word = parent.stdout.readline().split()
        assert word == "ready"
        child = psutil.Process(int(pid))
        assert child.ppid() == parent.pid
        parent.kill()
    wait_until(lambda: is_gone(child.pid), "the engine's process is gone")


def test_interrupts_do_not_reach_an_answer() -> None:
    """S4: the client decides what Ctrl+C means."""
    with fake_client() as client:
        answer = client.generate(ask("prefill"))
        next(answer)
        next(answer)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGINT)
        os.killpg(client.pid, signal.SIGINT)
        client.cancel()
        assert list(answer)[-1].reason == "cancelled"  # type: ignore[union-attr]
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_native_output_goes_to_the_log_and_not_into_the_wire() -> None:
    """T1"""
    with fake_client() as client:
        assert text_of(list(client.generate(ask("noise")))) == "noise"
        assert text_of(list(client.generate(ask("hello")))) == "hello"
        assert client.log_path is not None
        log = client.log_path.read_text()
    for words in ("native noise", "python noise", "libc noise"):
        assert words in log


def test_a_spoilt_wire_is_an_error_in_words_and_not_a_hang() -> None:
    """T1: what even a private descriptor cannot prevent."""
    with fake_client() as client:
        with pytest.raises(EngineDied, match="replies make no sense"):
            list(client.generate(ask("wire")))
        client.restart()
        assert text_of(list(client.generate(ask("hello")))) == "hello"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_the_engine_reads_nothing_from_its_standard_input() -> None:
    """A library that reads standard input gets its end at once, and not the requests."""
    with host() as process:
        load(process)
        assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path(os.devnull)
