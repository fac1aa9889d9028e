"""JSON schemas become grammars of the texts that fit them, or are refused; what is not enforced is told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec.engine import gbnf
from localspec.engine.errors import EngineError
from localspec.engine.grammar_state import GrammarState
from localspec.engine.llama import Model
from localspec.engine.schema import grammar_of


@pytest.fixture(scope="module")
def model(tiny_files: dict[str, Path]) -> Model:
    return Model(str(tiny_files["bytes"]), vocab_only=True)


def takes(model: Model, schema: Any, text: str) -> bool:
    """Whether the schema's grammar takes `text` as a whole. One byte a token, so that tokenizing decides nothing."""
    grammar, _ = grammar_of(json.dumps(schema))
    gbnf.check(grammar)
    single = {model.piece(token): token for token in range(model.vocab_size) if len(model.piece(token)) == 1}
    state = GrammarState.begin(model, grammar)
    for byte in text.encode():
        token = single[bytes([byte])]
        if not state.allows(token):
            return False
        state = state.after(token)
    return bool(state.allowed(np.array([*model.end_tokens], np.int32)).any())


TREE = {
    "$ref": "#/$defs/my node",
    "$defs": {
        "my node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/my%20node"}, {"type": "null"}]},
            },
            "required": ["v", "next"],
        }
    },
}
NAMESAKES = {
    "type": "object",
    "properties": {
        "item": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
        "other": {"$ref": "#/$defs/item"},
    },
    "required": ["item", "other"],
    "$defs": {"item": {"enum": ["x", "y"]}},
}
CASES = [
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": 1}', '{"a": "1"}'),
    ({"type": "object", "properties": {"a": {}}, "required": ["a"]}, '{"a": "anything"}', '{"b": 1}'),
    ({"type": "object", "required": ["a"]}, '{"a": null}', "{}"),
    (TREE, '{"v": 1, "next": {"v": 2, "next": null}}', '{"v": 1, "next": 3}'),
    (NAMESAKES, '{"item": {"a": 1}, "other": "y"}', '{"item": {"a": 1}, "other": {"a": 1}}'),
    ({"type": ["string", "null"], "minLength": 2}, '"ab"', '"a"'),
    ({"type": ["string", "null"], "enum": ["a", None]}, "null", '"b"'),
    ({"allOf": [{"$ref": "#/$defs/e"}], "$defs": {"e": {"enum": ["a", "b"]}}}, '"a"', "{}"),
    ({"allOf": [{"$ref": "#/$defs/e"}, {"properties": {"c": {"type": "null"}}}],
      "$defs": {"e": {"properties": {"b": {"type": "integer"}}}}}, '{"b": 1, "c": null}', '{"b": 1}'),
    ({"type": "string", "pattern": r"^\d{3}-[^a]+$"}, '"123-bc"', '"123-a"'),
    ({"type": "string", "pattern": "^.+$"}, '"a b"', '"a"b"'),
    ({"type": "string", "pattern": r"^[^\d]$"}, '"a"', '"""'),
    ({"type": "string", "pattern": r"b|c"}, '"abd"', '"ad"'),
    ({"type": "string", "maxLength": 1200}, json.dumps("a" * 1200), json.dumps("a" * 1201)),
    ({"type": "string"}, r'"a\nb"', '"a\nb"'),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "minItems": 2, "maxItems": 2},
     "[1,null]", "[1]"),
    ({"type": "array", "minItems": 1, "maxItems": 2}, '[{"a": 1}, []]', "[1,2,3]"),
    ({"type": "array", "items": True}, '[1, "a"]', "{}"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, '{"a": 1, "b": 2}', '{"a": "b"}'),
    ({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": True}, '{"a": 1,"b": [2]}', "[]"),
    ({"description": "whatever it is"}, "[1, 2]", "oops"),
    (True, '{"a": 1}', "1"),
    ({}, '{"a": 1}', "1"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "fits", "does_not"), CASES, ids=lambda value: json.dumps(value)[:30])
def test_what_fits_is_taken_and_nothing_else(model: Model, schema: Any, fits: str, does_not: str) -> None:
    assert takes(model, schema, fits)
    assert not takes(model, schema, does_not)


REFUSED = [
    ("{", "not valid JSON"),
    ("[1]", "must be an object"),
    ('{"type": "text"}', 'the type "text"'),
    ('{"$ref": "https://example.com/schema.json"}', "only references into itself"),
    ('{"properties": {"a": {"$ref": "other.json#/b"}}}', "only references into itself"),
    ('{"$ref": "#/$defs/missing"}', "which it does not have"),
    ('{"$ref": "#"}', None),
    ('{"anyOf": []}', "must be a list of schemas"),
    ('{"properties": {"a": false}}', "says `false`"),
    ('{"properties": {"a": 3}}', "where a schema must stand"),
    ('{"allOf": [{"type": "string"}, {"type": "integer"}]}', "allOf must be of objects"),
    ('{"type": "string", "pattern": "a(?=b)"}', "cannot be made into a grammar"),
    ('{"type": "string", "maxLength": "many"}', "cannot be made into a grammar"),
    ('{"type": "string", "maxLength": 5000}', "more than 2,000"),
    ('{"enum": []}', "enum must be a list"),
    ('{"items": ' * 5000 + "{}" + "}" * 5000, "nests too deep|not valid JSON"),
]


@pytest.mark.parametrize(("schema", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_no_schema_is_refused_in_one_line(schema: str, reason: str | None) -> None:
    with pytest.raises(EngineError, match=reason) as error:
        gbnf.check(grammar_of(schema)[0])
    assert "\n" not in str(error.value)


def test_references_are_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with assertions switched off, which is all that stops the converter."""
    import socket

    monkeypatch.setattr(socket, "socket", lambda *_: pytest.fail("a connection was opened"))
    with pytest.raises(EngineError, match="only references into itself"):
        grammar_of('{"properties": {"a": {"$ref": "https://example.com/a.json"}}}')


def test_what_is_not_enforced_is_named() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}, "m": {"format": "email"}}}
    assert grammar_of(json.dumps(schema))[1] == ["format", "minimum"]
    assert grammar_of('{"type": "integer", "title": "n"}')[1] == []
