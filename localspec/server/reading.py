"""Reading a request's body: bounded in size and time whatever its headers claim, and JSON or refused."""

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from localspec.server.errors import ApiError, bad

BODY_S = 30.0
"""A body takes milliseconds on this machine; who sends more slowly holds a connection for nothing."""

DRAINED = 64 << 20
"""Bytes of a body that is too large which are still read and dropped, so that the client gets to read why."""


async def read_json(request: Request, limit: int) -> dict[str, Any]:
    """The object in the body, of at most `limit` bytes. Raises `ApiError`."""
    try:
        async with asyncio.timeout(BODY_S):
            body = await _body(request, limit)
    except TimeoutError:
        raise ApiError(408, f"The body did not come within {BODY_S:.0f} s.") from None
    except ClientDisconnect:
        raise bad("The client left in the middle of its request.") from None
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise bad("The body is not UTF-8.") from None
    except RecursionError:
        raise bad("The body is nested too deeply.") from None
    except ValueError as error:
        raise bad(f"The body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise bad("The body must be a JSON object.")
    return data


async def _body(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        else:
            parts.clear()
            if size > limit + DRAINED:
                break
    if size > limit:
        raise ApiError(413, f"The body is larger than {limit} bytes (see --max-body).", code="body_too_large")
    return b"".join(parts)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
