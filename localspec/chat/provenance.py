"""The tokens and cycles of an answer as a few bytes each, and back: how an old answer opens with its colours.

Columns of numbers as compressed JSON: about four bytes a token, readable by anything, and a reader that finds a
newer form than it knows says so instead of guessing.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from localspec.chat.splitting import Part
from localspec.engine.events import Cycle, DrafterName, Kind, Source, Token

FORM = 1

KINDS: tuple[Kind, ...] = ("plain", "accepted", "resampled", "bonus")
DRAFTERS: tuple[DrafterName, ...] = ("none", "lookup", "draft", "mtp", "self", "grammar")
"""Numbered by their place: only ever append."""

TICKS_PER_S = 10_000
"""Token times are kept to a tenth of a millisecond."""

_CYCLE = tuple(field.name for field in fields(Cycle))


def pack(parts: Sequence[Part], cycles: Sequence[Cycle]) -> bytes:
    """The tokens without their text (it is the message's own) and the cycles."""
    tokens = [part.token for part in parts]
    copied = [(index, token.source) for index, token in enumerate(tokens) if token.source is not None]
    names = sorted({source.name for _, source in copied})
    columns = {
        "form": FORM,
        "id": [token.id for token in tokens],
        "text": [len(part.text) for part in parts],
        "thought": [len(part.thought) for part in parts],
        "kind": [KINDS.index(token.kind) for token in tokens],
        "drafter": [DRAFTERS.index(token.drafter) for token in tokens],
        "cycle": [token.cycle for token in tokens],
        "t": [round(token.t * TICKS_PER_S) for token in tokens],
        "control": [index for index, token in enumerate(tokens) if token.control],
        "sources": names,
        "source": [(index, names.index(source.name), source.line) for index, source in copied],
        "cycles": {name: [_flat(getattr(cycle, name)) for cycle in cycles] for name in _CYCLE},
    }
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode("utf-8"))


def _flat(value: object) -> object:
    return (value.name, value.line) if isinstance(value, Source) else value


def unpack(data: bytes, text: str, thoughts: str) -> tuple[list[Part], list[Cycle]]:
    """What `pack` was given, the texts cut out of the message's. A token's own text is its shares joined.

    Raises ValueError when the data is damaged, of another form, or of another text.
    """
    try:
        columns = json.loads(zlib.decompress(data))
        if columns["form"] != FORM:
            raise ValueError(f"provenance of form {columns['form']}, which a newer localspec wrote")
        return _parts(columns, text, thoughts), _cycles(columns["cycles"])
    except (zlib.error, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"damaged provenance ({type(error).__name__})") from None


def _parts(columns: dict[str, Any], text: str, thoughts: str) -> list[Part]:
    if sum(columns["text"]) != len(text) or sum(columns["thought"]) != len(thoughts):
        raise ValueError("the provenance belongs to another text")
    control = set(columns["control"])
    # An answer kept before sources were told of has none.
    names = columns.get("sources", [])
    sources = {index: Source(names[name], line) for index, name, line in columns.get("source", [])}
    parts = []
    at = thought_at = 0
    rows = zip(
        columns["id"], columns["text"], columns["thought"], columns["kind"], columns["drafter"], columns["cycle"],
        columns["t"], strict=True,
    )  # fmt: skip
    for index, (token, length, thought_length, kind, drafter, cycle, ticks) in enumerate(rows):
        share = text[at : at + length]
        thought = thoughts[thought_at : thought_at + thought_length] if thought_length else ""
        at += length
        thought_at += thought_length
        spelled = Token(
            token, thought + share, KINDS[kind], DRAFTERS[drafter], cycle, ticks / TICKS_PER_S, index in control,
            sources.get(index),
        )  # fmt: skip
        parts.append(Part(spelled, share, thought))
    return parts


def _cycles(columns: dict[str, list[Any]]) -> list[Cycle]:
    # A field that came later has its default in an old answer.
    known = [name for name in _CYCLE if name in columns]
    rows = (dict(zip(known, row, strict=True)) for row in zip(*(columns[name] for name in known), strict=True))
    return [Cycle(**{**row, "source": Source(*row["source"]) if row.get("source") else None}) for row in rows]


def token_json(part: Part) -> dict[str, Any]:
    """One token for an export, in the words of the `--json` lines."""
    token = part.token
    line: dict[str, Any] = {
        "id": token.id, "text": part.text, "kind": token.kind, "drafter": token.drafter, "cycle": token.cycle,
        "t": token.t,
    }  # fmt: skip
    if part.thought:
        line["thought"] = part.thought
    if token.control:
        line["control"] = True
    if token.source is not None:
        line["source"] = asdict(token.source)
    return line


def part_of(line: dict[str, Any]) -> Part:
    """The token that `token_json` described; raises ValueError for anything else."""
    text, thought = line["text"], line.get("thought", "")
    kind, drafter = line["kind"], line["drafter"]
    numbers = (line["id"], line["cycle"])
    if not (isinstance(text, str) and isinstance(thought, str)):
        raise ValueError("a token's text must be a text")
    if kind not in KINDS or drafter not in DRAFTERS:
        raise ValueError(f"a token of kind {kind!r} by {drafter!r}")
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError("a token's id and cycle must be whole numbers")
    token = Token(
        line["id"], thought + text, kind, drafter, line["cycle"], float(line["t"]), "control" in line,
        source_of(line.get("source")),
    )  # fmt: skip
    return Part(token, text, thought)


def source_of(line: object) -> Source | None:
    """The place that an exported token or cycle was copied from; raises ValueError for anything else."""
    match line:
        case None:
            return None
        case {"name": str(name), "line": int(number), **more} if not more:
            return Source(name, number)
    raise ValueError(f"{line!r} is no place that a text was copied from")


def cycle_json(cycle: Cycle) -> dict[str, Any]:
    return asdict(cycle)
