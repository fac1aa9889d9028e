"""llama-server's own endpoints, as its clients use them: `/completion`, `/infill` and `/props`.

As there, a time limit counts from the first token and ends the answer once it has a line end. `t_max_prompt_ms` has no
effect there either. `samplers` switches off the filters it does not name; their order is always the engine's. A gap is
filled greedily unless the request sets a temperature: what an editor shows unasked should be the likeliest text.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as Http
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localspec.engine.events import Event, Finished, Token
from localspec.server import errors, sending
from localspec.server.asking import Asking, Limits, fail
from localspec.server.desk import Desk
from localspec.server.fields import Fields
from localspec.server.flow import Flow
from localspec.server.prompts import Prompt, infill_prompt, raw_prompts
from localspec.server.replies import Reply, figures, timings

LIMIT_NAMES = ("n_predict", "max_tokens")

STOP_TYPES = {
    "end_of_text": "eos", "stop": "word", "max_tokens": "limit", "context_full": "limit", "cancelled": "limit",
}  # fmt: skip


def routes(desk: Desk, limits: Limits) -> list[Route]:
    asking = Asking(desk, limits)
    completion = partial(_completion, asking)
    return [
        Route("/completion", completion, methods=["POST"]),
        Route("/completions", completion, methods=["POST"]),
        Route("/infill", partial(_infill, asking), methods=["POST"]),
        Route("/props", partial(_props, desk)),
    ]


async def _completion(asking: Asking, http: Http) -> Response:
    fields = await asking.read(http)
    prompts = [Prompt(segments, Reply().splitter) for segments in raw_prompts(fields)]
    if len(prompts) == 1 and not isinstance(fields.body.get("prompt"), list):
        return await _answer(asking, http, fields, prompts[0])
    if fields.flag("stream"):
        raise errors.bad("Several prompts cannot be streamed: send them one by one.", "prompt")
    texts = [await _whole(asking, http, fields, prompt, at) for at, prompt in enumerate(prompts)]
    return JSONResponse(texts)


async def _infill(asking: Asking, http: Http) -> Response:
    fields = await asking.read(http)
    if fields.body.get("temperature") is None:
        fields = Fields({**fields.body, "temperature": 0.0, "samplers": None})
    prompt = await run_in_threadpool(infill_prompt, asking.desk.loaded.info, fields)
    return await _answer(asking, http, fields, prompt)


async def _answer(asking: Asking, http: Http, fields: Fields, prompt: Prompt) -> Response:
    if not fields.flag("stream"):
        return JSONResponse(await _whole(asking, http, fields, prompt, 0))
    told = _Told(asking, fields)
    flow = told.flow = asking.flow(asking.request(fields, prompt, LIMIT_NAMES, none=True))
    begin, batches = await sending.opened(http, flow)

    def write(batch: list[Event]) -> Iterable[bytes]:
        text = told.take(batch)
        if text and not told.over:
            yield _event(told.part(text))
        if told.reply.finished is not None:
            asking.told(http, told.reply.stats)
            yield _event(told.whole(""))

    return sending.Lines(flow, batches, begin, write, fail, media_type="text/event-stream", idle=b": still there\n\n")


async def _whole(asking: Asking, http: Http, fields: Fields, prompt: Prompt, index: int) -> Any:
    told = _Told(asking, fields, index)
    told.flow = asking.flow(asking.request(fields, prompt, LIMIT_NAMES, none=True))
    await sending.whole(http, told.flow, told.take)
    asking.told(http, told.reply.stats)
    whole = told.whole(told.text)
    named = fields.body.get("response_fields")
    return _chosen(whole, named) if isinstance(named, list) and named else whole


@dataclass
class _Told:
    """One answer in llama-server's words. `text` is what its client gets of it; `flow` is where it comes from, and is
    ended when the request's own limits are reached. Raises `ApiError` for limits that are none."""

    asking: Asking
    fields: Fields
    index: int = 0
    flow: Flow | None = None
    text: str = ""
    over: bool = False
    reply: Reply = field(default_factory=Reply)
    _first: float | None = None

    def __post_init__(self) -> None:
        self._time_ms = self.fields.number(0.0, "t_max_predict_ms")
        self._indent = self.fields.whole(0, "n_indent") or 0
        self._wanted = self.fields.limit(None, *LIMIT_NAMES, none=True)

    def take(self, batch: list[Event]) -> str:
        """The text that came; the answer is ended where the request's own limits say so."""
        if self._first is None and any(isinstance(event, Token) for event in batch):
            self._first = time.monotonic()
        came = "".join(text for text, _ in self.reply.take(batch))
        if isinstance(last := self.reply.finished, Finished):
            self.asking.check(last)
        if self.over or self._wanted == 0:
            return ""
        before, self.text = len(self.text), self.text + came
        if (cut := _dedent(self.text, self._indent)) is not None:
            self.text, self.over = self.text[: max(cut, before)], True
        elif self._time_ms > 0 and "\n" in self.text and self._first is not None:
            self.over = (time.monotonic() - self._first) * 1000 > self._time_ms
        if self.over and self.reply.finished is None and self.flow is not None:
            self.flow.cancel()
        return self.text[before:]

    def part(self, text: str) -> dict[str, Any]:
        return {"index": self.index, "content": text, "tokens": [], "stop": False, "id_slot": -1}

    def whole(self, content: str) -> dict[str, Any]:
        """The last object; `content` is all of the text, or nothing after a stream."""
        stats, loaded = self.reply.stats, self.asking.desk.loaded
        assert self.reply.finished is not None
        reason = self.reply.finished.reason
        return {
            "index": self.index,
            "content": content,
            "tokens": [],
            "id_slot": -1,
            "stop": True,
            "model": loaded.name,
            "tokens_predicted": stats.tokens if self._wanted != 0 else 0,
            "tokens_evaluated": stats.prompt_tokens,
            "generation_settings": {
                "n_ctx": loaded.info.context,
                "n_predict": -1 if self._wanted is None else self._wanted,
            },
            "has_new_line": "\n" in self.text,
            "truncated": reason == "context_full",
            "stop_type": "limit" if self.over else STOP_TYPES[reason],
            "stopping_word": "",
            "tokens_cached": stats.prompt_tokens + stats.tokens,
            "timings": timings(stats),
            "localspec": figures(self.reply),
        }


def _dedent(text: str, indent: int) -> int | None:
    """Where the first line after the first begins that is indented by less than `indent` characters; None when there is
    none, or when its first word has not come yet."""
    start = text.find("\n") + 1
    while indent > 0 and start > 0:
        line = text[start:].split("\n", 1)[0]
        body = line.lstrip(" \t")
        if body and len(line) - len(body) < indent:
            return start
        start = text.find("\n", start) + 1
    return None


def _chosen(whole: dict[str, Any], names: list[Any]) -> dict[str, Any]:
    """The fields that were asked for; `a/b` is field b of a, under that very name."""
    found: dict[str, Any] = {}
    for name in names:
        value: Any = whole
        for part in str(name).split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[str(name)] = value
    return found


def _event(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode("ascii") + b"\n\n"


async def _props(desk: Desk, _http: Http) -> Response:
    info = desk.loaded.info
    return JSONResponse(
        {
            "default_generation_settings": {"n_ctx": info.context},
            "total_slots": 1,
            "model_alias": desk.loaded.name,
            "model_path": info.target,
            "chat_template": info.chat_template or "",
            "bos_token": info.special_tokens.get("bos", ""),
            "eos_token": info.special_tokens.get("eos", ""),
            "build_info": f"localspec, {info.library}",
            "modalities": {"vision": False, "audio": False},
        }
    )
