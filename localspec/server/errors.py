"""What goes wrong in a request, as HTTP statuses and in the shape OpenAI's clients read."""

from typing import Any

from starlette.responses import JSONResponse

from localspec.chat.errors import TemplateError
from localspec.engine import errors as engine
from localspec.engine.wire import one_line
from localspec.server.desk import Down
from localspec.server.flow import Stalled
from localspec.server.turns import Full

RETRY_S = 5
"""What `Retry-After` says: about the length of a short answer."""


class ApiError(Exception):
    """A request that is not answered: its status, words for a person, and OpenAI's `type`, `code` and `param`."""

    def __init__(
        self, status: int, message: str, *, kind: str = "invalid_request_error", code: str | None = None,
        param: str | None = None, retry: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.message, self.kind, self.code, self.param = status, message, kind, code, param
        self.retry = retry

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        headers = {"retry-after": str(RETRY_S)} if self.retry else {}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(self.body, self.status, headers)


def bad(message: str, param: str | None = None) -> ApiError:
    """The request's own fault."""
    return ApiError(400, message, param=param)


def of(error: BaseException) -> ApiError:
    """What to answer when `error` ended a request; a fault of the program is told by its kind alone."""
    match error:
        case ApiError():
            return error
        case Full():
            return _later("Too many requests wait already: try again later.")
        case engine.PromptTooLong():
            return ApiError(400, one_line(error), code="context_length_exceeded")
        case engine.EngineDied() | engine.Busy() | Down():
            return _later(one_line(error))
        case engine.DecodeError() | engine.LoadError():
            return ApiError(500, one_line(error), kind="server_error")
        case engine.EngineError() | TemplateError():
            return bad(one_line(error))
        case Stalled():
            return ApiError(408, "The client stopped reading.")
    return ApiError(500, f"internal error: {type(error).__name__}", kind="server_error")


def _later(message: str) -> ApiError:
    return ApiError(503, message, kind="server_error", code="unavailable", retry=True)
