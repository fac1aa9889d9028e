"""Answers to their clients: as a stream of lines, or whole; either ends when the client leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.requests import Request as Http
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from localspec.engine.events import Event, Finished
from localspec.server import errors
from localspec.server.flow import STALL_S, Flow

PATIENCE_S = 5.0
"""Silence after which a stream gets a line that means nothing, so that no proxy or client takes it for dead."""


class ClientGone(Exception):
    """The client closed its connection."""


@asynccontextmanager
async def watching(receive: Receive, flow: Flow) -> AsyncIterator[None]:
    """Closes the answer's flow when the client leaves. The request's body must have been read."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        flow.close()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


async def opened(request: Http, flow: Flow) -> tuple[list[Event], AsyncIterator[list[Event]]]:
    """The first events, and an iterator for the others: what is refused is refused before any of it is sent.

    Raises the engine's error, and `ClientGone`.
    """
    batches = flow.batches(PATIENCE_S)
    try:
        async with watching(request.receive, flow):
            async for batch in batches:
                if batch:
                    return batch, batches
    except BaseException:
        flow.close()
        raise
    raise ClientGone


async def whole(request: Http, flow: Flow, take: Callable[[list[Event]], object]) -> Finished:
    """Gives every event to `take` and returns the last one. Raises the engine's error, and `ClientGone`."""
    last: Finished | None = None
    try:
        async with watching(request.receive, flow):
            async for batch in flow.batches(PATIENCE_S):
                take(batch)
                last = next((event for event in batch if isinstance(event, Finished)), last)
    finally:
        flow.close()
    if last is None:
        raise ClientGone
    return last


class Lines(Response):
    """A stream of byte lines made of an answer's events.

    `begin` has the events that came already, `write` makes lines of a batch, `fail` of an error in the middle; `idle`
    is sent when nothing happens.
    """

    def __init__(
        self,
        flow: Flow,
        batches: AsyncIterator[list[Event]],
        begin: list[Event],
        write: Callable[[list[Event]], Iterable[bytes]],
        fail: Callable[[errors.ApiError], bytes],
        *,
        media_type: str,
        idle: bytes,
    ) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self._flow, self._batches, self._begin = flow, batches, begin
        self._write, self._fail, self._idle = write, fail, idle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            async with watching(receive, self._flow):
                await send(start)
                try:
                    await self._body(send)
                except errors.ApiError as error:
                    await _sent(send, self._fail(error))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            # The client does not read: what would be said to it would not be read either.
            note(scope, "the client stopped reading")
        finally:
            self._flow.close()

    async def _body(self, send: Send) -> None:
        try:
            if lines := b"".join(self._write(self._begin)):
                await _sent(send, lines)
            async for batch in self._batches:
                if lines := b"".join(self._write(batch)) if batch else self._idle:
                    await _sent(send, lines)
        except TimeoutError:
            raise
        except Exception as error:
            raise errors.of(error) from error


async def _sent(send: Send, body: bytes) -> None:
    async with asyncio.timeout(STALL_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


def note(scope: Any, text: str) -> None:
    """What the log line of this request says beside its status."""
    scope["localspec.note"] = text
