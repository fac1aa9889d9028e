"""OpenAI's endpoints: chat completions, completions and models, as its clients and editors' plugins use them."""

import json
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as Http
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from localspec.engine.events import Event
from localspec.engine.requests import Request
from localspec.server import errors
from localspec.server.asking import Asking, Limits
from localspec.server.desk import Desk
from localspec.server.fields import Fields, refuse_tools
from localspec.server.prompts import Prompt, chat_prompt, fill_in, raw_prompts
from localspec.server.replies import Reply, figures, timings, usage

LIMIT_NAMES = ("max_completion_tokens", "max_tokens", "n_predict")


def routes(desk: Desk, limits: Limits) -> list[Route]:
    """With and without `/v1`, as llama-server has them."""
    asking = Asking(desk, limits)
    chat = partial(_chat, asking)
    completions = partial(_completions, asking)
    return [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/models", partial(_models, desk)),
        Route("/models", partial(_models, desk)),
        Route("/v1/models/{name:path}", partial(_model, desk)),
    ]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the two kinds of completion call their objects and how they lay out a choice."""

    whole: str
    part: str
    prefix: str
    message: Callable[[Reply], dict[str, Any]]
    delta: Callable[[str, str], dict[str, Any]]
    first: dict[str, Any] | None


def _chat_message(reply: Reply) -> dict[str, Any]:
    thoughts = {"reasoning_content": reply.thoughts} if reply.thoughts else {}
    return {"message": {"role": "assistant", "content": reply.text, "refusal": None, **thoughts}}


def _chat_delta(text: str, thought: str) -> dict[str, Any]:
    return {"delta": {"content": text} if text else {"reasoning_content": thought} if thought else {}}


CHAT = Shape(
    "chat.completion", "chat.completion.chunk", "chatcmpl", _chat_message, _chat_delta,
    {"delta": {"role": "assistant", "content": ""}},
)  # fmt: skip
TEXT = Shape(
    "text_completion", "text_completion", "cmpl", lambda reply: {"text": reply.text}, lambda text, _: {"text": text},
    None,
)  # fmt: skip


async def _chat(asking: Asking, http: Http) -> Response:
    fields = await asking.read(http)
    refuse_tools(fields.body)
    info, think = asking.desk.loaded.info, asking.desk.loaded.settings.think
    prompt = await run_in_threadpool(chat_prompt, info, fields, think)
    return await _answer(asking, http, fields, [prompt], CHAT)


async def _completions(asking: Asking, http: Http) -> Response:
    fields = await asking.read(http)
    suffix = fields.text("suffix", "")
    if suffix:
        prompts = [fill_in(asking.desk.loaded.info, fields.text("prompt", ""), suffix)]
    else:
        prompts = [Prompt(segments, Reply().splitter) for segments in raw_prompts(fields)]
    return await _answer(asking, http, fields, prompts, TEXT)


async def _answer(asking: Asking, http: Http, fields: Fields, prompts: list[Prompt], shape: Shape) -> Response:
    wanted = fields.answers()
    requests = [asking.request(fields, prompt, LIMIT_NAMES) for prompt in prompts]
    head = _Head(shape, fields.text("model", "") or asking.desk.loaded.name)
    if fields.flag("stream"):
        if len(requests) > 1:
            raise errors.bad("Several prompts cannot be streamed: send them one by one.", "prompt")
        return await _stream(
            asking, http, fields, head, requests[0], Reply(prompts[0].splitter, requests[0].predictions)
        )
    if wanted > 1 and len(requests) > 1:
        raise errors.bad("n above 1 goes with one prompt.", "n")
    replies: list[Reply] = []
    for at in range(max(wanted, len(requests))):
        request, prompt = (requests * wanted)[at], (prompts * wanted)[at]
        if at and wanted > 1:
            # Another splitter and other draws; what was asked for with a seed stays repeatable.
            prompt = prompt if shape is TEXT else await run_in_threadpool(_chat_again, asking, fields)
            seed = request.seed
            request = request if seed is None else replace(request, seed=(seed + at) % 2**64)
        reply = Reply(prompt.splitter, request.predictions)
        await asking.whole(http, request, reply)
        replies.append(reply)
    choices = [
        {"index": at, **shape.message(reply), "logprobs": None, "finish_reason": reply.finish}
        for at, reply in enumerate(replies)
    ]
    body = head.object(shape.whole, choices) | {"usage": usage(replies), **_extras(replies[-1])}
    return JSONResponse(body)


def _chat_again(asking: Asking, fields: Fields) -> Prompt:
    return chat_prompt(asking.desk.loaded.info, fields, asking.desk.loaded.settings.think)


async def _stream(
    asking: Asking, http: Http, fields: Fields, head: "_Head", request: Request, reply: Reply
) -> Response:
    options = fields.body.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    shape, begun = head.shape, False

    def write(batch: list[Event]) -> Iterable[bytes]:
        nonlocal begun
        if not begun and shape.first is not None:
            yield _event(head.part(shape.first))
        begun = True
        for text, thought in reply.take(batch):
            yield _event(head.part(shape.delta(text, thought)))
        if reply.finished is not None:
            asking.check(reply.finished)
            last = head.part(shape.delta("", ""), reply.finish) | _extras(reply)
            yield _event(last)
            if with_usage:
                yield _event(head.object(shape.part, []) | {"usage": usage([reply])})
            yield b"data: [DONE]\n\n"

    return await asking.stream(http, request, write)


def _extras(reply: Reply) -> dict[str, Any]:
    return {"timings": timings(reply.stats), "localspec": figures(reply)}


@dataclass
class _Head:
    """What all objects of one response share."""

    shape: Shape
    model: str
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def object(self, name: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"{self.shape.prefix}-{self.id}", "object": name, "created": self.created, "model": self.model,
            "system_fingerprint": "localspec", "choices": choices,
        }  # fmt: skip

    def part(self, choice: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return self.object(self.shape.part, [{"index": 0, **choice, "logprobs": None, "finish_reason": finish}])


def _event(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode("ascii") + b"\n\n"


def _described(desk: Desk) -> dict[str, Any]:
    loaded = desk.loaded
    return {
        "id": loaded.name, "object": "model", "created": 0, "owned_by": "localspec",
        "meta": {
            "n_ctx": loaded.info.context, "n_ctx_train": loaded.info.train_context, "n_vocab": loaded.info.vocab_size,
            "target": loaded.info.target, "draft": loaded.info.draft,
        },
    }  # fmt: skip


async def _models(desk: Desk, _http: Http) -> Response:
    return JSONResponse({"object": "list", "data": [_described(desk)]})


async def _model(desk: Desk, http: Http) -> Response:
    if http.path_params["name"] != desk.loaded.name:
        raise errors.ApiError(404, "There is no such model here.", code="model_not_found")
    return JSONResponse(_described(desk))
