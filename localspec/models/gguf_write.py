"""Writing a GGUF that is another one without some of its layers.

Nothing is converted: tensors and metadata are copied as the bytes they are, a megabyte at a time, so that a model of
any size needs no memory. Only what counts layers is written anew: their number, lists with an entry a layer, the names
of tensors, and the table that says where they lie.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from localspec.models.gguf import Header, Tensor, padded
from localspec.models.gguf_bytes import Cursor
from localspec.models.gguf_types import ARRAY, SCALARS, STRING, TENSOR_TYPES
from localspec.models.layers import Shortening, per_layer_keys

CHUNK = 1 << 20

VERSION = 3

U32, U64 = 4, 10

_TYPE_NUMBERS = {layout.name: number for number, layout in TENSOR_TYPES.items()}

Extra = Mapping[str, str | int | Sequence[int]]
"""Metadata to add or to replace: texts, sizes (64 bits), and lists of layer numbers."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One metadata entry: its bytes are `start` to `end` of the file. `kind` is the type of the value, or of the
    list's elements when it is a list of `count`; its values begin at `values`."""

    key: str
    start: int
    end: int
    kind: int
    count: int | None
    values: int


@dataclass(frozen=True, slots=True)
class _Copied:
    """A tensor to copy: from which part, and under which name."""

    part: Header
    tensor: Tensor
    name: str


def size_of(parts: Sequence[Header], cut: Shortening) -> int:
    """About how many bytes the file will have; at most a page too many."""
    return parts[0].data_offset + sum(padded(one.tensor.size, parts[0].alignment) for one in _tensors(parts, cut))


def write_shortened(
    parts: Sequence[Header],
    cut: Shortening,
    out: BinaryIO,
    extra: Extra,
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Write the model whose files `parts` describe (one, or all of a split one) without the layers that are `cut`.

    `extra` metadata is added, replacing what has the same key. `progress` gets the bytes written so far. Raises
    `OSError`; the headers have been checked against their files (`gguf_split.read_parts`).
    """
    writer = _Writer(out, progress)
    first = parts[0]
    tensors = _tensors(parts, cut)
    with first.path.open("rb") as file:
        entries = [entry for entry in _entries(file, first.file_bytes) if not _dropped(entry.key, extra)]
        writer.put(b"GGUF" + struct.pack("<IQQ", VERSION, len(tensors), len(entries) + len(extra)))
        for entry in entries:
            changed = _changed(entry, first, cut, file)
            if changed is None:
                writer.copy(file, entry.start, entry.end - entry.start)
            else:
                writer.put(changed)
    for key, value in extra.items():
        writer.put(_encoded(key, value))
    offset = 0
    for one in tensors:
        writer.put(_row(one, offset))
        offset += padded(one.tensor.size, first.alignment)
    writer.pad(first.alignment)
    for part in parts:
        with part.path.open("rb") as file:
            for one in tensors:
                if one.part is part:
                    writer.copy(file, part.data_offset + one.tensor.offset, one.tensor.size)
                    writer.pad(first.alignment)


class _Writer:
    """Counts what it writes."""

    def __init__(self, out: BinaryIO, progress: Callable[[int], None]) -> None:
        self._out, self._progress = out, progress
        self.done = 0

    def put(self, data: bytes) -> None:
        self._out.write(data)
        self.done += len(data)

    def pad(self, alignment: int) -> None:
        self.put(b"\0" * (padded(self.done, alignment) - self.done))

    def copy(self, file: BinaryIO, start: int, size: int) -> None:
        file.seek(start)
        while size:
            data = file.read(min(CHUNK, size))
            if not data:
                raise OSError(f"{file.name} became shorter while it was read")
            self.put(data)
            size -= len(data)
            self._progress(self.done)


def _tensors(parts: Sequence[Header], cut: Shortening) -> list[_Copied]:
    """What is copied, in the order it lies in the parts."""
    places = {number: place for place, number in enumerate(cut.kept)}
    copied = []
    for part in parts:
        for tensor in part.tensors:
            layer, rest = _layer_of(tensor.name)
            if layer is None:
                copied.append(_Copied(part, tensor, tensor.name))
            elif layer in places:
                copied.append(_Copied(part, tensor, f"blk.{places[layer]}.{rest}"))
    return copied


def _layer_of(name: str) -> tuple[int | None, str]:
    """The layer's number in `blk.N.REST`, and the rest; None for a tensor of no layer."""
    start, _, rest = name.removeprefix("blk.").partition(".")
    return (int(start), rest) if name.startswith("blk.") and start.isdecimal() else (None, name)


def _entries(file: BinaryIO, size: int) -> Iterator[_Entry]:
    """The metadata of a file that was read before, entry by entry."""
    cursor = Cursor(file, size)
    cursor.skip(16, "the start")
    for _ in range(cursor.u64("the metadata count")):
        start = cursor.position
        key = cursor.text("a metadata key").decode("utf-8", "replace")
        kind = cursor.u32(key)
        count: int | None = None
        if kind == ARRAY:
            kind, count = cursor.u32(key), cursor.u64(key)
        values = cursor.position
        if kind == STRING:
            cursor.texts(1 if count is None else count, key)
        else:
            cursor.skip_numbers(kind, 1 if count is None else count, key)
        yield _Entry(key, start, cursor.position, kind, count, values)


def _dropped(key: str, extra: Extra) -> bool:
    """The parts of a split model become one file, and what is added replaces what was there."""
    return key in extra or key.startswith("split.")


def _changed(entry: _Entry, header: Header, cut: Shortening, file: BinaryIO) -> bytes | None:
    """The entry's new bytes; None: it stays as it is."""
    start = _text(entry.key) + struct.pack("<I", ARRAY if entry.count is not None else entry.kind)
    if entry.key == f"{header.architecture}.block_count":
        return start + struct.pack(SCALARS[entry.kind], len(cut.kept))
    if entry.key not in per_layer_keys(header) or entry.kind not in SCALARS or not entry.count:
        return None
    width = struct.calcsize(SCALARS[entry.kind])
    file.seek(entry.values)
    values = file.read(entry.count * width)
    kept = b"".join(values[i * width : (i + 1) * width] for i in cut.kept)
    return start + struct.pack("<IQ", entry.kind, len(cut.kept)) + kept


def _encoded(key: str, value: str | int | Sequence[int]) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", STRING) + _text(value)
    if isinstance(value, int):
        return _text(key) + struct.pack("<IQ", U64, value)
    return _text(key) + struct.pack(f"<IIQ{len(value)}I", ARRAY, U32, len(value), *value)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _row(one: _Copied, offset: int) -> bytes:
    """A row of the tensor table."""
    shape = one.tensor.shape
    kind = _TYPE_NUMBERS[one.tensor.type]
    return _text(one.name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
