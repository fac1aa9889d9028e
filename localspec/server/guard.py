"""Who may use the server, checked before anything of a request is read; one log line a request, without its text.

A web page may send requests to any address, this machine's too. So the Host header must name this server (else a
foreign name was made to point here), an Origin header must be one that was allowed, and no answer carries CORS headers
unless its page was allowed.
"""

import hmac
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localspec.engine.wire import one_line
from localspec.server import errors
from localspec.server.errors import ApiError

PRIVATE = "/localspec/"
"""Paths for this program's own commands, which have the token from the runtime file."""

OPEN = "/health"
"""Tells nothing but that a server is here."""

HELLO = "/localspec/info"
"""How commands look whether an engine is there: not worth a line in the log."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Policy:
    """`token` None: whoever is on this machine. `private_token` opens `PRIVATE` and nothing else. `hosts` are the names
    of this server; with `any_address` it also goes by every numeric address it has. `cors` are origins of pages."""

    private_token: str
    token: str | None = None
    hosts: frozenset[str] = frozenset(LOOPBACK)
    any_address: bool = False
    cors: frozenset[str] = field(default_factory=frozenset)


def is_loopback(address: str) -> bool:
    """Whether an address or `localhost` is this machine and no other can reach it."""
    if address == "localhost":
        return True
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    # A socket for both families writes IPv4 addresses as IPv6 ones.
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


class Guard:
    """The application behind the policy. `log` gets one line a request; `count` its route and status."""

    def __init__(
        self, app: ASGIApp, policy: Policy, log: Callable[[str], object], count: Callable[[str, int], object]
    ) -> None:
        self._app, self._policy, self.log, self._count = app, policy, log, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        shared = origin is not None and origin in self._policy.cors
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if shared:
                    _allow(MutableHeaders(raw=message["headers"]), str(origin))
            await send(message)

        try:
            if (refusal := self._refusal(scope, headers)) is not None:
                await refusal.response()(scope, receive, watched)
            elif scope["method"] == "OPTIONS" and shared:
                await Response(status_code=204)(scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        except Exception as error:
            if not status:
                await errors.of(error).response()(scope, receive, watched)
            scope["localspec.note"] = f"{type(error).__name__}: {one_line(error)}"
        finally:
            route = scope.get("localspec.route", "other")
            self._count(route, status)
            note = scope.get("localspec.note", "")
            seconds = time.perf_counter() - begun
            if route != HELLO or status != 200:
                self.log(f"{scope['method']} {_shown(scope)} {status or 'gone'} {seconds:.2f} s{note and ', '}{note}")

    def _refusal(self, scope: Scope, headers: Headers) -> ApiError | None:
        policy, path = self._policy, scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_here(hosts[0]):
            return ApiError(403, "The Host header names another server.", code="foreign_host")
        origin = headers.get("origin")
        if origin is not None and origin not in policy.cors:
            return ApiError(403, "Pages of this origin are not allowed (see --cors).", code="foreign_origin")
        if path.startswith(PRIVATE):
            client = scope.get("client")
            if origin is not None or client is None or not is_loopback(client[0]):
                return ApiError(403, "Only commands on this machine use this.", code="private")
            wanted: str | None = policy.private_token
        elif path == OPEN or (scope["method"] == "OPTIONS" and origin is not None):
            wanted = None
        else:
            wanted = policy.token
        if wanted is not None and not hmac.compare_digest(_given(headers), wanted.encode()):
            return ApiError(401, "The bearer token is missing or wrong.", code="invalid_api_key")
        return None

    def _is_here(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._policy.hosts:
            return True
        if not self._policy.any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _given(headers: Headers) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    text = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return text.encode("latin-1", "replace")


def _allow(headers: MutableHeaders, origin: str) -> None:
    headers["access-control-allow-origin"] = origin
    headers["access-control-allow-methods"] = "GET, POST, OPTIONS"
    headers["access-control-allow-headers"] = "authorization, content-type, x-api-key"
    headers.add_vary_header("Origin")


def _shown(scope: Scope) -> str:
    """The path as it was sent, without the query, cut: a log line holds nothing that was asked."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "replace")
    text = raw.split(b"?")[0].decode("ascii", "backslashreplace")
    return "".join(letter if letter.isprintable() else "?" for letter in text[:120])
