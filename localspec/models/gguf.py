"""What a GGUF file says about itself: metadata, special tokens, vocabulary, tensor table.

Format: docs/gguf.md of ggml; what is refused here is what llama.cpp's gguf.cpp refuses, said in words and before the
native library sees the file. Versions 2 and 3, little endian.
"""

import math
import os
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple

from localspec.models.errors import DamagedGGUF, ModelError, NotAModel, NotGGUF, UnreadableFile, named, plain
from localspec.models.gguf_bytes import Cursor
from localspec.models.gguf_facts import Facts
from localspec.models.gguf_types import ARRAY, BOOL, ENCODERS, SCALARS, STRING, TENSOR_TYPES

MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_DIMENSIONS = 4
MAX_TENSOR_NAME = 63  # bytes
"""llama.cpp refuses longer names."""

KEPT_NUMBERS = 4096
"""Lists of numbers up to this length are kept (per-layer values); longer ones belong to the tokenizer."""
KEPT_TEXTS = 64

TOKENS = "tokenizer.ggml.tokens"
TOKEN_TYPES = "tokenizer.ggml.token_type"

Value = int | float | bool | str | tuple[int | float, ...] | tuple[str, ...]


class Tensor(NamedTuple):
    """One row of the tensor table. `shape` as stored, the row length first; `offset` in bytes from the data section's
    start; `size` in bytes."""

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    size: int
    elements: int


@dataclass(frozen=True)
class Header(Facts):
    """A GGUF's header. The facts with names (`architecture`, `block_count`, `chat_template`, ...) are properties, in
    `Facts`; None means that the file does not say.

    `metadata` holds scalars, texts and short lists by their GGUF key; `lengths` the length of every list. `tokens`
    (the raw bytes as stored, so byte-level spelling for byte-pair vocabularies) and `token_types` are there when they
    were asked for.
    """

    path: Path
    version: int
    file_bytes: int
    data_offset: int
    alignment: int
    metadata: dict[str, Value]
    lengths: dict[str, int]
    tensors: tuple[Tensor, ...]
    tokens: list[bytes] | None = field(default=None, repr=False)
    token_types: tuple[int, ...] | None = field(default=None, repr=False)

    @cached_property
    def tensor_bytes(self) -> int:
        return sum(t.size for t in self.tensors)

    @cached_property
    def parameters(self) -> int:
        return sum(t.elements for t in self.tensors)

    @property
    def expected_bytes(self) -> int:
        """Size the file must at least have, from the tensor table."""
        return self.data_offset + max((t.offset + t.size for t in self.tensors), default=0)


def read_header(path: Path, *, tokens: bool = False) -> Header:
    """The header of the GGUF at `path`, with the token texts when `tokens`.

    Raises `UnreadableFile`, `NotGGUF` or `DamagedGGUF`. Whether the tensors' data is there is `check_file`'s question.
    """
    try:
        # A named pipe would block the open, a device has no size: look first.
        if not stat.S_ISREG(path.stat().st_mode):
            what = "a folder" if path.is_dir() else "not a plain file"
            raise UnreadableFile(f"{named(path)} is {what}: name the .gguf file itself")
        with path.open("rb") as file:
            return parse_header(file, os.fstat(file.fileno()).st_size, path, tokens=tokens)
    except ModelError:
        raise
    except FileNotFoundError:
        raise UnreadableFile(f"{named(path)} does not exist: check the path, or fetch the model again") from None
    except PermissionError:
        raise UnreadableFile(f"{named(path)} may not be read: check its permissions") from None
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{named(path)} cannot be read: {plain(str(error))}") from None


def parse_header(file: BinaryIO, size: int, path: Path, *, tokens: bool = False) -> Header:
    """`read_header` on an open file of `size` bytes; `path` is for messages."""
    try:
        return _parse(file, size, path, tokens)
    except DamagedGGUF as error:
        raise DamagedGGUF(f"{named(path)} is damaged: {error}; fetch or copy it again") from None


def check_file(header: Header) -> None:
    """Holds the tensor table against the file's size: `DamagedGGUF` when the file ends before its tensors do, or when
    they do not lie one after the other as llama.cpp requires."""
    where = named(header.path)
    expected = 0
    for tensor in header.tensors:
        if tensor.offset != expected:
            raise DamagedGGUF(
                f"{where} is damaged: tensor {plain(tensor.name)} is said to start at {tensor.offset:,}, where "
                f"{expected:,} is right; fetch or copy it again"
            )
        expected = padded(tensor.offset + tensor.size, header.alignment)
    if header.expected_bytes > header.file_bytes:
        share = header.file_bytes / header.expected_bytes
        raise DamagedGGUF(
            f"{where} is incomplete: {header.file_bytes:,} of {header.expected_bytes:,} bytes ({share:.0%}); "
            "fetch or copy it again"
        )


def check_model(header: Header) -> None:
    """`NotAModel` when the file is no language model that can be loaded by itself."""
    where = named(header.path)
    if header.split_no > 0:
        raise NotAModel(
            f"{where} is part {header.split_no + 1} of {header.split_count}: name the first part, the others are found "
            "beside it"
        )
    if header.general_type not in (None, "model") or header.architecture in ("", "clip"):
        what = plain(header.general_type or header.architecture or "GGUF without an architecture")
        raise NotAModel(f"{where} is no language model ({what}): name a model file")
    if header.architecture in ENCODERS:
        raise NotAModel(f"{where} makes embeddings and no text ({header.architecture}): name another model")
    if not header.tensors and header.split_count < 2:
        raise NotAModel(f"{where} holds a vocabulary and no weights: name a model file")


def _parse(file: BinaryIO, size: int, path: Path, tokens: bool) -> Header:
    cursor = Cursor(file, size)
    version = _version(cursor, size, path)
    tensor_count = cursor.u64("the tensor count")
    key_count = cursor.u64("the metadata count")
    # The smallest entries: a key of one letter with one byte; a tensor with a name of one letter.
    _plausible(key_count, 14, size, MAX_KEYS, "metadata keys")
    _plausible(tensor_count, 25, size, MAX_TENSORS, "tensors")

    metadata: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    texts: list[bytes] | None = [] if tokens else None
    types: tuple[int, ...] | None = None
    for _ in range(key_count):
        key = _name(cursor, "a metadata key")
        if key in metadata or key in lengths:
            raise DamagedGGUF(f"the key {plain(key)} is there twice")
        kind = cursor.u32(key)
        if kind != ARRAY:
            metadata[key] = _value(cursor, kind, key)
            continue
        element, count = cursor.u32(key), cursor.u64(key)
        lengths[key] = count
        if key == TOKENS:
            if element != STRING:
                raise DamagedGGUF(f"the key {key} should be a list of texts")
            cursor.texts(count, key, texts)
        elif key == TOKEN_TYPES and tokens and element in SCALARS:
            types = tuple(int(n) for n in cursor.numbers(element, count, key))
        else:
            kept = _list(cursor, element, count, key)
            if kept is not None:
                metadata[key] = kept
    alignment = metadata.get("general.alignment", 32)
    # bool is an int to Python, and no alignment.
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise DamagedGGUF(f"the alignment {plain(str(alignment))} is no power of two")
    table = _tensors(cursor, tensor_count, path)
    header = Header(
        path=path,
        version=version,
        file_bytes=size,
        data_offset=padded(cursor.position, alignment) if table else cursor.position,
        alignment=alignment,
        metadata=metadata,
        lengths=lengths,
        tensors=table,
        tokens=texts if TOKENS in lengths else None,
        token_types=types,
    )
    header.validate()
    return header


def _version(cursor: Cursor, size: int, path: Path) -> int:
    where = named(path)
    if size == 0:
        raise NotGGUF(f"{where} is empty: fetch or copy it again")
    start = cursor.take(min(size, 64), "the start")
    if start[:4] != b"GGUF":
        if b"GGUF".startswith(start[:4]):
            raise DamagedGGUF("it ends inside its first bytes")
        raise NotGGUF(f"{where} is not a GGUF file: {_looks_like(start)}")
    if size < 24:
        raise DamagedGGUF(f"it ends after {size} bytes")
    cursor.rewind(4)
    version = cursor.u32("the version")
    if version & 0xFFFF == 0:
        raise NotGGUF(f"{where} is a big-endian GGUF, which llama.cpp cannot load here: fetch a little-endian one")
    if version == 1:
        raise NotGGUF(f"{where} is a GGUF of version 1, which llama.cpp no longer loads: fetch a newer conversion")
    if version > 3:
        raise NotGGUF(f"{where} is a GGUF of version {version}; versions 2 and 3 can be loaded: look for an update")
    return version


def _looks_like(start: bytes) -> str:
    """What the file is instead, and what to do."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer; fetch the file it points to (`git lfs pull`, or download it)"
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        return "it is a web page, so the download was an error or a login page; fetch it again"
    if start[8:9] == b"{":
        return "it looks like safetensors; fetch a GGUF conversion of the model"
    if start[:4] in (b"PK\x03\x04", b"\x1f\x8b\x08\x00", b"\x1f\x8b\x08\x08"):
        return "it is a compressed archive; unpack it first"
    if start[:4] in (b"ggjt", b"tjgg", b"lmgg", b"ggml", b"fmgg", b"algg"):
        return "it is in a format from before GGUF; fetch a newer conversion"
    if text.startswith(b"{"):
        return "it is JSON, perhaps a server's error message; fetch it again"
    return f"it starts with {plain(repr(start[:4]))}; name another file, or fetch it again"


def _plausible(count: int, smallest: int, size: int, limit: int, what: str) -> None:
    if count > limit or count * smallest > size:
        raise DamagedGGUF(f"it claims {count:,} {what}")


def _name(cursor: Cursor, what: str) -> str:
    raw = cursor.text(what)
    if not raw or len(raw) > 4096:
        raise DamagedGGUF(f"{what} has {len(raw):,} bytes")
    return raw.decode("utf-8", "replace")


def _value(cursor: Cursor, kind: int, key: str) -> Value:
    if kind == STRING:
        return cursor.text(key).decode("utf-8", "replace")
    if kind not in SCALARS:
        raise DamagedGGUF(f"{plain(key)} has the unknown type {kind}")
    value = cursor.scalar(kind, key)
    return bool(value) if kind == BOOL else value


def _list(cursor: Cursor, element: int, count: int, key: str) -> tuple[int | float, ...] | tuple[str, ...] | None:
    """A short list's values; None for a long one, which is passed over."""
    if element == STRING:
        into: list[bytes] | None = [] if count <= KEPT_TEXTS else None
        cursor.texts(count, key, into)
        return None if into is None else tuple(text.decode("utf-8", "replace") for text in into)
    if element not in SCALARS:
        raise DamagedGGUF(f"{plain(key)} is a list of the unknown type {element}")
    if count <= KEPT_NUMBERS:
        return cursor.numbers(element, count, key)
    cursor.skip_numbers(element, count, key)
    return None


def _tensors(cursor: Cursor, count: int, path: Path) -> tuple[Tensor, ...]:
    table: dict[str, Tensor] = {}
    for _ in range(count):
        raw, shape, kind, offset = cursor.tensor_row(MAX_TENSOR_NAME, MAX_DIMENSIONS)
        name = raw.decode("utf-8", "replace")
        if not name or name in table:
            raise DamagedGGUF(f"the tensor {plain(name)} is there twice" if name else "a tensor has no name")
        layout = TENSOR_TYPES.get(kind)
        if layout is None:
            raise NotGGUF(
                f"{named(path)} has tensors of the type {kind}, which this version of llama.cpp does not know: look "
                "for an update, or take another quantisation"
            )
        elements = math.prod(shape)
        if elements >= 1 << 63 or shape[0] % layout.block:
            sizes = " x ".join(map(str, shape))
            raise DamagedGGUF(f"the tensor {plain(name)} has the impossible shape {sizes} for {layout.name}")
        table[name] = Tensor(name, layout.name, shape, offset, elements // layout.block * layout.size, elements)
    return tuple(table.values())


def padded(size: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // alignment) * alignment
