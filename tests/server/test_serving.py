"""Many clients and bad ones: the queue, cancelling, slow readers, an engine that dies, an end in the middle, memory."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from localspec.engine.errors import EngineDied, EngineError
from localspec.server.asking import Limits
from localspec.server.turns import Turns
from tests.fake_engine import Say, Script, Wait, plain
from tests.server.serving import DEADLINE_S, Server, until

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


def started(server: Server, **more: Any) -> socket.socket:
    """A request on a raw socket whose answer nobody reads yet."""
    body = json.dumps({**HELLO, **more}).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    connection.sendall(head + body)
    return connection


class TestTheQueue:
    def test_twenty_at_once_are_all_answered_one_at_a_time(self, serving: Any) -> None:
        server = serving([Script(plain(str(number))) for number in range(21)])
        with ThreadPoolExecutor(20) as pool:
            found = list(pool.map(lambda _: server.ask(CHAT, HELLO), range(20)))
        assert [status for status, _ in found] == [200] * 20
        texts = {answer["choices"][0]["message"]["content"] for _, answer in found}
        assert texts == {str(number) for number in range(20)}
        assert (server.desk.turns.waiting, server.desk.turns.taken) == (0, False)

    def test_one_too_many_is_told_when_to_come_back(self, serving: Any) -> None:
        wait = Wait()
        server = serving([Script([*plain("a"), wait]), Script(plain("b"))], turns=Turns(limit=1))
        first = started(server)
        until(wait.reached.is_set, "the first is answered")
        second = started(server)
        until(lambda: server.desk.turns.waiting == 1, "the second waits")
        connection, reply = server.open(CHAT, HELLO)
        assert (reply.status, reply.getheader("retry-after")) == (503, "5")
        connection.close()
        wait.release.set()
        for one in (first, second):
            assert one.recv(65536).startswith(b"HTTP/1.1 200")
            one.close()

    def test_a_client_that_leaves_the_queue_is_never_answered(self, serving: Any) -> None:
        wait = Wait()
        server = serving([Script([*plain("a"), wait]), Script(plain("b"))])
        first = started(server)
        until(wait.reached.is_set, "the first is answered")
        second = started(server)
        until(lambda: server.desk.turns.waiting == 1, "the second waits")
        second.close()
        until(lambda: server.desk.turns.waiting == 0, "its place is free")
        wait.release.set()
        assert first.recv(65536).startswith(b"HTTP/1.1 200")
        first.close()
        assert len(server.engine.requests) == 1

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_client_that_leaves_its_answer_frees_the_engine(self, serving: Any, stream: bool) -> None:
        wait = Wait()
        server = serving([Script([*plain("a"), wait, *plain("late")]), Script(plain("b"))])
        gone = started(server, stream=stream)
        until(wait.reached.is_set, "the engine waits")
        gone.close()
        status, answer = server.ask(CHAT, HELLO)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "b")

    def test_the_time_limit_cuts_an_answer_and_says_so(self, serving: Any) -> None:
        server = serving([Script([*plain("half"), Wait()])], limits=Limits(timeout_s=0.2))
        status, answer = server.ask(CHAT, HELLO)
        assert status == 200
        assert (answer["choices"][0]["message"]["content"], answer["choices"][0]["finish_reason"]) == ("half", "length")
        assert answer["localspec"]["reason"] == "cancelled"

    def test_the_time_limit_in_the_queue_is_an_error(self, serving: Any) -> None:
        wait = Wait()
        server = serving([Script([*plain("a"), wait])], limits=Limits(timeout_s=0.3))
        with server.desk.turns.turn(server.desk.turns.enter()):
            status, answer = server.ask(CHAT, HELLO)
        assert (status, answer["error"]["code"]) == (504, "timeout")


class TestSlowReaders:
    def test_one_that_never_reads_loses_its_answer_and_holds_nobody_up(
        self, serving: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("flow", "sending"):
            monkeypatch.setattr(f"localspec.server.{module}.STALL_S", 0.3)
        monkeypatch.setattr("localspec.server.flow.BUFFER", 16)
        words = ["word " * 2000] * 3000
        server = serving([Script(plain(*words)), Script(plain("next"))])
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        body = json.dumps({**HELLO, "stream": True}).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        slow.sendall(head + body)
        until(lambda: server.engine.requests, "its answer is being made")
        status, answer = server.ask(CHAT, HELLO)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "next")
        assert 'localspec_answers_total{reason="cancelled"} 1' in server.ask("/metrics")[1], "nobody kept it in memory"
        slow.close()
        until(lambda: any("stopped reading" in line or " gone " in line for line in server.log), "it is in the log")

    def test_one_that_is_only_slow_gets_all_of_it(self, serving: Any) -> None:
        words = [f"{number} " * 200 for number in range(2000)]
        server = serving([Script(plain(*words))])
        connection, reply = server.open(CHAT, {**HELLO, "stream": True})
        text = b""
        while part := reply.read(65536):
            text += part
            time.sleep(0.001)
        connection.close()
        data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith(b"data: {")]
        got = "".join(one["choices"][0]["delta"].get("content") or "" for one in data)
        assert got == "".join(words)


class TestAnEngineThatDies:
    def test_it_is_loaded_again_once_and_the_request_is_told(self, serving: Any) -> None:
        dead = Script([*plain("a"), EngineDied("The engine ended.")])
        server = serving([dead, Script(plain("b"))], revive=True)
        connection, reply = server.open(CHAT, HELLO)
        assert (reply.status, reply.getheader("retry-after")) == (503, "5")
        connection.close()
        assert server.ask(CHAT, HELLO)[1]["choices"][0]["message"]["content"] == "b"

    def test_one_that_died_while_nobody_asked_is_loaded_again_too(self, serving: Any) -> None:
        """The engine's client says so when it is asked, before there is an answer."""
        server = serving([Script(plain("b"))], revive=True)
        asked = server.engine.generate
        dead = [True]

        def generate(request: Any) -> Any:
            if dead:
                raise EngineDied("The engine ended while it was waiting.")
            return asked(request)

        server.engine.generate = generate
        server.desk._revive = dead.clear
        assert server.ask(CHAT, HELLO)[0] == 503
        assert server.ask(CHAT, HELLO)[0] == 200

    def test_one_that_dies_again_stays_down_in_words(self, serving: Any) -> None:
        dead = Script([*plain("a"), EngineDied("The engine ended.")])
        server = serving([dead], revive=True)
        for _ in range(3):
            status, answer = server.ask(CHAT, HELLO)
            assert status == 503
            assert "The engine ended." in answer["error"]["message"]
        assert len(server.engine.requests) == 2
        assert server.ask("/health")[0] == 503

    def test_a_load_that_fails_is_the_reason(self, serving: Any) -> None:
        server = serving([Script([*plain("a"), EngineDied("The engine ended.")])], revive=True)

        def fail() -> None:
            raise EngineError("no memory left")

        server.desk._revive = fail
        assert server.ask(CHAT, HELLO)[0] == 503
        assert "no memory left" in server.ask(CHAT, HELLO)[1]["error"]["message"]

    def test_a_fault_of_the_program_tells_the_client_nothing_of_it(self, serving: Any) -> None:
        server = serving([Script([ZeroDivisionError("swordfish"), *plain("a")])])
        status, answer = server.ask(CHAT, HELLO)
        assert (status, answer["error"]["message"]) == (500, "internal error: ZeroDivisionError")
        assert server.ask("/health")[0] == 200


class TestTheEnd:
    def test_the_end_cancels_answers_and_tells_their_clients(self, serving: Any) -> None:
        waits = [Wait(), Wait()]
        server = serving([Script([*plain("half"), waits[0]]), Script([*plain("x"), waits[1]])])
        streaming, waiting = started(server, stream=True), None
        until(waits[0].reached.is_set, "the first is answered")
        waiting = started(server)
        until(lambda: server.desk.turns.waiting == 1, "the second waits")
        begun = time.monotonic()
        server.listener.stop()
        assert time.monotonic() - begun < 5
        assert b"The server is ending." in read(streaming)
        assert read(waiting).startswith(b"HTTP/1.1 503")
        with pytest.raises(ConnectionError):
            server.ask("/health")

    def test_a_server_that_cannot_start_says_so_to_its_starter_alone(
        self, serving: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a thread dies of would be printed over the app's screen."""

        async def fail(*_: Any, **__: Any) -> None:
            raise PermissionError("not here")

        monkeypatch.setattr("localspec.server.listen.Listener.startup", fail)
        with pytest.raises(OSError, match="not here"):
            serving()
        assert capfd.readouterr().err == ""

    def test_no_thread_is_left(self, serving: Any) -> None:
        server = serving()
        server.ask(CHAT, HELLO)
        server.listener.stop()
        until(lambda: not [t for t in threading.enumerate() if t.name in ("server", "answer")], "all threads ended")


def read(connection: socket.socket) -> bytes:
    got = b""
    while part := connection.recv(65536):
        got += part
    connection.close()
    return got


def test_memory_is_flat_over_500_requests(serving: Any) -> None:
    steps = [*plain("word ", "and "), *[Say(["more "] * 3, end=("bonus", "text ")) for _ in range(10)]]
    server = serving([Script(steps)])
    process = psutil.Process()

    def ask(count: int) -> None:
        for number in range(count):
            body = {"messages": [{"role": "user", "content": f"{number} " + "x" * 20_000}], "stream": number % 2 == 0}
            status, _ = server.ask(CHAT, body)
            assert status == 200
            server.engine.requests.clear()
            server.log.clear()

    ask(100)
    before = process.memory_info().rss
    ask(500)
    grown = process.memory_info().rss - before
    assert grown < 8 << 20, f"{grown / 1e6:.1f} MB for 500 requests of 20 kB"
    assert len(server.desk.flows) == 0
