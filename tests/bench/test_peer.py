"""The same prompts to a llama-server: what it is asked, what of its answer counts, and what may go wrong."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from localspec.bench.contest import OURS, PLAIN, Contest
from localspec.bench.paired import Mode
from localspec.bench.peer import Peers, Setting, measure
from localspec.bench.peer_server import Completion, Peer, PeerError, Server
from tests.bench.answers import CHAT, EDIT_A, prompting
from tests.bench.cycles import Priced
from tests.bench.peerserver import PeerServer, letters, serving
from tests.cli.streams import CommandLine
from tests.fake_engine import FakeEngine, Say, Script, plain
from tests.tiny import write_llama

AUTO = Mode("auto", "auto", 3)


class Ours(Priced):
    """A priced engine with the letters as tokens."""

    def tokens(self, prompt: Any) -> tuple[int, ...]:
        return tuple(letters("".join(segment.text for segment in prompt)))


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts servers; they end with the test."""
    with ExitStack() as stack:
        yield lambda **script: stack.enter_context(serving(PeerServer(**script)))


def connected(*servers: PeerServer) -> Peers:
    return Peers.connect([Peer(f"p{number}", (server.url,)) for number, server in enumerate(servers)])


def setting(**changes: Any) -> Setting:
    usual = {"tasks": [EDIT_A, CHAT], "ours": AUTO, "rounds": 2, "max_tokens": 32, "prompting": prompting}
    return Setting(**(usual | changes))


def never() -> bool:
    return False


@pytest.mark.parametrize(
    ("text", "name", "urls"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", ("http://127.0.0.1:8080",)),
        ("draft 3=http://127.0.0.1:8080/", "draft 3", ("http://127.0.0.1:8080",)),
        ("mod=http://a:1,http://a:2/x", "mod", ("http://a:1", "http://a:2/x")),
        ("http://a:1/?x=http://b", "a:1", ("http://a:1/?x=http://b",)),
    ],
)
def test_a_peer_is_a_url_with_or_without_a_name(text: str, name: str, urls: tuple[str, ...]) -> None:
    assert Peer.parse(text) == Peer(name, urls)


@pytest.mark.parametrize(
    "text",
    ["", "mod=", "127.0.0.1:8080", "ftp://a", "mod=http://", "mod=http://a,b", "http://a:99999", "http://a b:1",
     "http://[::1", "http://a:1/\0"],
)  # fmt: skip
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not URL or NAME=URL"):
        Peer.parse(text)


def test_neither_the_first_token_nor_the_end_token_is_counted() -> None:
    timings = {"predicted_n": 5, "predicted_ms": 1500.0, "predicted_per_second": 77.0}
    limit = Completion.read({"timings": timings, "stop_type": "limit", "tokens": [1, 2, 3, 4, 5]})
    assert (limit.tokens, limit.seconds, limit.ids) == (4, 1.5, (1, 2, 3, 4, 5))
    ended = Completion.read({"timings": timings, "stop_type": "eos", "tokens": [1, 2, 3, 4, 9]})
    assert (ended.tokens, ended.ids) == (3, (1, 2, 3, 4))
    drafted = Completion.read({"timings": timings | {"draft_n": 8, "draft_n_accepted": 3}, "stop_type": "limit"})
    assert (drafted.proposed, drafted.accepted, drafted.ids) == (8, 3, ())
    assert (limit.proposed, limit.accepted) == (None, None)


def test_whose_servers_are_all_on_this_machine() -> None:
    assert Peer.parse("a=http://127.0.0.1:1,http://localhost:2,http://[::1]:3").here
    assert not Peer.parse("a=http://127.0.0.1:1,http://192.168.0.2:1").here


@pytest.mark.parametrize(
    "timings",
    [
        {}, {"predicted_n": 3}, {"predicted_n": 3, "predicted_ms": float("nan")}, {"predicted_n": "x"}, None,
        {"predicted_n": 3, "predicted_ms": 1.0, "draft_n": 4, "draft_n_accepted": "x"},
    ],
)  # fmt: skip
def test_timings_that_make_no_sense_are_no_answer(timings: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Completion.read({"timings": timings})


def test_the_server_gets_our_tokens_and_decodes_greedily(start: Any) -> None:
    peer = start()
    server = Server("p", peer.url)
    found = server.complete([5, 6], 9, cache_prompt=False, stopped=never)
    server.close()
    assert found is not None
    assert found.tokens == 8
    (body,) = peer.requests
    assert (body["prompt"], body["n_predict"], body["cache_prompt"]) == ([5, 6], 9, False)
    assert (body["temperature"], body["top_k"], body["stream"]) == (0.0, 1, False)


def test_each_round_asks_everybody_and_the_next_goes_back(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, str]] = []
    servers = [start(), start()]
    engine = Ours()
    complete, generate = Server.complete, engine.generate

    def asked(self: Server, ids: Any, *rest: Any, **more: Any) -> Any:
        order.append((self.name, "".join(map(chr, ids))))
        return complete(self, ids, *rest, **more)

    def answered(request: Any) -> Any:
        order.append((request.speculate, request.prompt[0].text))
        return generate(request)

    monkeypatch.setattr(Server, "complete", asked)
    engine.generate = answered  # type: ignore[method-assign]
    held, peers = Contest(), connected(*servers)
    told: list[tuple[int, int]] = []
    measure(held, engine, peers, setting(progress=lambda done, total, text: told.append((done, total))))
    peers.close()
    there = ["off", "auto", "p0", "p1"]
    assert order == [(way, text) for text in ("edit a", "talk") for way in there + there[::-1]]
    assert len(held.answers) == 16
    assert told[-1] == (16, 16)


def test_a_peer_is_asked_only_when_our_engine_rests(start: Any) -> None:
    server = start()
    waits: list[int] = []
    peers = connected(server)
    measure(Contest(), Ours(), peers, setting(rest=lambda: waits.append(len(server.requests))))
    peers.close()
    assert waits == [0, 1, 2, 3]
    assert len(server.requests) == 4


def test_both_sides_count_the_same_thing(start: Any) -> None:
    """Plain: one token for 10 ms. Ours: 4 for 20 ms. The peer: 31 decoded tokens at 50/s."""
    held, peers = Contest(), connected(start(speed=lambda number: 50.0, drafted=(40, 10)))
    engine = Ours(verify=lambda width: 20.0 if width > 1 else 10.0)
    measure(held, engine, peers, setting())
    peers.close()
    assert held.overall("@p0", PLAIN) == pytest.approx(0.5)
    assert held.overall(OURS, PLAIN) == pytest.approx(2.0)
    assert held.overall(OURS, "@p0") == pytest.approx(4.0)
    theirs = next(one for one in held.answers if one.way == "@p0")
    assert (theirs.tokens, theirs.proposed, theirs.accepted) == (31, 40, 10)
    ours = next(one for one in held.answers if one.way == OURS)
    assert (ours.tokens, ours.proposed) == (48, 36)


def test_a_setting_with_several_servers_asks_a_fresh_one_each_round(start: Any) -> None:
    first, second = start(), start()
    peers = Peers.connect([Peer("mod", (first.url, second.url))])
    measure(Contest(), Ours(), peers, setting(rounds=3))
    peers.close()
    assert (len(first.requests), len(second.requests)) == (4, 2)


def test_a_peer_that_fails_in_the_middle_is_out_and_the_others_go_on(start: Any) -> None:
    good, bad = start(), start(fails_from=1)
    held, peers = Contest(), connected(good, bad)
    measure(held, Ours(), peers, setting())
    peers.close()
    assert list(peers.failed) == ["p1"]
    assert "status 500: Compute error." in peers.failed["p1"]
    assert len(bad.requests) == 2
    assert len([one for one in held.answers if one.way == "@p0"]) == 4


def test_stopped_while_a_peer_answers_it_ends_at_once_and_keeps_what_it_has(start: Any) -> None:
    slow = start()
    slow.held.clear()
    held, peers = Contest(), connected(slow)
    measure(held, Ours(), peers, setting(stopped=slow.asked.is_set))
    assert [one.way for one in held.answers] == [PLAIN, OURS]
    assert not slow.held.is_set()
    peers.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"tokenize": lambda text: [1, 2, 3]}, "reads our prompt as 3 other tokens than our 6"),
        ({"tokenize": lambda text: None}, "tells no tokens"),
        ({"context": 30}, "has a context of 30 tokens, and 38 are needed"),
        ({"loading": True}, "is still loading its model"),
    ],
)
def test_a_server_that_cannot_answer_like_us_is_refused(start: Any, script: dict[str, Any], words: str) -> None:
    peers = connected(start(**script))
    with pytest.raises(PeerError, match=words):
        peers.check(Ours(), "target.gguf", setting())
    peers.close()


def test_a_begin_token_in_front_of_ours_is_no_other_vocabulary(start: Any) -> None:
    class WithBegin(Ours):
        def tokens(self, prompt: Any) -> tuple[int, ...]:
            return (1, *super().tokens(prompt))

    peers = connected(start())
    assert peers.check(WithBegin(), "target.gguf", setting()) == []
    peers.close()


def test_another_model_or_more_slots_are_told(start: Any) -> None:
    peers = connected(start(model_path="C:\\m\\other.gguf", slots=4), start())
    notes = peers.check(Ours(), "target.gguf", setting())
    peers.close()
    assert notes == [
        "p0 runs other.gguf, and we target.gguf",
        "p0 has 4 slots: one (-np 1) is what a single person's server needs",
    ]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://a..b:80"])
def test_nobody_there_is_said_in_words(url: str) -> None:
    peers = Peers.connect([Peer("p", (url,))])
    with pytest.raises(PeerError, match=rf"p at {re.escape(url)} does not answer"):
        peers.check(Ours(), "t", setting())
    peers.close()


def test_a_server_of_another_kind_is_said_in_words(start: Any) -> None:
    peer = start()
    server = Server("p", peer.url)
    with pytest.raises(PeerError, match="status 404: File Not Found"):
        server._ask("GET", "/v1/nothing")
    peer._complete = lambda body: (200, {"choices": []})
    with pytest.raises(PeerError, match="answers without timings"):
        server.complete([1], 4, cache_prompt=True, stopped=never)
    server.close()


def test_no_proxy_is_used(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    peers = connected(start())
    assert peers.check(Ours(), "target.gguf", setting()) == []
    peers.close()


ANSWER = Script([*plain("a"), Say(("b", "c"), end=("bonus", "e")), Say(("f",), end=("resampled", "g"))], "max_tokens")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "target.gguf")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    tokens = lambda self, prompt: tuple(letters("".join(one.text for one in prompt)))  # noqa: E731
    monkeypatch.setattr(FakeEngine, "tokens", tokens)
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER])
    return line


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    rows = [{"id": "e1", "category": "edit[/]", "prompt": "Edit"}, {"id": "c1", "category": "chat", "prompt": "Hi"}]
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return file


def test_the_command_prints_a_column_for_every_peer(cli: CommandLine, model: Path, workload: Path, start: Any) -> None:
    """Ours takes 20 ms for 5 tokens: 250/s. T2: a category is no markup."""
    slow, fast = start(speed=lambda number: 100.0), start(speed=lambda number: 125.0)
    outcome = cli.run(
        "bench", "--target", str(model), "--workload", str(workload), "--peer", f"slow={slow.url}",
        "--peer", f"fast={fast.url}", "--repeats", "2",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    row = next(line.split() for line in outcome.out.splitlines() if line.startswith("edit[/]"))
    assert row == ["edit[/]", "1.00x", "0.40x", "0.50x", "2.00", "fast"]
    shares = next(line.split() for line in outcome.out.splitlines() if line.startswith("accepted of proposed"))
    # Ours: of 2 and 2 proposed tokens 2 and 1.
    assert shares[3:] == ["75%", "–", "–"]
    assert "Against the best single setting (fast): 2.00 times as fast" in outcome.out
    assert "cache_prompt true" in outcome.out
    assert len(slow.requests) == 4
    assert slow.requests[0]["n_predict"] == 64
    assert cli.engines[-1].closed


def test_json_has_every_answer_and_verdict(cli: CommandLine, model: Path, workload: Path, start: Any) -> None:
    peer = start(speed=lambda number: 125.0, ends=9)
    outcome = cli.run(
        "bench", "--target", str(model), "--workload", str(workload), "--peer", f"it={peer.url}", "--peer-cold",
        "--repeats", "2", "--max-tokens", "16", "--json",
    )  # fmt: skip
    found = json.loads(outcome.out)
    assert found["cache_prompt"] is False
    assert peer.requests[0]["cache_prompt"] is False
    assert found["against_best_single"] == {"ratio": pytest.approx(2.0), "chosen": ["@it", "@it"]}
    assert len(found["answers"]) == 2 * 2 * 3
    assert {one["tokens"] for one in found["answers"] if one["way"] == "@it"} == {8}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--peer", "nowhere"), "'nowhere' is not URL or NAME=URL"),
        (("--peer", "http://a:1", "--full"), "--full does not belong here"),
        (("--peer", "http://a:1", "--temp", "1"), "--temp does not belong here"),
        (("--peer", "http://a:1", "--speculate", "off"), "nothing to compare"),
        (("--peer", "x=http://a:1", "--peer", "x=http://a:2"), "same name"),
        (("--peer", "x=http://192.168.0.2:1", "--offline"), "x is not on this machine"),
    ],
)
def test_wrong_usage_is_refused(cli: CommandLine, model: Path, arguments: tuple[str, ...], words: str) -> None:
    outcome = cli.run("bench", "--target", str(model), *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert cli.engines == []


def test_a_peer_that_is_not_there_is_one_line(cli: CommandLine, model: Path, workload: Path) -> None:
    outcome = cli.run("bench", "--target", str(model), "--workload", str(workload), "--peer", "it=http://127.0.0.1:9")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("localspec: it at http://127.0.0.1:9 does not answer")
    assert cli.engines[-1].closed


def test_interrupted_it_prints_what_it_has(
    cli: CommandLine, model: Path, workload: Path, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localspec.cli import interrupts

    peer = start()
    enter = interrupts.Interrupts.__enter__

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        def interrupt() -> None:
            assert peer.asked.wait(20)
            self.hit = True

        threading.Thread(target=interrupt, daemon=True).start()
        return enter(self)

    peer.held.clear()
    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    outcome = cli.run(
        "bench", "--target", str(model), "--workload", str(workload), "--peer", f"it={peer.url}", "--json"
    )
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    assert [one["way"] for one in json.loads(outcome.out)["answers"]] == ["plain", "ours"]
