"""What a chat template may do in all: every loop pass and every character it makes is charged to one account.

A template is a program out of a downloaded file. Bounding single operations is not enough, since doubling a text forty
times fills any memory, so the parsed template is given tolls: at each pass of a loop, each call of a macro and each
`~`. What operations, calls and filters make is charged by size, before they make it where one of them can explode.
"""

import threading
from collections.abc import Callable, Sized
from functools import wraps
from typing import Any, TypeVar

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.visitor import NodeTransformer

MAX_WORK = 50_000_000
"""Characters made, or what takes as long. A chat of a thousand turns needs a tenth; this takes a few seconds."""

PASS, CALL = 10, 200
"""What a pass of a loop and a call take, in characters."""

TEXT_FILTERS = frozenset(
    {"capitalize", "escape", "e", "lower", "replace", "string", "title", "tojson", "trim", "upper"}
)
"""Filters that spell a value out, however often its parts stand in it."""

T = TypeVar("T")

_account = threading.local()


def open_account() -> None:
    """A template begins in this thread."""
    _account.spent = 0


def spent() -> int:
    """What the thread's last template has done."""
    return getattr(_account, "spent", 0)


def spend(amount: int) -> None:
    """Raises `SecurityError` when the template has done too much."""
    _account.spent = spent() + amount
    if _account.spent > MAX_WORK:
        raise SecurityError("it does more than any chat needs")


def spend_size(value: T) -> T:
    """Charges a text or collection by its length."""
    if isinstance(value, Sized):
        spend(len(value))
    return value


def spend_text(value: T) -> T:
    """Charges a value by the length of its text: a list that holds another one twice spells it twice."""
    if isinstance(value, dict):
        for key, held in value.items():
            spend_text(key)
            spend_text(held)
    elif isinstance(value, list | tuple):
        for held in value:
            spend_text(held)
    spend(PASS)
    return spend_size(value)


def spend_call(name: str, owner: object, arguments: tuple[Any, ...]) -> None:
    """Charges a call, before it is made, for what a text's methods can make of little."""
    spend(CALL)
    if not isinstance(owner, str):
        return
    for argument in arguments:
        spend_text(argument)
    if name == "replace" and len(arguments) >= 2:
        spend_replacing(owner, *arguments[:2])
    elif name == "join" and arguments:
        spend(len(arguments[0]) * len(owner))
    elif name == "format":
        spend(owner.count("{") * sum(len(str(argument)) for argument in arguments))


def spend_replacing(text: object, old: object, new: object) -> None:
    """Charges a replacement in a text."""
    spend(len(str(text)) + str(text).count(str(old)) * len(str(new)))


def charged(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, its input and its output charged."""

    @wraps(made)
    def filtered(*arguments: Any, **named: Any) -> Any:
        # A filter that wants the context or the environment is given it first.
        given = arguments[1:] if hasattr(made, "jinja_pass_arg") else arguments
        for value in given[:1]:
            (spend_text if name in TEXT_FILTERS else spend_size)(value)
        if name == "replace" and len(given) >= 3:
            spend_replacing(*given[:3])
        return spend_size(made(*arguments, **named))

    return filtered


@pass_context
def toll(_context: object, amount: int) -> bool:
    """A filter that charges its input; with the context, so that no compiler takes it for a constant."""
    spend(amount)
    return True


def concat(values: list[Any]) -> str:
    """A filter in the place of `~`."""
    return "".join(str(spend_text(value)) for value in values)


class Tolls(NodeTransformer):
    """Puts the tolls into a parsed template."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_toll(node)))
        if node.test is not None:
            node.test = nodes.And(_filter("toll", nodes.Const(PASS)), node.test)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_toll(node)))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter("concat", nodes.List(node.nodes))


def _toll(node: nodes.Node) -> nodes.Filter:
    """The pass, and the text that stands in it."""
    return _filter("toll", nodes.Const(PASS + sum(len(data.data) for data in node.find_all(nodes.TemplateData))))


def _filter(name: str, value: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, [], [], None, None)
