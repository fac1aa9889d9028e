"""Reading a request's fields: each checked, named in its refusal, and null like one that is not there.

Fields that nobody here knows are left alone, since clients send many. Fields that ask for something else than what
would come are refused: an answer that means something else is worse than none.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from localspec.chat.settings import Settings
from localspec.engine import ranges
from localspec.engine.requests import SamplerSettings
from localspec.server.errors import ApiError, bad

MAX_STOPS = 64
MAX_SEED = 2**64 - 1
MAX_ANSWERS = 16

SAMPLERS = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}
"""llama-server's list of samplers: one that is not named is off."""

REFUSED = {
    "lora": "adapters cannot be loaded by request",
    "image_data": "this model reads text only",
    "multimodal_data": "this model reads text only",
    "audio": "this model writes text only",
    "functions": "this model calls no functions here",
    "logprobs": "probabilities are not kept",
    "top_logprobs": "probabilities are not kept",
    "n_probs": "probabilities are not kept",
    "echo": "the prompt is not repeated",
    "mirostat": "mirostat is no fixed distribution, which speculation needs",
    "dynatemp_range": "the temperature is one number",
    "xtc_probability": "xtc is not among the samplers",
    "dry_multiplier": "dry is not among the samplers",
}
"""What would change the answer and is not done; 0, false, "" and empty lists ask for nothing."""


class Fields:
    """The body of a request."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        for name, why in REFUSED.items():
            if self.body.get(name):
                raise bad(f"{name} is not supported: {why}.", name)

    def get(self, *names: str) -> tuple[str, Any]:
        """The first of the fields that is there, with its name; ("", None) without one."""
        for name in names:
            if self.body.get(name) is not None:
                return name, self.body[name]
        return "", None

    def number(self, default: float, *names: str) -> float:
        name, value = self.get(*names)
        if not name:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad(f"{name} must be a number.", name)
        try:
            return float(value)
        except OverflowError:
            raise bad(f"{name} is too large.", name) from None

    def whole(self, default: int | None, *names: str) -> int | None:
        name, value = self.get(*names)
        if not name:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad(f"{name} must be a whole number.", name)
        return value

    def flag(self, name: str) -> bool:
        value = self.body.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise bad(f"{name} must be true or false.", name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.body.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            return value
        raise bad(f"{name} must be a text." if value is not None else f"{name} is missing.", name)

    def stops(self) -> tuple[str, ...]:
        """The stop texts; empty ones stop nothing."""
        value = self.body.get("stop")
        if value is None:
            return ()
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > MAX_STOPS:
            raise bad(f"stop must be a text or a list of at most {MAX_STOPS} texts.", "stop")
        return tuple(text for text in texts if text)

    def limit(self, default: int | None, *names: str, none: bool = False) -> int | None:
        """Tokens of the answer; -1 is no limit of its own. `none`: 0 is allowed."""
        value = self.whole(default, *names)
        if value is None or value == -1:
            return None
        if value < (0 if none else 1):
            name, _ = self.get(*names)
            raise bad(f"{name} must be {'0' if none else '1'} or more.", name)
        return value

    def seed(self, default: int | None) -> int | None:
        """-1 is a new one for each answer."""
        value = self.whole(default, "seed")
        if value is None or value == -1:
            return None
        if not 0 <= value <= MAX_SEED:
            raise bad(f"seed must be between 0 and {MAX_SEED}.", "seed")
        return value

    def answers(self) -> int:
        """How many answers are wanted."""
        wanted = self.whole(1, "n") or 1
        if not 1 <= wanted <= MAX_ANSWERS:
            raise bad(f"n must be between 1 and {MAX_ANSWERS}.", "n")
        if wanted > 1 and self.flag("stream"):
            raise bad("n above 1 comes one answer after the other and cannot be streamed.", "n")
        best = self.whole(None, "best_of")
        if best is not None and best != wanted:
            raise bad("best_of is not supported: ask for n answers and choose.", "best_of")
        return wanted

    def sampling(self, settings: Settings, vocab_size: int) -> SamplerSettings:
        """How to sample: what the request says over what the settings say."""
        held = settings.sampling()
        made = replace(
            held,
            temperature=self.number(held.temperature, "temperature"),
            top_k=self.whole(held.top_k, "top_k") or 0,
            top_p=self.number(held.top_p, "top_p"),
            min_p=self.number(held.min_p, "min_p"),
            repeat_penalty=self.number(held.repeat_penalty, "repeat_penalty", "repetition_penalty"),
            frequency_penalty=self.number(held.frequency_penalty, "frequency_penalty"),
            presence_penalty=self.number(held.presence_penalty, "presence_penalty"),
            penalty_last_n=self.whole(held.penalty_last_n, "repeat_last_n") or 0,
            logit_bias=self._biases(),
        )
        named = self.body.get("samplers")
        if isinstance(named, list):
            off: dict[str, Any] = {name: value for name, value in SAMPLERS.items() if name not in named}
            made = replace(made, **off)
        try:
            ranges.validate(made, vocab_size)
        except ValueError as error:
            raise bad(f"{error}.", str(error).split()[0]) from None
        return made

    def _biases(self) -> dict[int, float]:
        """OpenAI's object of token numbers, or llama-server's list of pairs, in which false forbids."""
        value = self.body.get("logit_bias")
        if value is None:
            return {}
        pairs = value.items() if isinstance(value, dict) else value
        found: dict[int, float] = {}
        try:
            for token, bias in pairs:
                found[int(token)] = -math.inf if bias is False else float(bias)
        except (TypeError, ValueError, OverflowError):
            raise bad("logit_bias must map token numbers to numbers.", "logit_bias") from None
        return found

    def grammar(self) -> tuple[str | None, str | None]:
        """The GBNF grammar and the JSON schema that bound the answer, one of them at most."""
        grammar, schema = self.text("grammar", "") or None, self.body.get("json_schema")
        wanted = self.body.get("response_format")
        if wanted is not None:
            schema = _schema_of(wanted, schema)
        if grammar and schema is not None:
            raise bad("grammar and a JSON schema both bound the answer: give one of them.", "grammar")
        if schema is None:
            return grammar, None
        if not isinstance(schema, dict | bool):
            raise bad("The JSON schema must be an object.", "json_schema")
        return None, json.dumps(schema)

    def prediction(self) -> tuple[str, ...]:
        """OpenAI's predicted output: text the answer is expected to resemble."""
        value = self.body.get("prediction")
        if value is None:
            return ()
        if not isinstance(value, dict) or value.get("type", "content") != "content":
            raise bad('prediction must be {"type": "content", "content": ...}.', "prediction")
        text = text_of(value.get("content"), "prediction.content")
        return (text,) if text else ()


def text_of(content: Any, name: str) -> str:
    """A content that is a text, or a list of text parts. Raises `ApiError`."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise bad(f"{name} must be a text or a list of parts.", name)
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text", part.get("refusal")) if isinstance(part, dict) else part
        if kind not in ("text", "input_text", "refusal", None) or not isinstance(text, str):
            raise bad(f"{name}: only parts of type text can be read.", name)
        texts.append(text)
    return "".join(texts)


def _schema_of(wanted: Any, given: Any) -> Any:
    """The schema of a `response_format`; None for free text."""
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return given
    if kind == "json_object":
        # llama-server takes a schema here too; without one any object will do.
        return wanted.get("schema") or given or {"type": "object"}
    if kind == "json_schema":
        # The second is llama-server's short form.
        named = wanted.get("json_schema", {"schema": wanted["schema"]} if "schema" in wanted else None)
        if not isinstance(named, dict):
            raise bad("response_format.json_schema must be an object with a schema.", "response_format")
        return named.get("schema", {"type": "object"})
    raise bad("response_format must be of type text, json_object or json_schema.", "response_format")


def refuse_tools(body: Mapping[str, Any]) -> None:
    """Tools are refused: a client that offers them waits for calls which never come."""
    if body.get("tools") and body.get("tool_choice") != "none":
        raise ApiError(400, "tools are not supported: send none, or tool_choice none.", param="tools", code="no_tools")
