"""GGUF files byte by byte, right and wrong: what the `gguf` package would refuse to write.

`pack` makes a file's bytes from values; a number whose type matters is given as `Typed`. `model` writes a small file
with the facts of a language model and tensors of zeros: enough for headers, pairs and scans, not for decoding.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.models.gguf_types import ARRAY, SCALARS, STRING, TENSOR_TYPES

U32, F32, BOOLEAN = 4, 6, 7
TYPE_NUMBERS = {layout.name: number for number, layout in TENSOR_TYPES.items()}


@dataclass(frozen=True)
class Typed:
    """A value with its GGUF type; `raw` bytes are written as they are."""

    kind: int
    raw: bytes


def text(value: str | bytes) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def listed(element: int, count: int, raw: bytes) -> Typed:
    """A list that claims `count` elements and holds `raw`."""
    return Typed(ARRAY, struct.pack("<IQ", element, count) + raw)


def number(kind: int, value: float) -> Typed:
    return Typed(kind, struct.pack(SCALARS[kind], value))


def typed(value: Any) -> Typed:
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(BOOLEAN, bytes([value]))
    if isinstance(value, int):
        return Typed(U32, struct.pack("<I", value))
    if isinstance(value, float):
        return Typed(F32, struct.pack("<f", value))
    if isinstance(value, str | bytes):
        return Typed(STRING, text(value))
    elements = [typed(one) for one in value]
    return listed(elements[0].kind if elements else STRING, len(elements), b"".join(one.raw for one in elements))


@dataclass(frozen=True)
class Row:
    """A row of the tensor table; `offset` None continues where the one before ends."""

    name: str
    shape: Sequence[int] = (32, 4)
    type: str | int = "F32"
    offset: int | None = None


def pack(
    metadata: Mapping[str, Any],
    tensors: Sequence[Row] = (),
    *,
    version: int = 3,
    keys: int | None = None,
    rows: int | None = None,
    data: bytes | None = None,
) -> bytes:
    """The bytes of a GGUF; `keys` and `rows` overrule the counts in its head, `data` the tensors' zeros."""
    head = b"GGUF" + struct.pack(
        "<IQQ", version, len(tensors) if rows is None else rows, len(metadata) if keys is None else keys
    )
    out = bytearray(head)
    for key, value in metadata.items():
        one = typed(value)
        out += text(key) + struct.pack("<I", one.kind) + one.raw
    alignment = metadata.get("general.alignment", 32)
    alignment = alignment if isinstance(alignment, int) and alignment else 32
    end = 0
    for row in tensors:
        offset = end if row.offset is None else row.offset
        kind = TYPE_NUMBERS[row.type] if isinstance(row.type, str) else row.type
        out += text(row.name) + struct.pack("<I", len(row.shape)) + struct.pack(f"<{len(row.shape)}Q", *row.shape)
        out += struct.pack("<IQ", kind, offset)
        layout = TENSOR_TYPES.get(kind)
        if layout:
            elements = 1
            for length in row.shape:
                elements *= length
            end = -(-(offset + elements // layout.block * layout.size) // alignment) * alignment
    if tensors:
        out += bytes(-len(out) % alignment)
        out += bytes(end) if data is None else data
    return bytes(out)


VOCABULARY = ["<unk>", "<s>", "</s>", "<|a|>", "<|b|>", *(f"word{i}" for i in range(251))]


def facts(arch: str = "llama", tokens: Sequence[str | bytes] = VOCABULARY, **changes: Any) -> dict[str, Any]:
    """Metadata of a small model. `changes` are by their last key part, or whole with `__` for a dot; None removes."""
    metadata: dict[str, Any] = {
        "general.architecture": arch,
        "general.type": "model",
        "general.name": "Tiny",
        "general.file_type": 15,
        f"{arch}.block_count": 2,
        f"{arch}.context_length": 2048,
        f"{arch}.embedding_length": 32,
        f"{arch}.feed_forward_length": 64,
        f"{arch}.attention.head_count": 4,
        f"{arch}.attention.head_count_kv": 2,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": [number(5, 1)] * len(tokens),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
    }
    for name, value in changes.items():
        key = name.replace("__", ".")
        if "." not in key:
            key = next(known for known in metadata if known.endswith("." + key))
        if value is None:
            metadata.pop(key)
        else:
            metadata[key] = value
    return metadata


def weights(layers: int = 2, width: int = 32, rows: int = 256) -> list[Row]:
    """Tensors of a model whose size grows with `width`."""
    table = [Row("token_embd.weight", (width, rows)), Row("output.weight", (width, rows))]
    for layer in range(layers):
        table += [Row(f"blk.{layer}.attn_q.weight", (width, width)), Row(f"blk.{layer}.attn_norm.weight", (width,))]
    return table


def model(path: Path, arch: str = "llama", *, width: int = 32, **changes: Any) -> Path:
    """A file of a small model at `path`; `changes` as in `facts`, `width` sets its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pack(facts(arch, **changes), weights(width=width)))
    return path
