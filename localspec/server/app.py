"""The application: which endpoint answers which path, behind the guard."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from localspec.chat.errors import TemplateError
from localspec.engine.errors import EngineError
from localspec.server import errors, private
from localspec.server.asking import Limits
from localspec.server.desk import Desk
from localspec.server.flow import Stalled
from localspec.server.guard import Guard, Policy
from localspec.server.sending import ClientGone
from localspec.server.turns import Full


def build(
    desk: Desk,
    policy: Policy,
    log: Callable[[str], object],
    *,
    limits: Limits | None = None,
    public: bool = True,
) -> Guard:
    """All endpoints; without `public` only those that this program's own commands use."""
    found: list[BaseRoute] = [Route("/health", _health(desk)), *private.routes(desk)]
    if public:
        from localspec.server import llama_api, openai_api

        limits = limits or Limits()
        found += [Route("/metrics", _metrics(desk)), *openai_api.routes(desk, limits), *llama_api.routes(desk, limits)]
    app = Starlette(
        routes=found,
        exception_handlers={
            HTTPException: _http, ClientGone: _gone, errors.ApiError: _refused, Full: _refused, Stalled: _refused,
            EngineError: _refused, TemplateError: _refused, Exception: _refused,
        },
    )  # fmt: skip
    return Guard(_Named(app, found), policy, log, desk.metrics.request)


class _Named:
    """Notes which route a path belongs to, so that the counts go by routes and not by what clients make up."""

    def __init__(self, app: Starlette, routes: list[BaseRoute]) -> None:
        self._app, self._router = app, Router(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for route in self._router.routes:
            if route.matches(scope)[0] is not Match.NONE:
                scope["localspec.route"] = getattr(route, "path", "other")
                break
        await self._app(scope, receive, send)


def _health(desk: Desk) -> Callable[[Request], Response]:
    def health(_request: Request) -> Response:
        if desk.down:
            return JSONResponse({"status": "error", "error": desk.down}, 503)
        return JSONResponse({"status": "ok"})

    return health


def _metrics(desk: Desk) -> Callable[[Request], Response]:
    def metrics(_request: Request) -> Response:
        text = desk.metrics.text(waiting=desk.turns.waiting, answering=desk.turns.taken)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return metrics


async def _refused(_request: Request, error: Exception) -> Response:
    return errors.of(error).response()


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return errors.ApiError(error.status_code, error.detail).response()


async def _gone(_request: Request, _error: Exception) -> Response:
    # Nobody reads it; it is for the log and the counts.
    return Response(status_code=499)
