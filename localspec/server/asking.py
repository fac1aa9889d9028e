"""What every public endpoint does with a request: read it, ask the engine in turn, and answer whole or as a stream."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.requests import Request as Http
from starlette.responses import Response

from localspec.engine.events import Event, Finished, Stats
from localspec.engine.requests import Request
from localspec.server import errors, sending
from localspec.server.desk import Desk
from localspec.server.fields import Fields
from localspec.server.flow import Flow
from localspec.server.prompts import Prompt
from localspec.server.reading import read_json
from localspec.server.replies import Reply, check_end


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_body` in bytes; `timeout_s` of a whole answer, waiting included."""

    max_body: int = 4 << 20
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Asking:
    """The desk, under the limits for clients."""

    desk: Desk
    limits: Limits

    async def read(self, http: Http) -> Fields:
        """The request's fields. Raises `ApiError`."""
        return Fields(await read_json(http, self.limits.max_body))

    def request(self, fields: Fields, prompt: Prompt, limit_names: tuple[str, ...], *, none: bool = False) -> Request:
        """What the engine is asked. Raises `ApiError`."""
        loaded = self.desk.loaded
        settings = loaded.settings
        grammar, schema = fields.grammar()
        limit = fields.limit(settings.max_tokens, *limit_names, none=none)
        return Request(
            prompt=prompt.segments,
            sampling=fields.sampling(settings, loaded.info.vocab_size),
            speculate=settings.speculate or loaded.speculate,
            draft_length=settings.draft_length,
            verify=settings.verify,
            max_tokens=1 if limit == 0 else limit,
            stop=(*fields.stops(), *prompt.stop),
            seed=fields.seed(settings.seed),
            keep_control=prompt.keep_control,
            sources=prompt.sources,
            predictions=fields.prediction(),
            grammar=grammar,
            json_schema=schema,
        )

    def flow(self, request: Request) -> Flow:
        """A place in the queue. Raises `turns.Full`, and `Down` without an engine."""
        return Flow(self.desk, request, time_limit=self.limits.timeout_s)

    async def whole(self, http: Http, request: Request, reply: Reply) -> None:
        """Fills the reply. Raises what ended it instead."""
        finished = await sending.whole(http, self.flow(request), reply.take)
        self.told(http, finished.stats)
        self.check(finished)

    async def stream(self, http: Http, request: Request, write: Callable[[list[Event]], Iterable[bytes]]) -> Response:
        """A stream of server-sent events. What is refused is refused with a status, before the first of them."""
        flow = self.flow(request)
        begin, batches = await sending.opened(http, flow)

        def writing(batch: list[Event]) -> Iterable[bytes]:
            for event in batch:
                if isinstance(event, Finished):
                    self.told(http, event.stats)
            return write(batch)

        return sending.Lines(
            flow, batches, begin, writing, fail, media_type="text/event-stream", idle=b": still there\n\n"
        )

    def check(self, finished: Finished) -> None:
        """Raises `ApiError` for an answer that was not given: its time was up in the queue, or the server ends."""
        timed_out = not self.desk.closing
        check_end(finished, timed_out=timed_out, closing=self.desk.closing, seconds=self.limits.timeout_s)

    @staticmethod
    def told(http: Http, stats: Stats) -> None:
        """The figures for the log line."""
        speed = f" at {stats.tokens_per_s:.1f}/s" if stats.tokens_per_s else ""
        sending.note(http.scope, f"{stats.tokens} tokens{speed}")


def fail(error: errors.ApiError) -> bytes:
    """An error in the middle of a stream, as OpenAI's clients expect it."""
    return b"data: " + json.dumps(error.body).encode("ascii") + b"\n\n"
