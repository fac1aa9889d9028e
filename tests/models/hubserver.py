"""A local HTTP server that behaves like the model hub: redirects to a second host, ETags, ranges, an API. It misbehaves
on request. Real sockets."""

import contextlib
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "a" * 40
CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Key and certificate for localhost, made for these tests and good for nothing else."""


@dataclass
class Fault:
    """What goes wrong with the next answer of the file's bytes (`where` "cdn") or of the question (`where` "hub").

    `cut`: the line breaks after this share of what was to be sent. `stall`: nothing more after this share, until the
    server closes. `status`: answers so. `whole`: ignores the range. `claim`: says it sends so many bytes more than it
    does. `shift`: answers a range other than asked. `swap`: sends this byte, over and over, in place of the file's.
    """

    where: str = "cdn"
    cut: float | None = None
    stall: float | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    whole: bool = False
    claim: int = 0
    shift: bool = False
    swap: bytes | None = None


class HubServer(ThreadingHTTPServer):
    """`repos` maps OWNER/REPO to its files. `faults` are used up one per request of their kind; `always` stays."""

    daemon_threads = True

    def __init__(self, *, tls: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "https" if tls else "http"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.repos: dict[str, dict[str, bytes]] = {}
        self.licences: dict[str, str] = {}
        self.gated: set[str] = set()
        self.faults: list[Fault] = []
        self.always: list[Fault] = []
        self.sent = 0
        self.ranges: list[str | None] = []
        self.paths: list[str] = []
        self.tokens: list[tuple[str, str | None]] = []
        self.bytes_per_s: float | None = None
        self.closing = threading.Event()
        self.asked = threading.Event()
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        """The hub. Its files lie on another host name, as the real ones do."""
        return f"{self.scheme}://localhost:{self.server_address[1]}"

    @property
    def cdn(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""

    def fault(self, where: str) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.where == where:
                    self.faults.remove(fault)
                    return fault
        return next((fault for fault in self.always if fault.where == where), None)

    def count(self, sent: int) -> None:
        with self._lock:
            self.sent += sent


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing to the terminal."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(self.path.split("?")[0])
        self.server.paths.append(f"{self.command} {path}")
        self.server.asked.set()
        if path.startswith("/cdn/"):
            self._file(path.removeprefix("/cdn/"), body)
            return
        self.server.tokens.append((path, self.headers.get("Authorization")))
        fault = self.server.fault("hub")
        if fault is not None and fault.stall is not None:
            self.server.closing.wait()
            return
        if fault is not None and fault.status is not None:
            self._empty(fault.status, fault.headers)
        elif path.startswith("/api/models/"):
            self._describe(path.removeprefix("/api/models/").split("/revision/")[0])
        elif "/resolve/" in path:
            repo, _, rest = path.strip("/").partition("/resolve/")
            self._redirect(repo, rest.partition("/")[2])
        else:
            self._empty(404, {})

    def _empty(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _describe(self, repo: str) -> None:
        files = self.server.repos.get(repo)
        if files is None:
            self._empty(401, {"X-Error-Code": "RepoNotFound"})
            return
        siblings = [
            {"rfilename": name, "size": len(data), "blobId": "0" * 40,
             "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}}
            for name, data in files.items()
        ]  # fmt: skip
        card = {"license": self.server.licences[repo]} if repo in self.server.licences else {}
        answer = {"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings, "cardData": card, "tags": [],
                  "private": False, "downloads": 0, "likes": 0}  # fmt: skip
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _redirect(self, repo: str, name: str) -> None:
        files = self.server.repos.get(repo)
        if files is None:
            self._empty(401, {"X-Error-Code": "RepoNotFound"})
        elif repo in self.server.gated and self.headers.get("Authorization") is None:
            self._empty(401, {"X-Error-Code": "GatedRepo"})
        elif repo in self.server.gated:
            self._empty(403, {"X-Error-Code": "GatedRepo"})
        elif name not in files:
            self._empty(404, {"X-Error-Code": "EntryNotFound"})
        else:
            digest = hashlib.sha256(files[name]).hexdigest()
            self._empty(
                302,
                {"Location": f"{self.server.cdn}/cdn/{repo}/{name}", "X-Repo-Commit": COMMIT,
                 "X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(files[name]))},
            )  # fmt: skip

    def _file(self, where: str, body: bool) -> None:
        owner, repo, name = where.split("/", 2)
        data = self.server.repos[f"{owner}/{repo}"][name]
        asked = self.headers.get("Range")
        if body:
            self.server.ranges.append(asked)
            self.server.tokens.append((self.path, self.headers.get("Authorization")))
        fault = self.server.fault("cdn") or Fault()
        if fault.status is not None:
            self._empty(fault.status, fault.headers)
            return
        start = 0
        if asked and not fault.whole:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(data):
                self._empty(416, {"Content-Range": f"bytes */{len(data)}"})
                return
            start += 1 if fault.shift else 0
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        rest = data[start:] if fault.swap is None else fault.swap * (len(data) - start)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(rest) + fault.claim))
        self.end_headers()
        if body:
            self._send(rest, fault)

    def _send(self, rest: bytes, fault: Fault) -> None:
        share = next((one for one in (fault.cut, fault.stall) if one is not None), None)
        limit = len(rest) if share is None else int(len(rest) * share)
        piece = 1 << 16
        for at in range(0, limit, piece):
            chunk = rest[at : min(at + piece, limit)]
            try:
                self.wfile.write(chunk)
                self.wfile.flush()
            except OSError:
                break
            self.server.count(len(chunk))
            if self.server.bytes_per_s:
                time.sleep(len(chunk) / self.server.bytes_per_s)
        if fault.stall is not None:
            self.server.closing.wait()
        if share is not None or fault.claim:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(2)


@contextlib.contextmanager
def serving(*, tls: bool = False) -> Iterator[HubServer]:
    """A running server; it ends with its threads. With `tls` its certificate is one that nobody trusts by default."""
    server = HubServer(tls=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
