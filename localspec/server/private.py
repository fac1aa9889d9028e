"""The endpoints for this program's own commands: the engine itself, its values as JSON (`codec`), one event a line.

`remote` is the other end. An answer has a number that its client chose, so that another connection can cancel it; lines
that are empty mean that nothing has happened yet.
"""

import json
from collections.abc import Iterable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as Http
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localspec.engine import wire
from localspec.engine.errors import EngineError
from localspec.engine.events import Event, Finished
from localspec.engine.requests import Request, Segment
from localspec.server import errors, sending
from localspec.server.codec import CodecError, from_json, to_json
from localspec.server.desk import Desk
from localspec.server.flow import Flow
from localspec.server.reading import read_json

MAX_BODY = 64 << 20
"""A command may send whole files; it has the token."""


def routes(desk: Desk) -> list[Route]:
    """All endpoints below `/localspec/`."""
    flows: dict[str, Flow] = {}

    async def info(_request: Http) -> Response:
        return JSONResponse({"info": to_json(desk.loaded.info), "answering": desk.turns.taken, "down": desk.down})

    async def count(request: Http) -> Response:
        body = await read_json(request, MAX_BODY)
        prompt = _value(tuple[Segment, ...], body.get("prompt"))
        try:
            return JSONResponse({"tokens": await run_in_threadpool(desk.engine.count, prompt)})
        except EngineError as error:
            return JSONResponse(_failed(error), 422)

    async def cancel(request: Http) -> Response:
        body = await read_json(request, MAX_BODY)
        flow = flows.get(str(body.get("id")))
        if flow is not None:
            flow.cancel()
        return JSONResponse({"found": flow is not None})

    async def generate(request: Http) -> Response:
        body = await read_json(request, MAX_BODY)
        number, asked = str(body.get("id")), _value(Request, body.get("request"))
        flow = Flow(desk, asked)
        flows[number] = flow

        def write(batch: Iterable[Event]) -> Iterable[bytes]:
            for event in batch:
                if isinstance(event, Finished):
                    sending.note(request.scope, f"{event.stats.tokens} tokens")
                yield _line({"event": type(event).__name__, **to_json(event)})

        def fail(error: errors.ApiError) -> bytes:
            cause = error.__cause__ or EngineError(error.message)
            return _line({"event": "Failed", **_failed(cause)})

        flow.on_close = lambda: flows.pop(number, None)
        batches = flow.batches(sending.PATIENCE_S)
        return sending.Lines(flow, batches, [], write, fail, media_type="application/x-ndjson", idle=b"\n")

    return [
        Route("/localspec/info", info),
        Route("/localspec/count", count, methods=["POST"]),
        Route("/localspec/cancel", cancel, methods=["POST"]),
        Route("/localspec/generate", generate, methods=["POST"]),
    ]


def _value(kind: Any, data: Any) -> Any:
    try:
        return from_json(kind, data)
    except CodecError as error:
        raise errors.bad(str(error)) from None


def _failed(error: BaseException) -> dict[str, str]:
    failed = wire.pack_error(0, error)
    return {"kind": failed.kind, "message": failed.message}


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data).encode("ascii") + b"\n"
