"""Who may use the server: tokens, foreign hosts and pages, sizes, nonsense; and what the log does not say."""

import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from localspec.server.asking import Limits
from localspec.server.guard import is_loopback
from tests.server.serving import DEADLINE_S, Server, until

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "swordfish"}]}
PATHS = [CHAT, "/v1/completions", "/completion", "/infill", "/v1/models", "/metrics", "/props"]


def raw(server: Server, data: bytes) -> bytes:
    """The head of what comes back for these bytes; nothing when the server just closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as connection:
        got = b""
        # A server that closes before it has read all resets the connection.
        with suppress(ConnectionError):
            connection.sendall(data)
            while b"\r\n\r\n" not in got and (part := connection.recv(65536)):
                got += part
        return got


class TestTokens:
    @pytest.mark.parametrize("path", PATHS)
    def test_without_the_token_nothing_is_answered(self, serving: Any, path: str) -> None:
        server = serving(token="right")
        body = None if path in ("/v1/models", "/metrics", "/props") else HELLO
        for headers in ({"authorization": ""}, {"authorization": "Bearer wrong"}, {"authorization": "Basic right"},
                        {"authorization": "Bearer right2"}, {"authorization": "Bearer r\xe9"}):  # fmt: skip
            status, answer = server.ask(path, body, headers=headers)
            assert status == 401
            assert answer["error"]["code"] == "invalid_api_key"
        assert server.engine.requests == []

    @pytest.mark.parametrize(
        "headers",
        [
            {"authorization": "Bearer right"},
            {"authorization": "bearer  right"},
            {"authorization": "", "x-api-key": "right"},
        ],
    )
    def test_with_it_all_is(self, serving: Any, headers: dict[str, str]) -> None:
        assert serving(token="right").ask(CHAT, HELLO, headers=headers)[0] == 200

    def test_health_needs_none(self, serving: Any) -> None:
        assert serving(token="right").ask("/health", headers={"authorization": ""})[0] == 200

    def test_the_private_endpoints_want_their_own(self, serving: Any) -> None:
        server = serving(token="right")
        for path, body in (("/localspec/info", None), ("/localspec/generate", {"id": "1"}), ("/localspec/count", {})):
            assert server.ask(path, body)[0] == 401
            assert server.ask(path, body, headers={"authorization": "Bearer private"})[0] in (200, 400)
        assert server.ask("/v1/models", headers={"authorization": "Bearer private"})[0] == 401

    def test_and_no_page(self, serving: Any) -> None:
        server = serving(policy={"cors": frozenset({"http://page"})})
        headers = {"authorization": "Bearer private", "origin": "http://page"}
        assert server.ask("/localspec/info", headers=headers)[0] == 403


class TestHosts:
    @pytest.mark.parametrize(
        "host",
        ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8012", "192.168.0.1", "", "[",
         "127.0.0.1@evil.example", "x,127.0.0.1"],
    )  # fmt: skip
    def test_a_foreign_name_is_refused(self, serving: Any, host: str) -> None:
        """A page whose name was made to point at this machine has its own name in the header."""
        server = serving()
        status, answer = server.ask(CHAT, HELLO, headers={"host": host})
        assert (status, answer["error"]["code"]) == (403, "foreign_host")
        assert server.ask("/health", headers={"host": host})[0] == 403
        assert server.engine.requests == []

    @pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8012", "localhost:1", "LOCALHOST", "[::1]:8012"])
    def test_its_own_names_are_not(self, serving: Any, host: str) -> None:
        assert serving().ask("/v1/models", headers={"host": host})[0] == 200

    def test_no_host_and_two_hosts_are_refused(self, serving: Any) -> None:
        server = serving()
        assert b" 40" in raw(server, b"GET /v1/models HTTP/1.0\r\n\r\n").split(b"\r\n")[0]
        two = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
        assert b" 40" in raw(server, two).split(b"\r\n")[0]

    def test_everywhere_it_goes_by_its_addresses(self, serving: Any) -> None:
        server = serving(policy={"any_address": True})
        assert server.ask("/v1/models", headers={"host": "192.168.0.1:8012"})[0] == 200
        assert server.ask("/v1/models", headers={"host": "evil.example"})[0] == 403


class TestPages:
    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "http://127.0.0.1"])
    def test_no_page_may_ask(self, serving: Any, origin: str) -> None:
        server = serving()
        connection, reply = server.open(CHAT, HELLO, headers={"origin": origin})
        assert reply.status == 403
        assert not [name for name, _ in reply.getheaders() if name.lower().startswith("access-control")]
        connection.close()
        preflight = {"origin": origin, "access-control-request-method": "POST"}
        assert server.ask(CHAT, method="OPTIONS", headers=preflight)[0] == 403
        assert server.engine.requests == []

    def test_without_a_page_there_are_no_headers_for_pages(self, serving: Any) -> None:
        connection, reply = serving().open(CHAT, HELLO)
        assert not [name for name, _ in reply.getheaders() if name.lower().startswith("access-control")]
        connection.close()

    def test_a_page_that_was_allowed_may(self, serving: Any) -> None:
        server = serving(token="right", policy={"cors": frozenset({"http://page:1"})})
        connection, reply = server.open(
            CHAT,
            method="OPTIONS",
            headers={"origin": "http://page:1", "authorization": "", "access-control-request-method": "POST"},
        )
        assert reply.status == 204
        assert "authorization" in (reply.getheader("access-control-allow-headers") or "")
        connection.close()
        connection, reply = server.open(CHAT, HELLO, headers={"origin": "http://page:1"})
        assert (reply.status, reply.getheader("access-control-allow-origin")) == (200, "http://page:1")
        connection.close()
        assert server.ask(CHAT, HELLO, headers={"origin": "http://page:1", "authorization": ""})[0] == 401
        assert server.ask(CHAT, HELLO, headers={"origin": "http://page:2"})[0] == 403


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"[]", b"7", b"null", b'"x"', b'{"messages": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000,
         b'{"seed": ' + b"9" * 5000 + b"}", b"{}{}"],
        ids=["empty", "torn", "list", "number", "null", "text", "nan", "bytes", "deep-list", "deep", "digits", "two"],
    )  # fmt: skip
    def test_what_is_no_json_object_is_refused(self, serving: Any, body: bytes) -> None:
        server = serving()
        for path in (CHAT, "/completion", "/infill"):
            status, answer = server.ask(path, body)
            assert status == 400
            assert answer["error"]["type"] == "invalid_request_error"
        assert server.ask(CHAT, HELLO)[0] == 200

    @pytest.mark.parametrize("chunked", [False, True])
    def test_ten_megabytes_are_refused_whatever_the_headers_say(self, serving: Any, chunked: bool) -> None:
        server = serving(limits=Limits(max_body=4 << 20))
        body = json.dumps({"messages": [{"role": "user", "content": "x" * (10 << 20)}]}).encode()
        connection = server.connect()
        if chunked:
            parts = (body[at : at + 65536] for at in range(0, len(body), 65536))
            connection.request("POST", CHAT, parts, {"content-type": "application/json"}, encode_chunked=True)
        else:
            connection.request("POST", CHAT, body, {"content-type": "application/json"})
        reply = connection.getresponse()
        assert reply.status == 413
        assert json.loads(reply.read())["error"]["code"] == "body_too_large"
        connection.close()
        assert server.engine.requests == []

    def test_a_body_just_small_enough_is_read(self, serving: Any) -> None:
        body = json.dumps(HELLO).encode()
        server = serving(limits=Limits(max_body=len(body)))
        assert server.ask(CHAT, body)[0] == 200
        assert server.ask(CHAT, body + b" ")[0] == 413

    def test_a_body_that_does_not_come_is_not_waited_for(self, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("localspec.server.reading.BODY_S", 0.1)
        server = serving()
        head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{" % CHAT.encode()
        assert raw(server, head).startswith(b"HTTP/1.1 408")

    def test_a_connection_that_says_nothing_is_ended(self, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("localspec.server.listen.SILENCE_S", 0.1)
        server = serving()
        for beginning in (b"", b"GET /heal"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as silent:
                silent.sendall(beginning)
                assert silent.recv(100) == b""
        assert server.ask(CHAT, HELLO)[0] == 200

    def test_garbage_instead_of_http_costs_nothing(self, serving: Any) -> None:
        server = serving()
        for data in (b"\x16\x03\x01\x02\x00", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"):
            raw(server, data)
        assert server.ask(CHAT, HELLO)[0] == 200

    @pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "GET"])
    def test_other_methods_are_refused(self, serving: Any, method: str) -> None:
        status, answer = serving().ask(CHAT, method=method)
        assert status == 405
        assert "error" in answer


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["/../../etc/passwd", "/v1/models/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/slots",
         "/lora-adapters", "/v1/models//etc/passwd", "/static/x", "/%00"],
    )  # fmt: skip
    def test_no_path_leads_to_a_file(self, serving: Any, path: str) -> None:
        status, answer = serving().ask(path)
        assert status == 404
        assert "root:" not in json.dumps(answer)

    @pytest.mark.parametrize(
        "field", ["filename", "slot_save_path", "model", "lora_path", "grammar_file", "cache_file"]
    )
    def test_no_field_names_a_file(self, serving: Any, field: str, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("opensesame")
        server = serving()
        for path in (CHAT, "/completion"):
            status, answer = server.ask(path, {**HELLO, "prompt": "x", field: f"../../../../{secret}"})
            assert status == 200
            assert "opensesame" not in json.dumps(answer)
        assert "opensesame" not in repr(server.engine.requests)
        assert list(tmp_path.iterdir()) == [secret]


class TestTheLog:
    def test_one_line_a_request_without_a_word_of_it(self, serving: Any) -> None:
        server = serving(token="s3cret-token")
        server.ask(CHAT, HELLO)
        server.ask(f"{CHAT}?q=swordfish", HELLO, headers={"authorization": "Bearer hunter2"})
        server.ask("/nowhere%0a%1b[2J")
        until(lambda: len(server.log) == 3, "three lines")
        assert server.log[0].startswith(f"POST {CHAT} 200 ")
        assert "2 tokens" in server.log[0]
        assert server.log[1].startswith(f"POST {CHAT} 401 ")
        assert server.log[2].startswith("GET /nowhere")
        joined = "\n".join(server.log)
        assert joined.isprintable() or joined.replace("\n", "").isprintable()
        for word in ("swordfish", "s3cret-token", "hunter2", "Hello"):
            assert word not in joined


@pytest.mark.parametrize(
    ("address", "is_it"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("::ffff:127.0.0.1", True), ("::ffff:192.168.0.1", False),
     ("192.168.0.1", False), ("127.0.0.1.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback(address: str, is_it: bool) -> None:
    assert is_loopback(address) is is_it
