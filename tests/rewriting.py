"""GGUF files made from others with the `gguf` package: what our own writer is held against, and odd files for it.

`rewrite` reads everything, keeps the layers that are named, and writes it with the package's own writer. It knows the
few keys of the test models and nothing of `localspec.models`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Tensors = dict[str, tuple[np.ndarray, gguf.GGMLQuantizationType]]


def read(path: Path) -> tuple[dict[str, gguf.ReaderField], Tensors]:
    reader = gguf.GGUFReader(path)
    return dict(reader.fields), {t.name: (np.array(t.data), t.tensor_type) for t in reader.tensors}


def rewrite(
    source: Path,
    target: Path,
    kept: Sequence[int] | None = None,
    *,
    change: Mapping[str, Any] | None = None,
    edit: Callable[[Tensors], None] | None = None,
    split: int = 0,
    architecture: str | None = None,
) -> Path:
    """`target` is `source` with the layers `kept` (None: all), the keys of `change` replaced (None removes one), the
    tensors as `edit` leaves them; `split` tensors a part, and another `architecture`, where that is wanted. Answers the
    first file written."""
    fields, tensors = read(source)
    before = fields["general.architecture"].contents()
    architecture = architecture or before
    layers = fields[f"{before}.block_count"].contents()
    kept = range(layers) if kept is None else kept
    if edit is not None:
        edit(tensors)
    out = gguf.GGUFWriter(target, architecture, split_max_tensors=split)
    for name, field in fields.items():
        if name.startswith(("GGUF.", "general.architecture", "split.")):
            continue
        value = field.contents()
        name = name.replace(f"{before}.", f"{architecture}.") if name.startswith(f"{before}.") else name
        if name in (change or {}):
            continue
        if name.endswith(".block_count"):
            value = len(kept)
        elif name.startswith(f"{architecture}.") and isinstance(value, list) and "sections" not in name:
            value = [value[i] for i in kept]
        kind, element = field.types[0], field.types[-1] if len(field.types) > 1 else None
        out.add_key_value(name, value, kind, sub_type=element)
    for name, value in (change or {}).items():
        if value is not None:
            kind = gguf.GGUFValueType.get_type(value)
            element = gguf.GGUFValueType.get_type(value[0]) if isinstance(value, list) else None
            if element == gguf.GGUFValueType.INT32:
                element = gguf.GGUFValueType.UINT32
            out.add_key_value(name, value, kind, sub_type=element)
    for name, (data, type_) in tensors.items():
        if not name.startswith("blk."):
            out.add_tensor(name, data, raw_dtype=type_)
    for place, number in enumerate(kept):
        for name, (data, type_) in tensors.items():
            if name.startswith(f"blk.{number}."):
                out.add_tensor(name.replace(f"blk.{number}.", f"blk.{place}."), data, raw_dtype=type_)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return target if not split else sorted(target.parent.glob(f"{target.stem}-00001-of-*.gguf"))[0]


def quantised(tensors: Tensors) -> None:
    """Every weight matrix of a layer as Q8_0."""
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, (data, _) in tensors.items():
        if name.startswith("blk.") and data.ndim == 2:
            tensors[name] = gguf.quants.quantize(data, kind), kind


def tied(tensors: Tensors) -> None:
    """The output is the embedding again, as in many small models: no tensor of its own."""
    del tensors["output.weight"]


def uneven(tensors: Tensors) -> None:
    """Every other layer has two key/value heads and half the feed-forward width (see `UNEVEN`)."""
    for name, (data, type_) in tensors.items():
        layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
        if layer % 2 == 0:
            continue
        if "attn_k.weight" in name or "attn_v.weight" in name:
            tensors[name] = np.concatenate([data, data[::-1]]), type_
        elif "ffn_gate" in name or "ffn_up" in name:
            tensors[name] = np.ascontiguousarray(data[: len(data) // 2]), type_
        elif "ffn_down" in name:
            tensors[name] = np.ascontiguousarray(data[:, : data.shape[1] // 2]), type_


def uneven_facts(layers: int, hidden: int = 64) -> dict[str, Any]:
    """The lists that tell of what `uneven` did: a `deci` may have such layers."""
    return {
        "deci.attention.head_count_kv": [1 + i % 2 for i in range(layers)],
        "deci.feed_forward_length": [hidden // (1 + i % 2) for i in range(layers)],
    }
