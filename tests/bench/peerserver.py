"""A stand-in for llama-server: the same addresses, answers as a test scripts them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def letters(text: str) -> list[int]:
    """A tokenizer: one token a character."""
    return [ord(letter) for letter in text]


@dataclass
class PeerServer:
    """`speed` gives tokens/s by request number; `ends` how many tokens the answer has before its end token (None: as
    many as were asked for). `requests` keeps the bodies of `/completion`. While `held` is clear nothing is answered.
    """

    speed: Callable[[int], float] = lambda number: 10.0
    ends: int | None = None
    drafted: tuple[int, int] | None = None
    model_path: str = "/models/target.gguf"
    slots: int = 1
    context: int = 8192
    tokenize: Callable[[str], list[int]] = letters
    fails_from: int | None = None
    loading: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def __post_init__(self) -> None:
        self.held.set()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.loading:
            return 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
        match path:
            case "/health":
                return 200, {"status": "ok"}
            case "/props":
                settings = {"n_ctx": self.context}
                return 200, {"model_path": self.model_path, "total_slots": self.slots,
                             "default_generation_settings": settings}  # fmt: skip
            case "/tokenize":
                return 200, {"tokens": self.tokenize(body["content"])}
            case "/completion":
                return self._complete(body)
        return 404, {"error": {"message": "File Not Found"}}

    def _complete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        number = len(self.requests)
        self.requests.append(body)
        self.asked.set()
        self.held.wait(30)
        if self.fails_from is not None and number >= self.fails_from:
            return 500, {"error": {"message": "Compute error."}}
        ended = self.ends is not None and self.ends < body["n_predict"]
        count = self.ends + 1 if self.ends is not None and ended else body["n_predict"]
        timings: dict[str, Any] = {
            "prompt_n": len(body["prompt"]), "prompt_ms": 500.0, "predicted_n": count,
            "predicted_ms": 1000 * (count - 1 - ended) / self.speed(number), "predicted_per_second": 99.0,
        }  # fmt: skip
        if self.drafted:
            timings |= {"draft_n": self.drafted[0], "draft_n_accepted": self.drafted[1]}
        tokens = list(range(1, count + 1))
        return 200, {"content": "x", "tokens": tokens, "stop_type": "eos" if ended else "limit", "timings": timings}


@contextmanager
def serving(server: PeerServer, port: int = 0) -> Iterator[PeerServer]:
    """The server on a free port (or `port`), with its `url` set."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, body: dict[str, Any]) -> None:
            status, found = server.answer(self.path, body)
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing on the test's stderr."""

    class Http(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that went away is no news."""

    with Http(("127.0.0.1", port), Handler) as http:
        http.daemon_threads = True
        http.block_on_close = False
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        try:
            yield server
        finally:
            server.held.set()
            http.shutdown()
