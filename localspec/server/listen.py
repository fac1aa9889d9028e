"""The sockets, and the loop that serves them: in this thread until a signal comes, or in one of its own."""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from localspec.server.desk import Desk
from localspec.server.flow import STALL_S
from localspec.server.guard import Guard

LAST_WORDS_S = 0.3
"""For cancelled answers to tell their clients so before the connections are cut: Ctrl+C ends it all in a second."""

CONNECTIONS = 256

SILENCE_S = 30.0
"""How long a connection may be open without a request: one that says nothing takes the place of one that would."""

ENDS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""Signals by which a person, a service manager or a closing terminal ends a server."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound but takes no connections yet; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # A client that never reads again is dropped by the kernel, with what was to be sent to it.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STALL_S * 1000))
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


class _Connection(H11Protocol):
    """Ends a connection on which no request comes; the base class does so only after a first answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base class
        super().connection_made(transport)
        self._look_later(None)

    def _look_later(self, seen: object) -> None:
        self._next_look = self.loop.call_later(SILENCE_S, self._look, seen)

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)

    def _look(self, seen: object) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is seen:
            self.transport.close()
        else:
            self._look_later(self.cycle)


class Listener(uvicorn.Server):
    """Serves `app` on a socket of `bind`."""

    def __init__(self, app: Guard, listener: socket.socket, desk: Desk) -> None:
        # Its words would stand between ours, or on the app's screen; faults are in the guard's lines.
        logger = logging.getLogger("uvicorn")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                http=_Connection,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS,
                timeout_keep_alive=30,
            )
        )
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        self._desk = desk
        self._up = threading.Event()
        self._thread: threading.Thread | None = None
        self._fault: Exception | None = None
        self._log = app.log

    def serve_here(self, on_up: Callable[[], object]) -> None:
        """Until one of `ENDS` comes, which end it in order. In the main thread."""
        before = {number: signal.signal(number, self.handle_exit) for number in ENDS}
        try:
            asyncio.run(self._serve_and_tell(on_up))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def serve_aside(self) -> None:
        """In a thread of its own, until `stop`; returns when it takes requests. Raises OSError."""
        self._thread = threading.Thread(target=self._in_thread, name="server", daemon=True)
        self._thread.start()
        self._up.wait()
        if self._fault is not None:
            raise OSError(f"the server cannot start: {self._fault}") from self._fault

    def stop(self) -> None:
        """Ends what `serve_aside` began."""
        self._desk.close()
        self.should_exit = True
        if self._thread is not None:
            self._thread.join(2 * LAST_WORDS_S)

    def _in_thread(self) -> None:
        try:
            asyncio.run(self._serve_and_tell(lambda: None))
        except Exception as error:
            self._fault = error
            self._log(f"the server ended: {type(error).__name__}: {error}")
        finally:
            self._up.set()

    async def _serve_and_tell(self, on_up: Callable[[], object]) -> None:
        # The loop's own words would go to stderr, which is the app's screen.
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: self._log(f"fault: {context.get('exception') or context['message']!r}")
        )
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[self._listener])
        self._up.set()
        on_up()
        await self.main_loop()
        await self.shutdown(sockets=[self._listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._desk.close()
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        deadline = asyncio.get_running_loop().time() + LAST_WORDS_S
        while self.server_state.tasks and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        for task in list(self.server_state.tasks):
            task.cancel()
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for one in sockets or []:
            one.close()
