"""Jinja as chat templates expect it, in a sandbox: a template comes out of a downloaded file and is not trusted.

The environment is that of Hugging Face transformers (`trim_blocks`, `lstrip_blocks`, loop controls, `raise_exception`,
`strftime_now`, `tojson` without HTML escapes, `{% generation %}` as a plain block). On top of Jinja's own sandbox
(no private attributes, no changes to what is passed in, `range` up to 100,000) it bounds the output, the filling of
strings, repetition, powers and the work in all (`metering.py`), so that a hostile template is an error and neither a
full memory nor a program that hangs.
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
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from localspec.chat import metering
from localspec.chat.errors import NEXT_STEP, TemplateError

MAX_OUTPUT = 1_000_000
"""Characters a template's own text may have; the longest real ones (tools included) stay under 30,000."""

MAX_REPEAT = 100_000
"""Longest result of a repetition, and widest padding, in characters or items."""

PADDING_METHODS = frozenset({"center", "ljust", "rjust", "zfill"})

MAX_BITS = 4096
"""Longest product of whole numbers."""

EXPLODING_METHODS = frozenset({"expandtabs", "translate"})
"""Of texts: what they make cannot be told before, and no chat template needs them."""

EXPLODING_FILTERS = ("batch", "center", "format", "indent", "pprint", "slice", "sum", "urlize", "wordwrap", "xmlattr")

_WIDE_FORMAT = re.compile(r":[^}]*(\{|[0-9]{4})")


class _Raised(Exception):
    """The template called `raise_exception`: the message is its author's."""


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks the assistant's text for training; here it is its body."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own declaration)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = metering.Tolls().visit(super()._parse(source, name, filename))
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        exploding = isinstance(obj, str) and attr in EXPLODING_METHODS
        return not exploding and super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and not (_small(left, 1_000) and _small(right, 64)):
            raise SecurityError("a power too large")
        if operator == "*":
            for body, times in ((left, right), (right, left)):
                if isinstance(body, str | list | tuple) and isinstance(times, int) and len(body) * times > MAX_REPEAT:
                    raise SecurityError("a repetition too long")
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
                raise SecurityError("a number too large")
        if operator == "+":
            metering.spend_size(left)
            metering.spend_size(right)
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting with % is not allowed")
        return metering.spend_size(super().call_binop(context, operator, left, right))

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        widths = [value for value in (*args, *kwargs.values()) if isinstance(value, int | float)]
        name = getattr(obj, "__name__", "")
        if name in PADDING_METHODS and not all(_small(width, MAX_REPEAT) for width in widths):
            raise SecurityError("a padding too wide")
        owner = getattr(obj, "__self__", None)
        if name == "join" and isinstance(owner, str) and args:
            # A generator has no length to charge by.
            args = (list(args[0]), *args[1:])
        metering.spend_call(name, owner, (*args, *kwargs.values()))
        return metering.spend_size(super().call(context, obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text = str(value.__self__)
        if _WIDE_FORMAT.search(text):
            raise SecurityError("a padding too wide")

        def checked(*args: Any, **kwargs: Any) -> str:
            metering.spend_call("format", text, (*args, *kwargs.values()))
            return wrapped(*args, **kwargs)

        return checked


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


@jinja2.pass_environment
def _join(environment: jinja2.Environment, value: Any, d: str = "", attribute: str | int | None = None) -> str:
    items = list(value) if attribute is None else list(map(make_attrgetter(environment, attribute), value))
    metering.spend_text(items)
    metering.spend(len(items) * len(d))
    return d.join(map(str, items))


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _Generation],
        cache_size=0,
        finalize=metering.spend_text,
    )
    filters = environment.filters
    filters |= {"tojson": _tojson, "join": _join}
    for exploding in EXPLODING_FILTERS:
        filters.pop(exploding)
    filters.update({name: metering.charged(name, made) for name, made in filters.items()})
    filters |= {"toll": metering.toll, "concat": metering.concat}
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
    metering.open_account()
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
