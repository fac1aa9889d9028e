"""From a request's messages or texts to what the engine is asked. Waits for templates: for threads, not the loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from localspec.assist.fim import NoFim, fim_prompt, fim_stops
from localspec.chat.splitting import Plain, Splitter
from localspec.chat.templates import ChatTemplate, Message, Role
from localspec.chat.thinking import Think, plan
from localspec.engine.requests import EngineInfo, Segment, SourceText
from localspec.server.errors import ApiError, bad
from localspec.server.fields import Fields, text_of

MAX_MESSAGES = 10_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine reads, what its answer is split with, and what else the request needs for it."""

    segments: tuple[Segment, ...]
    splitter: Splitter
    keep_control: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    sources: tuple[SourceText, ...] = ()


def chat_prompt(info: EngineInfo, fields: Fields, think: Think) -> Prompt:
    """The conversation through the model's template; an assistant's message at its end is gone on with.

    Raises `ApiError` and `TemplateError`.
    """
    messages = _messages(fields.body.get("messages"))
    template = ChatTemplate.of(info)
    bound = _is_bound(fields)
    thinking = plan(template, "off" if bound else _think(fields, think))
    begun = messages.pop() if messages[-1].role == "assistant" and len(messages) > 1 else None
    segments = template.render(messages, thinking.variables)
    if begun is None:
        # Under a grammar a thought that the template opens would have to fit too.
        asked = thinking.answer_at_once(segments) if bound else (segments, thinking.splitter(segments))
        return Prompt(*asked, thinking.keep_control)
    return Prompt(*thinking.resume(segments, begun.thoughts, begun.text), thinking.keep_control)


def raw_prompts(fields: Fields) -> list[tuple[Segment, ...]]:
    """The prompts of a completion. They come from a program that spells the model's tokens itself, as llama-server's
    clients do: the whole text is trusted. Raises `ApiError`."""
    value = fields.body.get("prompt")
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise bad("prompt must be a text or a list of texts; token numbers are not taken.", "prompt")
    return [(Segment(text, True),) for text in texts]


def infill_prompt(info: EngineInfo, fields: Fields) -> Prompt:
    """llama-server's /infill: the gap between `input_prefix` and `input_suffix`, with other files before them, and
    `prompt` as the middle's beginning. Raises `ApiError`."""
    extra = _extra(fields.body.get("input_extra"))
    begun = fields.text("prompt", "")
    return fill_in(info, fields.text("input_prefix", ""), fields.text("input_suffix", ""), extra, begun)


def fill_in(
    info: EngineInfo, prefix: str, suffix: str, extra: list[tuple[str, str]] | None = None, begun: str = ""
) -> Prompt:
    """A prompt for the gap between two texts. Raises `ApiError` when the model has no tokens for it."""
    try:
        segments = fim_prompt(info, prefix, suffix, extra or ())
    except NoFim as error:
        raise ApiError(501, f"{error}.", kind="not_supported_error", code="no_fim") from None
    stops = fim_stops(info)
    sources = tuple(SourceText(name, text) for name, text in extra or () if text)
    return Prompt((*segments, Segment(begun)) if begun else segments, Plain(), stops, stops, sources)


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise bad("messages must be a list with at least one message.", "messages")
    if len(value) > MAX_MESSAGES:
        raise bad(f"messages must be at most {MAX_MESSAGES}.", "messages")
    return [_message(one, f"messages[{at}]") for at, one in enumerate(value)]


def _message(value: Any, name: str) -> Message:
    if not isinstance(value, Mapping):
        raise bad(f"{name} must be an object.", name)
    role: Any = "system" if value.get("role") == "developer" else value.get("role")
    if role not in get_args(Role):
        raise bad(f"{name}.role must be system, developer, user or assistant; tools are not supported.", f"{name}.role")
    if value.get("tool_calls") or value.get("function_call"):
        raise bad(f"{name} calls a tool; tools are not supported.", name)
    thoughts = value.get("reasoning_content")
    return Message(
        role, text_of(value.get("content"), f"{name}.content"), thoughts if isinstance(thoughts, str) else ""
    )


def _think(fields: Fields, usual: Think) -> Think:
    """Whether to think: what the request says in one of the clients' ways, else as set."""
    given = fields.body.get("chat_template_kwargs")
    switch = given.get("enable_thinking", given.get("thinking")) if isinstance(given, Mapping) else None
    if isinstance(switch, bool):
        return "on" if switch else "off"
    if fields.body.get("reasoning_effort") == "none" or fields.body.get("reasoning_budget") == 0:
        return "off"
    return usual


def _is_bound(fields: Fields) -> bool:
    """Whether a grammar or schema bounds the whole answer."""
    if any(fields.body.get(name) for name in ("grammar", "json_schema")):
        return True
    wanted = fields.body.get("response_format")
    return isinstance(wanted, Mapping) and wanted.get("type") != "text"


def _extra(value: Any) -> list[tuple[str, str]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad("input_extra must be a list of files.", "input_extra")
    found = []
    for at, one in enumerate(value):
        if not isinstance(one, Mapping) or not isinstance(one.get("text"), str):
            raise bad(f"input_extra[{at}] must have a text.", "input_extra")
        name = one.get("filename")
        # A name is a word in the prompt: nothing is ever opened by it.
        found.append((name if isinstance(name, str) and name else f"file{at + 1}", one["text"]))
    return found
