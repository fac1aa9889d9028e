"""Downloads that survive: D1, D2, D3, D5, D7 of the known faults, against a real HTTP server."""

import errno
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from localspec import paths
from localspec.models import catalog, download, pull, store
from localspec.models.errors import ModelError
from localspec.models.partial import DiskFull, Part, WrongContent
from localspec.models.progress import Cancelled, Moved, PullEvent, Said
from localspec.models.settings import Settings
from tests.models.conftest import NAME, REPO, Writer
from tests.models.hubserver import Fault, HubServer


def settings(hub: HubServer, **changes: object) -> Settings:
    return Settings(**{"order": ("hub",), "endpoint": hub.endpoint, **changes})  # type: ignore[arg-type]


def fetch(hub: HubServer, events: list[PullEvent] | None = None, **options: object) -> Path:
    report = events.append if events is not None else None
    [one] = pull.pull(["thing"], settings=settings(hub), report=report, **options)  # type: ignore[arg-type]
    return one.path


def content(hub: HubServer) -> bytes:
    return hub.repos[REPO][NAME]


def said(events: list[PullEvent]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Said))


def left_over() -> list[str]:
    """Everything in the store that is neither a lock nor a note."""
    return sorted(p.name for p in paths.models_dir().rglob("*") if p.is_file() and p.suffix not in (".lock", ".json"))


def test_a_file_arrives_whole_with_every_source_announced(hub: HubServer, write_menu: Writer) -> None:
    write_menu(content(hub))
    events: list[PullEvent] = []
    path = fetch(hub, events)
    assert path.read_bytes() == content(hub)
    assert store.find(catalog.load().files["thing"]) == path
    assert f"trying hub: {hub.endpoint}/{REPO}" in said(events)
    assert left_over() == [NAME]
    last = [event for event in events if isinstance(event, Moved)][-1]
    assert (last.phase, last.done, last.total) == ("done", 3_000_000, 3_000_000)


def test_the_token_goes_to_the_hub_and_nowhere_else(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    write_menu(content(hub))
    fetch(hub)
    for path, token in hub.tokens:
        assert token == (None if path.startswith("/cdn/") else "Bearer hf_secret"), path
    assert {path.split("/")[1] for path in hub.paths} == {REPO.split("/")[0], "cdn"}


def test_a_line_cut_in_the_middle_is_continued_in_the_same_run(hub: HubServer, write_menu: Writer) -> None:
    """D1"""
    write_menu(content(hub))
    hub.faults = [Fault(cut=0.5), Fault(cut=0.5)]
    events: list[PullEvent] = []
    assert fetch(hub, events).read_bytes() == content(hub)
    assert hub.sent == len(content(hub))
    assert hub.ranges == [None, "bytes=1500000-", "bytes=2250000-"]
    assert "broke" in said(events)


def test_a_pull_cut_at_half_and_started_again_fetches_at_most_51_percent_more(
    hub: HubServer, write_menu: Writer
) -> None:
    """D1: across runs, counted at the server."""
    write_menu(content(hub))
    hub.faults = [Fault(cut=0.5)] + [Fault(cut=0.0)] * download.TRIES
    with pytest.raises(ModelError, match=r"gave up after 5 tries.*1\.5 MB|gave up after 5 tries.*2 MB"):
        fetch(hub)
    assert store.find(catalog.load().files["thing"]) is None
    hub.faults = []
    first = hub.sent
    assert fetch(hub).read_bytes() == content(hub)
    assert hub.sent - first <= 0.51 * len(content(hub))


def test_a_stalled_line_is_announced_given_up_and_continued(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: no wait in silence."""
    from localspec.models import waiting

    monkeypatch.setattr(waiting, "SAY_AFTER_S", 0.2)
    monkeypatch.setattr(download, "STALL_S", 0.6)
    write_menu(content(hub))
    hub.faults = [Fault(stall=0.5)]
    events: list[PullEvent] = []
    assert fetch(hub, events).read_bytes() == content(hub)
    assert "waiting for 127.0.0.1" in said(events) or "waiting for localhost" in said(events)
    assert hub.sent == len(content(hub))


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("where", ["hub", "cdn"])
def test_a_server_that_cannot_now_is_asked_again(hub: HubServer, write_menu: Writer, status: int, where: str) -> None:
    write_menu(content(hub))
    hub.faults = [Fault(where=where, status=status, headers={"Retry-After": "0"})] * 2
    events: list[PullEvent] = []
    assert fetch(hub, events).read_bytes() == content(hub)
    assert f"answers {status}" in said(events)


def test_a_pause_the_server_asks_for_is_kept(hub: HubServer, write_menu: Writer) -> None:
    write_menu(content(hub))
    hub.faults = [Fault(status=429, headers={"Retry-After": "7"})]
    cancel = threading.Event()
    events: list[PullEvent] = []

    def report(event: PullEvent) -> None:
        events.append(event)
        if isinstance(event, Said) and "trying again" in event.text:
            cancel.set()

    with pytest.raises(Cancelled):
        pull.pull(["thing"], settings=settings(hub), report=report, cancel=cancel)
    assert "trying again in 7 s" in said(events)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(where="hub", status=401), "shows no repository"),
        (Fault(where="hub", status=403), "gives access on request"),
        (Fault(where="hub", status=404), "no"),
        (Fault(status=401), "shows no repository"),
        (Fault(status=403), "gives access on request"),
        (Fault(status=404), "has no such file"),
        (Fault(status=410), "answers 410"),
    ],
)
def test_a_final_refusal_is_explained_at_once(hub: HubServer, write_menu: Writer, fault: Fault, words: str) -> None:
    write_menu(content(hub))
    hub.always = [fault]
    with pytest.raises(ModelError, match=words) as caught:
        fetch(hub)
    assert "\n" not in str(caught.value)
    assert left_over() == []
    assert len(hub.paths) <= 3


def test_a_gated_repository_names_the_next_step(
    hub: HubServer, write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_menu(content(hub))
    hub.gated = {REPO}
    with pytest.raises(ModelError, match=f"agree to its terms at {hub.endpoint}/{REPO}, then run `hf auth login`"):
        fetch(hub)
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    with pytest.raises(ModelError, match="with the account of your token"):
        fetch(hub)


def test_a_server_without_ranges_starts_again_with_a_word(hub: HubServer, write_menu: Writer) -> None:
    write_menu(content(hub))
    hub.faults = [Fault(cut=0.5), Fault(whole=True)]
    events: list[PullEvent] = []
    assert fetch(hub, events).read_bytes() == content(hub)
    assert "cannot continue a download; starting again" in said(events)


def test_a_server_without_ranges_that_always_breaks_is_given_up(hub: HubServer, write_menu: Writer) -> None:
    write_menu(content(hub))
    hub.always = [Fault(whole=True, cut=0.5)]
    with pytest.raises(ModelError, match="gave up"):
        fetch(hub)
    assert len(hub.ranges) <= download.TRIES + 1


def test_another_range_than_asked_is_not_taken(hub: HubServer, write_menu: Writer) -> None:
    write_menu(content(hub))
    hub.faults = [Fault(cut=0.5), Fault(shift=True)]
    assert fetch(hub).read_bytes() == content(hub)


def test_a_file_that_changes_in_between_starts_again_with_a_word(hub: HubServer, write_menu: Writer) -> None:
    """A file whose hash is not pinned: the ETag tells."""
    write_menu(content(hub), sha256='"' + "0" * 64 + '"')
    hub.repos["A/B"] = {NAME: content(hub)}
    hub.faults = [Fault(cut=0.5)] + [Fault(cut=0.0)] * download.TRIES
    with pytest.raises(ModelError, match="gave up"):
        pull.pull(["A/B"], settings=settings(hub))
    changed = random.Random(2).randbytes(2_000_000)
    hub.repos["A/B"] = {NAME: changed}
    hub.faults = []
    events: list[PullEvent] = []
    [one] = pull.pull(["A/B"], settings=settings(hub), report=events.append)
    assert one.path.read_bytes() == changed
    assert "has changed since the download began; starting again" in said(events)


def test_other_bytes_than_the_menu_promises_are_refused_before_they_are_fetched(
    hub: HubServer, write_menu: Writer
) -> None:
    write_menu(content(hub), sha256='"' + "0" * 64 + '"')
    with pytest.raises(WrongContent, match="has another"):
        fetch(hub)
    write_menu(content(hub), size="2999999")
    with pytest.raises(WrongContent, match="3000000 bytes instead of 2999999"):
        fetch(hub)
    assert hub.sent == 0
    assert left_over() == []


def test_bytes_that_do_not_match_are_an_error_and_leave_nothing(hub: HubServer, write_menu: Writer) -> None:
    """The hub's own words are right, the bytes that come are not."""
    write_menu(content(hub))
    part = Part(store.place(catalog.load().files["thing"]), "hub")
    digest = hashlib.sha256(content(hub)).hexdigest()
    part.path.parent.mkdir(parents=True)
    part.path.write_bytes(b"x" * 3_000_000)
    part.note(etag=digest, size=3_000_000)
    events: list[PullEvent] = []
    assert fetch(hub, events).read_bytes() == content(hub), "a damaged part of an earlier run is fetched again"
    assert "sha256" in said(events)


def test_a_source_that_sends_other_bytes_than_it_names_is_an_error(hub: HubServer, write_menu: Writer) -> None:
    """The hub's words are right, what it sends is not: nothing of it is taken, and it is not asked again."""
    write_menu(content(hub))
    hub.faults = [Fault(swap=b"z")]
    with pytest.raises(WrongContent, match=r"the sha256 is .* instead of .*; nothing was kept"):
        fetch(hub)
    assert left_over() == []
    assert len(hub.ranges) == 1


def test_more_or_fewer_bytes_than_announced_are_noticed(hub: HubServer, write_menu: Writer) -> None:
    """The server lies about the length."""
    write_menu(content(hub))
    hub.faults = [Fault(claim=1000)]
    assert fetch(hub).read_bytes() == content(hub)


def test_cancel_in_the_middle_keeps_the_part(hub: HubServer, write_menu: Writer) -> None:
    """D5: cancelled at 30 %; also while the line stalls."""
    write_menu(content(hub))
    hub.always = [Fault(stall=0.3)]
    cancel = threading.Event()

    def report(event: PullEvent) -> None:
        if isinstance(event, Moved) and event.done > 0:
            cancel.set()

    with pytest.raises(Cancelled, match="kept"):
        pull.pull(["thing"], settings=settings(hub), report=report, cancel=cancel)
    part = Part(store.place(catalog.load().files["thing"]), "hub")
    assert 0 < part.size() <= 900_000
    hub.always = []
    before = hub.sent
    assert fetch(hub).read_bytes() == content(hub)
    assert hub.sent - before <= 3_000_000 - part.size() + 900_000


def test_progress_as_data_comes_at_most_ten_times_a_second(hub: HubServer, write_menu: Writer) -> None:
    """D5"""
    write_menu(content(hub))
    hub.bytes_per_s = 3_000_000
    moments: list[float] = []

    def report(event: PullEvent) -> None:
        if isinstance(event, Moved) and event.phase == "downloading":
            moments.append(time.monotonic())

    pull.pull(["thing"], settings=settings(hub), report=report)
    # The last figure of a phase always goes out, so the final gap may be short.
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments[:-1])]
    assert len(moments) > 3
    assert all(gap >= 0.099 for gap in gaps)


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
        "p._FULL.add(errno.EFBIG)\n"
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


def test_an_unreachable_hub_is_left_within_seconds_for_the_next_source(
    write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: no answer at all, as behind a closed firewall."""
    from localspec.models.sources import hub as hub_source

    write_menu(b"x")
    monkeypatch.setattr(hub_source, "ANSWER_S", 0.5)
    waiting = threading.Event()

    def hang(*_: object, **__: object) -> None:
        waiting.wait(30)

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", hang)
    used = Settings(order=("hub", "packages"), endpoint="https://hub.invalid")
    with pytest.raises(ModelError, match=r"hub: no answer within 0 s from hub\.invalid"):
        pull.pull(["thing"], settings=used)
    waiting.set()


def test_a_proxy_is_named_by_its_variable_and_never_by_its_value(
    write_menu: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D7"""
    write_menu(b"x")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:password@127.0.0.1:9")
    with pytest.raises(ModelError, match=r"through the proxy in HTTPS_PROXY") as caught:
        pull.pull(["thing"], settings=Settings(order=("hub",), endpoint="https://hub.invalid"))
    assert "password" not in str(caught.value)
    assert "localspec models add" in str(caught.value)


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
