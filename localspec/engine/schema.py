"""JSON schemas, brought into the form that llama-cpp-python's converter turns into a grammar without mistakes.

The converter names a rule after the last part of a `$ref`, and takes another rule of that name for it; it drops what
stands beside a list of types, takes a schema that allows anything for an object, and knows no `true`. All of that is
written out first, and the texts its grammar would allow inside a string are cut to those that JSON does. References
into the network or other files are refused, never followed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from localspec.engine.errors import EngineError

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

ANYTHING = {"anyOf": [{"type": name} for name in TYPES if name != "integer"]}

_FORMATS = ("date", "time", "date-time", "uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5")

_ANNOTATIONS = frozenset({
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "nullable", "strict",
})  # fmt: skip
"""Keywords that bound nothing."""

_NOT_ENFORCED = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "contains", "not", "if",
    "then", "else", "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired",
    "dependentSchemas", "unevaluatedProperties", "unevaluatedItems",
})  # fmt: skip
"""Keywords that bound something, and that a grammar made by the converter does not know."""

_SHAPES = frozenset({"type", "properties", "additionalProperties", "items", "prefixItems", "pattern", "format"})
"""Keywords that say what kind of value this is."""

_SUBSCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")


_CHARACTER = r"""[^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])"""
_DOT = r"""[^"\\\x7F\x00-\x1F]"""
_NEST = re.compile(r"\((?P<item>[\w-]+)(?P<more>(?: \((?P=item))+)(?P<ends>(?:\)\?)+)")


def grammar_of(text: str) -> tuple[str, list[str]]:
    """The grammar (GBNF) of the JSON texts that fit the schema `text`, and the keywords it does not enforce.

    Raises `EngineError` for what is no schema, or what the converter cannot express.
    """
    # Here, because who only checks a schema (`prepare`) has no use for the native library.
    from localspec.engine.grammar_state import schema_to_gbnf

    prepared, not_enforced = prepare(text)
    try:
        grammar = schema_to_gbnf(prepared)
    except RecursionError:
        raise EngineError("the JSON schema nests too deep") from None
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise EngineError(f"the JSON schema cannot be made into a grammar: {reason[:200]}") from None
    grammar = re.sub(r"(?m)^char ::= .*$", lambda _: f"char ::= {_CHARACTER}", grammar)
    grammar = re.sub(r"(?m)^dot ::= .*$", lambda _: f"dot ::= {_DOT}", grammar)
    return _NEST.sub(_repeated, grammar), not_enforced


def _repeated(nest: re.Match[str]) -> str:
    """`(x (x (x)?)?)?` as `x{0,3}`: llama.cpp's parser counts what is nested, and follows it by recursion."""
    item, count, ends = nest["item"], 1 + nest["more"].count("("), nest["ends"].count(")")
    if ends < count:
        return nest[0]
    return f"{item}{{0,{count}}}" + ")?" * (ends - count)


def prepare(text: str) -> tuple[str, list[str]]:
    """The schema `text` in the converter's form, and which of its keywords the grammar will not enforce.

    Raises `EngineError` for what is no schema, or needs something from outside the text.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineError(f"the JSON schema is not valid JSON: {error}") from None
    if schema is True or schema == {}:
        schema = {"type": "object"}
    if not isinstance(schema, dict):
        raise EngineError("the JSON schema must be an object")
    try:
        rewriter = _Rewriter(schema)
        result = rewriter.schema()
    except RecursionError:
        raise EngineError("the JSON schema nests too deep") from None
    return json.dumps(result), sorted(rewriter.not_enforced)


class _Rewriter:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self.not_enforced: set[str] = set()
        names = set(_keys(root))
        self._prefix = "def"
        # A rule named like one the converter makes of a property would be taken for it.
        while any(self._prefix in name for name in names):
            self._prefix += "f"
        self._targets: dict[str, str] = {}
        self._waiting: list[tuple[str, Any]] = []

    def schema(self) -> dict[str, Any]:
        result = self._rewrite(self._root)
        if "$ref" in result:
            # Beside a reference the converter looks at nothing, the definitions included.
            result = {"anyOf": [result]}
        definitions = {}
        while self._waiting:
            name, target = self._waiting.pop()
            definitions[name] = self._rewrite(target)
        return {**result, "$defs": definitions} if definitions else result

    def _rewrite(self, schema: Any) -> dict[str, Any]:
        if schema is True:
            return dict(ANYTHING)
        if schema is False:
            raise EngineError("the JSON schema says `false` where a value must stand")
        if not isinstance(schema, dict):
            raise EngineError(f"the JSON schema has {json.dumps(schema)[:40]} where a schema must stand")
        if (ref := schema.get("$ref")) is not None:
            return {"$ref": self._local(ref)}
        self.not_enforced |= schema.keys() & _NOT_ENFORCED
        result = {key: value for key, value in schema.items() if key not in _ANNOTATIONS | _NOT_ENFORCED}
        kind = result.get("type")
        for name in kind if isinstance(kind, list) else [kind]:
            if name is not None and name not in TYPES:
                raise EngineError(f"the JSON schema has the type {json.dumps(name)[:40]}, which JSON does not")
        if "enum" in result or "const" in result:
            return self._values(result)
        if isinstance(kind, list):
            return self._rewrite({"anyOf": [{**result, "type": name} for name in kind]})
        if "format" in result and result["format"] not in _FORMATS:
            self.not_enforced.add("format")
            del result["format"]
        for key in _SUBSCHEMAS:
            if key in result:
                if not isinstance(result[key], list) or not result[key]:
                    raise EngineError(f"the JSON schema's {key} must be a list of schemas")
                result[key] = [self._rewrite(each) for each in result[key]]
        if "anyOf" in result or "oneOf" in result:
            if beside := result.keys() - {"anyOf", "oneOf", "type"}:
                self.not_enforced |= beside
            return {"anyOf": result.get("anyOf") or result["oneOf"]}
        if "allOf" in result:
            return self._all(result)
        if result.get("required") and result.get("type") in (None, "object"):
            result["properties"] = {**dict.fromkeys(result["required"], True), **result.get("properties", {})}
        if "properties" in result:
            if not isinstance(result["properties"], dict):
                raise EngineError("the JSON schema's properties must be an object")
            result["properties"] = {name: self._rewrite(each) for name, each in result["properties"].items()}
        if isinstance(result.get("additionalProperties"), dict) or (
            result.get("additionalProperties") is True and "properties" in result
        ):
            result["additionalProperties"] = self._rewrite(result["additionalProperties"])
        return self._items(result) if result.keys() - {"additionalProperties"} else _object_or_anything(result)

    def _all(self, result: dict[str, Any]) -> dict[str, Any]:
        """The converter joins the properties of objects; of anything else it would make an empty object."""
        self.not_enforced |= result.keys() - {"allOf", "type"}
        if len(result["allOf"]) == 1:
            only: dict[str, Any] = result["allOf"][0]
            return only
        for part in result["allOf"]:
            names = {name: ref for ref, name in self._targets.items()}
            whole = self._find(names[part["$ref"].rsplit("/", 1)[1]]) if "$ref" in part else part
            if not isinstance(whole, dict) or "properties" not in whole:
                raise EngineError("the JSON schema's allOf must be of objects with properties")
        return {"allOf": result["allOf"]}

    def _items(self, result: dict[str, Any]) -> dict[str, Any]:
        if "pattern" in result:
            result["pattern"] = _pattern(result["pattern"])
        if "prefixItems" in result:
            if result.pop("items", False) is not False:
                self.not_enforced.add("items")
            if result.pop("minItems", 0) or result.pop("maxItems", 0):
                # The tuple has its own length.
                result.pop("maxItems", None)
        elif isinstance(result.get("items"), list):
            result["items"] = [self._rewrite(each) for each in result["items"]]
        elif result.get("items") in (True, {}) or (
            "items" not in result and result.get("type") == "array" and result.keys() & {"minItems", "maxItems"}
        ):
            result["items"] = dict(ANYTHING)
        elif "items" in result:
            result["items"] = self._rewrite(result["items"])
        if not result.keys() & _SHAPES:
            self.not_enforced |= result.keys()
            return dict(ANYTHING)
        return result

    def _values(self, result: dict[str, Any]) -> dict[str, Any]:
        if "const" in result:
            return {"const": result["const"]}
        values = result["enum"]
        if not isinstance(values, list) or not values:
            raise EngineError("the JSON schema's enum must be a list of values")
        return {"enum": values}

    def _local(self, ref: object) -> str:
        """The reference under its new name; the schema it points to is rewritten later."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise EngineError(
                f"the JSON schema refers to {json.dumps(ref)[:80]}: only references into itself (#/...) work"
            )
        if ref not in self._targets:
            self._targets[ref] = f"{self._prefix}{len(self._targets)}"
            self._waiting.append((self._targets[ref], self._find(ref)))
        return f"#/$defs/{self._targets[ref]}"

    def _find(self, ref: str) -> Any:
        target: Any = self._root
        for part in unquote(ref[1:]).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = target[key]
            elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                raise EngineError(f"the JSON schema refers to {ref[:80]}, which it does not have")
        return target


def _object_or_anything(result: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", **result} if result else dict(ANYTHING)


def _pattern(pattern: object) -> str:
    """A regular expression with both anchors, whose classes are spelled out and match nothing JSON forbids in a string.

    The converter knows neither `\\d` and `\\w` nor expressions that match in the middle.
    """
    if not isinstance(pattern, str):
        raise EngineError("the JSON schema's pattern must be a text")
    spelled = ""
    inside = False
    for part in re.findall(r"\\.|\[\^|.", pattern, re.DOTALL):
        if part in ("\\d", "\\w"):
            ranges = "0-9" if part == "\\d" else "A-Za-z0-9_"
            part = ranges if inside else f"[{ranges}]"
        elif part == "[^" and not inside:
            part = _DOT[:-1]
        inside = part[0] == "[" and not part.endswith("]") if not inside else part != "]"
        spelled += part
    if spelled.startswith("^") and spelled.endswith("$"):
        return spelled
    before = "" if spelled.startswith("^") else ".*"
    after = "" if spelled.endswith("$") else ".*"
    return f"^{before}({spelled.removeprefix('^').removesuffix('$')}){after}$"


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
