"""Servers for tests: a scripted engine behind real sockets, and raw requests to it."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from localspec.chat.settings import Settings
from localspec.engine.requests import EngineConfig, EngineInfo
from localspec.server import embedded
from localspec.server.app import build
from localspec.server.asking import Limits
from localspec.server.desk import Desk, Loaded
from localspec.server.guard import Policy
from localspec.server.listen import Listener, bind
from localspec.server.turns import Turns
from tests.fake_engine import INFO, FakeEngine, Script, plain

DEADLINE_S = 20.0


def until(fact: Callable[[], Any], what: str) -> Any:
    """Waits for a fact."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := fact()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.005)
    return found


def engine_of(config: EngineConfig, scripts: Sequence[Script], info: EngineInfo = INFO) -> FakeEngine:
    engine = FakeEngine(config, scripts=scripts, info=info)
    engine.start()
    return engine


def loaded_of(engine: FakeEngine, settings: Settings | None = None) -> Loaded:
    return Loaded(engine.config, engine.start(), "tiny", "auto", settings or Settings())


@dataclass
class Server:
    """A running server; `ask` sends one request and reads the whole answer."""

    engine: FakeEngine
    desk: Desk
    listener: Listener
    log: list[str]
    token: str | None
    private: str
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.listener.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def open(
        self, path: str, body: Any = None, *, method: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self.connect()
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        if self.token is not None and "authorization" not in sent:
            sent["authorization"] = f"Bearer {self.token}"
        connection.request(method or ("GET" if body is None else "POST"), path, raw, sent)
        return connection, connection.getresponse()

    def ask(self, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        connection, reply = self.open(path, body, **more)
        text = reply.read()
        connection.close()
        kind = reply.getheader("content-type", "")
        return reply.status, json.loads(text) if kind.startswith("application/json") else text.decode()

    def stream(self, path: str, body: Any) -> list[Any]:
        """The data of every server-sent event, parsed where it is JSON."""
        status, text = self.ask(path, {**body, "stream": True})
        assert status == 200, text
        data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        return [one if one == "[DONE]" else json.loads(one) for one in data]


Serving = Callable[..., Server]


def serve(
    scripts: Sequence[Script] = (Script(plain("Hello", ".")),),
    *,
    info: EngineInfo = INFO,
    token: str | None = None,
    limits: Limits | None = None,
    settings: Settings | None = None,
    turns: Turns | None = None,
    revive: bool = False,
    policy: dict[str, Any] | None = None,
    engine: Any = None,
) -> Server:
    engine = engine or engine_of(EngineConfig("tiny.gguf"), scripts, info)
    desk = Desk(engine, loaded_of(engine, settings), turns=turns, revive=engine.restart if revive else None)
    log: list[str] = []
    app = build(desk, Policy("private", token, **(policy or {})), log.append, limits=limits)
    listener = Listener(app, bind("127.0.0.1", 0), desk)
    listener.serve_aside()
    return Server(engine, desk, listener, log, token, "private")


def embed(
    target: Path, scripts: Sequence[Script], turns: Turns | None = None, **more: Any
) -> tuple[FakeEngine, embedded.Embedded]:
    """A scripted engine that commands find, as the app's."""
    engine = engine_of(EngineConfig(str(target)), scripts, replace(INFO, target=target.name))
    return engine, embedded.start(engine, loaded_of(engine), turns or Turns(), **more)
