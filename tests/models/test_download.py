"""Downloads that survive: D1, D2, D3, D5, D7 of the known faults, against a real HTTP server."""

import hashlib
import os
import random
import subprocess
import sys
import threading

import pytest

from localspec.models import catalog, download, pull, store
from localspec.models.errors import ModelError
from localspec.models.partial import Part, WrongContent
from localspec.models.progress import Cancelled, Moved, PullEvent, Said
from localspec.models.settings import Settings
from tests.models.conftest import NAME, REPO, Writer
from tests.models.fetching import content, fetch, left_over, said, settings
from tests.models.hubserver import CERTIFICATE, Fault, HubServer, serving


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


def test_a_private_certificate_authority_is_asked_for_by_its_variable_and_honoured(write_menu: Writer) -> None:
    """D7: checking is never turned off. A process each, as the variable is read at the first connection."""
    code = (
        "import sys\n"
        "from localspec.models import pull\n"
        "from localspec.models.errors import ModelError\n"
        "from localspec.models.settings import Settings\n"
        "try: print(pull.pull(['thing'], settings=Settings(order=('hub',), endpoint=sys.argv[1]))[0].source)\n"
        "except ModelError as error: print(error)\n"
    )
    with serving(tls=True) as server:
        server.repos[REPO] = {NAME: b"data" * 1000}
        write_menu(b"data" * 1000)
        said = {}
        for trusted in (False, True):
            environment = {**os.environ} | ({"SSL_CERT_FILE": str(CERTIFICATE)} if trusted else {})
            if not trusted:
                environment = {k: v for k, v in environment.items() if k not in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
            done = subprocess.run(
                [sys.executable, "-c", code, server.endpoint],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            said[trusted] = done.stdout
    assert "is not trusted on this machine" in said[False]
    assert "set SSL_CERT_FILE to the file with its certificate authority" in said[False]
    assert said[True] == "hub\n"


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
