"""Pulls around the transfer: room, locks, cancelling, being killed, sets of files, licences. D2, D3, D5."""

import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from localspec import paths
from localspec.models import catalog, download, progress, pull, store
from localspec.models.errors import ModelError
from localspec.models.partial import DiskFull, Part
from localspec.models.progress import Cancelled, Moved, PullEvent
from tests.models.conftest import NAME, REPO, Writer
from tests.models.fetching import content, fetch, said, settings
from tests.models.hubserver import Fault, HubServer


def test_cancel_in_the_middle_keeps_the_part(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: cancelled at 30 %, while the line stalls and would for longer than this test may take."""
    monkeypatch.setattr(download, "STALL_S", 1000.0)
    write_menu(content(hub))
    hub.always = [Fault(stall=0.3)]
    cancel = threading.Event()

    def report(event: PullEvent) -> None:
        if isinstance(event, Moved) and event.done > 0:
            cancel.set()

    with pytest.raises(Cancelled, match="kept"):
        pull.pull(["thing"], settings=settings(hub), report=report, cancel=cancel)
    part = Part(store.place(catalog.load().files["thing"]), "hub")
    kept = part.size()
    assert 0 < kept <= 900_000
    hub.always = []
    assert fetch(hub).read_bytes() == content(hub)
    assert hub.ranges[-1] == f"bytes={kept}-"


def test_progress_as_data_comes_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: by a clock of the test's own; the last figure always comes, the rate is that of the last seconds."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    events: list[PullEvent] = []
    meter = progress.Meter(progress.Job(events.append), "thing", NAME, "hub", 1_000_000)
    for done in range(0, 1_000_001, 1000):
        meter.at(done)
        now[0] += 0.003
    moved = [event for event in events if isinstance(event, Moved)]
    assert 25 <= len(moved) <= 3.003 * progress.EVENTS_PER_SECOND + 2
    assert moved[-1].done == 1_000_000
    assert moved[-1].rate == pytest.approx(1000 / 0.003)
    assert moved[-1].left_s == 0
    assert moved[len(moved) // 2].left_s == pytest.approx(1.5, abs=0.2)


def test_without_room_nothing_is_fetched_and_the_numbers_are_said(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3"""
    write_menu(content(hub))
    monkeypatch.setattr(pull, "free_bytes", lambda folder: 1_000_000)
    with pytest.raises(pull.NoSpace, match=r"3 MB to fetch and 300 MB to spare, but only 1 MB are free"):
        fetch(hub)
    assert hub.sent == 0
    assert fetch(hub, ignore_space=True).read_bytes() == content(hub)


def test_a_disk_that_fills_up_keeps_the_part_and_says_so(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: a real ENOSPC in the middle, by a limit on the file's size."""
    write_menu(content(hub))
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))\n"
        "import errno, localspec.models.partial as p\n"
        "p.FULL.add(errno.EFBIG)\n"
        "from localspec.models import pull\n"
        "from localspec.models.settings import Settings\n"
        f"try: pull.pull(['thing'], settings=Settings(order=('hub',), endpoint={hub.endpoint!r}))\n"
        "except p.DiskFull as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "the disk is full; " in done.stdout, done.stderr
    assert "run the same command again" in done.stdout
    part = Part(store.place(catalog.load().files["thing"]), "hub")
    assert part.size() == 1_500_000
    before = hub.sent
    assert fetch(hub).read_bytes() == content(hub)
    assert hub.sent - before == 1_500_000


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_apart_from_other_failures(tmp_path: Path, code: int) -> None:
    """D3"""
    part = Part(tmp_path / "x.gguf", "hub")
    with pytest.raises(DiskFull, match="make room"), part.open_at(0):
        raise OSError(code, os.strerror(code))
    with pytest.raises(PermissionError), part.open_at(0):
        raise PermissionError(errno.EACCES, "no")


def test_offline_asks_nobody(hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """D2"""
    from localspec.models import settings as model_settings

    write_menu(content(hub))
    with pytest.raises(ModelError, match="offline, and thing is not on this disk"):
        pull.pull(["thing"], settings=settings(hub, offline=True))
    with pytest.raises(ModelError, match="offline"):
        pull.pull(["A/B:Q4_0"], settings=settings(hub, offline=True))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert model_settings.load().offline
    assert hub.paths == []


def test_a_repositorys_file_that_is_here_needs_no_hub(hub: HubServer) -> None:
    """D2: offline, with the hub gone, and with the hub not among the sources."""
    hub.repos["Some/One"] = {"one-Q8_0.gguf": b"one" * 1000}
    [first] = pull.pull(["Some/One"], settings=settings(hub))
    asked = len(hub.paths)
    for without in (settings(hub, offline=True), settings(hub, order=("disk",))):
        [again] = pull.pull(["Some/One:Q8_0"], settings=without)
        assert (again.path, again.source) == (first.path, None)
    assert len(hub.paths) == asked
    events: list[PullEvent] = []
    gone = settings(hub, endpoint="http://127.0.0.1:9")
    [again] = pull.pull(["Some/One"], settings=gone, report=events.append)
    assert (again.path, again.source) == (first.path, None)
    assert "Some/One cannot be looked up: cannot reach 127.0.0.1" in said(events)
    assert "what is here is used" in said(events)
    with pytest.raises(ModelError, match="cannot be looked up"):
        pull.pull(["Some/One:Q4_0"], settings=gone)


def test_two_processes_do_not_fetch_the_same_file_twice(hub: HubServer, write_menu: Writer) -> None:
    write_menu(content(hub))
    hub.bytes_per_s = 6_000_000
    results: list[Path | BaseException] = []

    def run() -> None:
        try:
            results.append(fetch(hub))
        except BaseException as error:
            results.append(error)

    child = subprocess.Popen([sys.executable, "-c", _PULL.format(endpoint=hub.endpoint)], stdout=subprocess.PIPE)
    thread = threading.Thread(target=run)
    thread.start()
    child.communicate(timeout=60)
    thread.join(60)
    assert child.returncode == 0
    assert [one.read_bytes() == content(hub) for one in results if isinstance(one, Path)] == [True]
    assert hub.sent == len(content(hub))


_PULL = """
from localspec.models import pull
from localspec.models.settings import Settings
pull.pull(['thing'], settings=Settings(order=('hub',), endpoint={endpoint!r}))
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
@pytest.mark.timeout(600)
def test_killed_at_random_moments_it_always_continues_and_never_takes_a_damaged_file(
    hub: HubServer, write_menu: Writer
) -> None:
    """50 kills, from before the first byte to after the last; what has the final name is always whole."""
    data = random.Random(3).randbytes(12_000_000)
    hub.repos[REPO][NAME] = data
    hub.bytes_per_s = 30_000_000
    write_menu(data)
    file = catalog.load().files["thing"]
    chance = random.Random(4)
    kills = finished = 0
    while kills < 50:
        target = chance.randrange(len(data))
        begun = hub.sent
        child = subprocess.Popen([sys.executable, "-c", _PULL.format(endpoint=hub.endpoint)], stderr=subprocess.PIPE)
        # The moment is a number of bytes sent, so that it falls anywhere on any machine.
        while child.poll() is None and hub.sent - begun < target:
            threading.Event().wait(0.001)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        error = child.communicate(timeout=60)[1]
        assert child.returncode in (0, -signal.SIGKILL), error
        found = store.find(file)
        if found is not None:
            assert found.read_bytes() == data
            finished += 1
            found.unlink()
    fetch(hub)
    assert store.place(file).read_bytes() == data
    # A kill loses only what was on its way between two sockets, never what had arrived.
    assert hub.sent <= (finished + 1) * len(data) + kills * 2_000_000


def test_split_files_come_as_a_set(hub: HubServer) -> None:
    names = [f"q8/big-Q8_0-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    hub.repos["Big/Model"] = {name: random.Random(n).randbytes(1000 + n) for n, name in enumerate(names)}
    found = pull.pull(["Big/Model:Q8_0"], settings=settings(hub))
    assert [one.path.name for one in found] == [name.split("/")[1] for name in names]
    assert [one.path.read_bytes() for one in found] == list(hub.repos["Big/Model"].values())


def test_the_preferred_quantisation_is_chosen_and_its_hash_checked(hub: HubServer) -> None:
    hub.repos["Some/One"] = {f"one-{q}.gguf": q.encode() * 1000 for q in ("Q8_0", "Q4_K_M", "Q2_K")}
    hub.repos["Some/One"]["mmproj-one-f16.gguf"] = b"vision"
    [one] = pull.pull(["Some/One"], settings=settings(hub))
    assert one.path.name == "one-Q4_K_M.gguf"
    [two] = pull.pull(["Some/One:q8_0"], settings=settings(hub))
    assert two.path.name == "one-Q8_0.gguf"
    assert json.loads(two.path.with_name("one-Q8_0.gguf.fetched.json").read_text())["sha256"] == (
        hashlib.sha256(b"Q8_0" * 1000).hexdigest()
    )
    with pytest.raises(ModelError, match="has no Q5_K_M: it offers Q2_K, Q4_K_M, Q8_0"):
        pull.pull(["Some/One:Q5_K_M"], settings=settings(hub))
    assert [one.source for one in pull.pull(["Some/One"], settings=settings(hub))] == [None]


def test_a_licence_that_asks_for_consent_is_shown_once_and_remembered(hub: HubServer) -> None:
    from localspec.models.consent import ConsentNeeded

    hub.repos["Meta/Llama"] = {"a-Q4_K_M.gguf": b"a" * 100}
    hub.repos["Meta/Other"] = {"b-Q4_K_M.gguf": b"b" * 100}
    hub.licences = {"Meta/Llama": "llama3.2", "Meta/Other": "llama3.2"}
    with pytest.raises(ConsentNeeded, match=r"licence llama3\.2, which asks for consent.*--accept-licence"):
        pull.pull(["Meta/Llama"], settings=settings(hub))
    assert hub.sent == 0
    asked: list[str] = []

    def consent(file: catalog.ModelFile) -> bool:
        asked.append(file.key)
        return True

    pull.pull(["Meta/Llama", "Meta/Other"], settings=settings(hub), consent=consent)
    assert asked == ["Meta/Llama"]


def test_a_directory_that_cannot_be_written_is_named(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_menu(content(hub))
    paths.data_dir().parent.mkdir(parents=True, exist_ok=True)
    paths.data_dir().write_text("a file where a directory should be")
    with pytest.raises(ModelError, match=r"cannot write to .*LOCALSPEC_HOME"):
        fetch(hub)
