"""Downloads behind the screens, from a real hub on this machine: D5 and T6 of the known faults."""

import asyncio
import contextlib
import hashlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec import paths
from localspec.chat import config
from localspec.models import catalog, download, store
from localspec.tui.downloads import Download, Downloads
from tests.models.hubserver import Fault, HubServer, serving
from tests.tui.helpers import Bench, until
from tests.tui.menus import nothing_here, shows, write_menu
from tests.tui.test_menu import menu_read

REPO, NAME, SIZE = "Someone/Model-GGUF", "model-q4_k_m.gguf", 3_000_000
DEADLINE_S = 20.0


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A hub with one file, which is the starter of the menu; nothing of the person's environment."""
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(download, "STALL_S", 1000.0)
    data = random.Random(1).randbytes(SIZE)
    with serving() as server:
        server.repos[REPO] = {NAME: data}
        write_menu(
            monkeypatch, tmp_path,
            f'[files.thing]\nname = "{NAME}"\nsize = {SIZE}\nsha256 = "{hashlib.sha256(data).hexdigest()}"\n'
            f'hub = {{ repo = "{REPO}", revision = "{"a" * 40}" }}\n'
            '[pairs.thing]\ntarget = "thing"\nstarter = true\n',
        )  # fmt: skip
        config.set_key("sources.endpoint", server.endpoint)
        config.set_key("sources.order", ["hub"])
        yield server


def part() -> int:
    """Bytes that an unfinished download left."""
    return store.fetched_bytes(catalog.load().files["thing"])


class Watched:
    """Downloads without a screen; every change with its time."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Download]] = []
        self.downloads = Downloads(self._changed, lambda file, cancel: True)

    def _changed(self, name: str) -> None:
        download = self.downloads.get(name)
        assert download is not None
        self.seen.append((time.monotonic(), download))

    def wait(self, phase: str) -> Download:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            found = self.downloads.get("thing")
            if found is not None and found.phase == phase:
                return found
            threading.Event().wait(0.005)
        raise AssertionError(f"never {phase}: {self.downloads.all}")


def test_what_arrives_is_whole_and_its_progress_adds_up(hub: HubServer) -> None:
    hub.bytes_per_s = 3_000_000
    watched = Watched()
    watched.downloads.start("thing")
    done = watched.wait("done")
    assert done.done == done.total == SIZE
    assert store.find(catalog.load().files["thing"]) is not None
    figures = [one.done for _, one in watched.seen if one.step.startswith("fetching")]
    assert figures == sorted(figures)
    assert {one.total for _, one in watched.seen if one.step.startswith("fetching")} == {SIZE}


def test_at_most_ten_figures_a_second(hub: HubServer) -> None:
    """D5: in any second of a slow download, counted by the events' own times."""
    hub.bytes_per_s = 1_500_000
    watched = Watched()
    watched.downloads.start("thing")
    watched.wait("done")
    times = [at for at, one in watched.seen if one.step.startswith("fetching")]
    assert len(times) > 5
    # Two more: the first and the last figure of a file always come.
    assert all(sum(at <= other < at + 1 for other in times) <= 10 + 2 for at in times)


def test_cancelled_at_thirty_percent_it_goes_on_from_there(hub: HubServer) -> None:
    """D5"""
    hub.always = [Fault(stall=0.3)]
    watched = Watched()
    watched.downloads.start("thing")
    deadline = time.monotonic() + DEADLINE_S
    while part() < 0.25 * SIZE:
        assert time.monotonic() < deadline
    watched.downloads.cancel("thing")
    cancelled = watched.wait("cancelled")
    assert "kept" in cancelled.error
    kept = part()
    assert 0 < kept <= 0.3 * SIZE
    hub.always = []
    watched.downloads.start("thing")
    watched.wait("done")
    assert hub.ranges[-1] == f"bytes={kept}-"


def test_closing_ends_the_thread_at_once_and_keeps_the_part(hub: HubServer) -> None:
    """T6"""
    hub.always = [Fault(stall=0.3)]
    watched = Watched()
    watched.downloads.start("thing")
    watched.downloads.start("other")
    deadline = time.monotonic() + DEADLINE_S
    while part() < 0.25 * SIZE:
        assert time.monotonic() < deadline
    thread = watched.downloads._thread
    assert thread is not None
    watched.downloads.close()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert store.find(catalog.load().files["thing"]) is None
    assert part() > 0
    watched.downloads.start("thing")
    assert watched.downloads.current is None or watched.downloads.current.phase != "running"


def test_a_waiting_one_can_be_cancelled(hub: HubServer) -> None:
    hub.always = [Fault(stall=0.3)]
    watched = Watched()
    watched.downloads.start("thing")
    watched.downloads.start("other")
    watched.downloads.cancel("other")
    other = watched.downloads.get("other")
    assert other is not None
    assert other.phase == "cancelled"
    watched.downloads.close()


def test_no_network_is_said_within_seconds_and_can_be_tried_again(hub: HubServer) -> None:
    """D2"""
    config.set_key("sources.endpoint", "http://127.0.0.1:9")
    watched = Watched()
    watched.downloads.start("thing")
    failed = watched.wait("failed")
    assert failed.error
    assert "\n" not in failed.error
    config.set_key("sources.endpoint", hub.endpoint)
    watched.downloads.start("thing")
    watched.wait("done")


async def test_the_first_run_without_a_network_is_no_dead_end(hub: HubServer) -> None:
    """D2: what failed is said, the menu goes on, and Enter tries again."""
    config.set_key("sources.endpoint", "http://127.0.0.1:9")
    bench = Bench(choose=nothing_here)
    async with bench.app.run_test(size=(100, 30)) as pilot:
        screen = await menu_read(bench, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: (one := bench.app.downloads.get("thing")) is not None and one.phase == "failed")
        await shows(pilot, bench.app, "#downloads", "thing")
        config.set_key("sources.endpoint", hub.endpoint)
        await pilot.press("enter")
        await until(pilot, lambda: (one := bench.app.downloads.get("thing")) is not None and one.phase == "done")
        assert not screen.is_attached or screen.first_run


async def test_quitting_the_app_in_the_middle_keeps_the_part(hub: HubServer) -> None:
    """T6, D5: quit at 30 %."""
    hub.always = [Fault(stall=0.3)]
    bench = Bench(choose=nothing_here)
    async with bench.app.run_test(size=(80, 24)) as pilot:
        await menu_read(bench, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: part() >= 0.25 * SIZE)
        thread = bench.app.downloads._thread
    assert thread is not None
    await asyncio.to_thread(thread.join, DEADLINE_S)
    assert not thread.is_alive()
    assert 0 < part() <= 0.3 * SIZE
    assert store.find(catalog.load().files["thing"]) is None


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
def test_the_real_program_quits_in_the_middle_with_the_terminal_restored(hub: HubServer, tmp_path: Path) -> None:
    """T6, D5: `localspec` in a pseudo-terminal, ended with Ctrl+Q while it fetches."""
    hub.always = [Fault(stall=0.3)]
    code = (
        "from pathlib import Path\nfrom localspec.models import catalog, download\n"
        f"catalog.shipped_file = lambda: Path({str(tmp_path / 'models.toml')!r})\ndownload.STALL_S = 1000.0\n"
        "from localspec.cli.main import main\nmain([])\n"
    )
    shell, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdin=terminal, stdout=terminal, stderr=terminal, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    written = bytearray()

    def read_until(fact: object) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not fact():  # type: ignore[operator]
            assert time.monotonic() < deadline, written.decode("utf-8", "replace")[-2000:]
            if select.select([shell], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):
                    written.extend(os.read(shell, 65536))

    try:
        read_until(lambda: b"Press" in written and b"thing" in written)
        os.write(shell, b"\r")
        read_until(lambda: part() >= 0.25 * SIZE)
        os.write(shell, b"\x11")
        read_until(lambda: program.poll() is not None)
        assert program.returncode == 0
        assert b"\x1b[?1049l" in written, "the alternate screen was left"
        assert b"\x1b[?25h" in written, "the cursor is shown"
        assert b"Traceback" not in written
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        os.close(shell)
    assert 0 < part() <= 0.3 * SIZE
    assert store.find(catalog.load().files["thing"]) is None
    assert not list(paths.models_dir().rglob("*.tmp"))
