"""Jinja as chat templates expect it, in a sandbox: a template comes out of a downloaded file and is not trusted.

The environment is that of Hugging Face transformers (`trim_blocks`, `lstrip_blocks`, loop controls, `raise_exception`,
`strftime_now`, `tojson` without HTML escapes, `{% generation %}` as a plain block). On top of Jinja's own sandbox
(no private attributes, no changes to what is passed in, `range` up to 100,000) it bounds the output, the filling of
strings, repetition and powers, so that a hostile template is an error and not a full memory.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from localspec.chat.errors import NEXT_STEP, TemplateError

MAX_OUTPUT = 1_000_000
"""Characters a template's own text may have; the longest real ones (tools included) stay under 30,000."""

MAX_REPEAT = 100_000
"""Longest result of a repetition, and widest padding, in characters or items."""

PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})

_WIDE_FORMAT = re.compile(r":[^}]*(\{|[0-9]{5})")


class _Raised(Exception):
    """The template called `raise_exception`: the message is its author's."""


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks the assistant's text for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and not (_small(left, 1_000) and _small(right, 64)):
            raise SecurityError("a power too large")
        if operator == "*":
            for body, times in ((left, right), (right, left)):
                if isinstance(body, str | list | tuple) and isinstance(times, int) and len(body) * times > MAX_REPEAT:
                    raise SecurityError("a repetition too long")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting with % is not allowed")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        widths = [value for value in (*args, *kwargs.values()) if isinstance(value, int | float)]
        if getattr(obj, "__name__", "") in PADDING_METHODS and not all(_small(width, MAX_REPEAT) for width in widths):
            raise SecurityError("a padding too wide")
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and _WIDE_FORMAT.search(str(value.__self__)):
            raise SecurityError("a padding too wide")
        return wrapped


def _small(value: object, limit: int) -> bool:
    return isinstance(value, int | float) and abs(value) <= limit


def _raise_exception(message: object) -> str:
    raise _Raised(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if indent is not None and not 0 <= indent <= 16:
        raise SecurityError("an indent too wide")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation], cache_size=0
    )
    environment.filters["tojson"] = _tojson
    for filling in ("batch", "center", "format", "indent", "slice", "wordwrap"):
        environment.filters.pop(filling)
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals.pop("lipsum")
    return environment.from_string(source)


def run_template(source: str, variables: Mapping[str, Any]) -> str:
    """The template's output.

    Raises `TemplateError` with the template's own message when it calls `raise_exception`, else with what went wrong.
    """
    pieces: list[str] = []
    size = 0
    try:
        for piece in _compiled(source).generate(variables):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_OUTPUT:
                raise SecurityError(f"more than {MAX_OUTPUT:,} characters come out of it")
    except _Raised as error:
        raise TemplateError(_line(str(error))) from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"the model's chat template cannot be read, line {error.lineno}: {_line(error.message or '')}; {NEXT_STEP}"
        ) from None
    except Exception as error:  # a template is a program: anything may come out of it
        reason = _line(str(error)) or type(error).__name__
        raise TemplateError(f"the model's chat template fails: {reason}; {NEXT_STEP}") from None
    return "".join(pieces)


def _line(text: str, limit: int = 300) -> str:
    """The first `limit` characters of an untrusted message, as one line without control characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[:limit]).split())
    return flat if len(text) <= limit else flat + "…"
