"""MTP heads: layers behind the last one that guess the token after the next, as DeepSeek-V3 has them (arXiv:2412.19437,
section 2.2; llama.cpp says NextN).

A head reads each token beside the hidden row that the target's last layer gave for the token before it (zeros at
position 0), and has a KV cache of its own. With one head in the file it drafts on with its own rows; with several, the
n-th drafts the n-th token: each reads the whole draft anew.
"""

import ctypes
import glob
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as native
import numpy as np
from llama_cpp import _ggml
from llama_cpp import llama_cpp_ext as extension
from numpy.typing import NDArray

from localspec.engine.context import SEQUENCE, Context, ContextOptions, RollbackDepth
from localspec.engine.errors import DecodeError
from localspec.engine.llama import AbortFlag, Model
from localspec.engine.requests import KvType
from localspec.nextn import can_run, needed_tensors

Rows = NDArray[np.float32]
"""Hidden rows, shape (tokens, hidden width)."""


class HeadContext(Context):
    """The heads' cache: `tokens[i]` was read beside the hidden row of the token before it, from `first` on.

    `heads` is how many there are; all of them hold the same positions. `decode` by itself reads beside whatever rows
    were there last.
    """

    _KIND = native.LLAMA_CONTEXT_TYPE_MTP

    def __init__(self, model: Model, options: ContextOptions, abort: AbortFlag | None = None) -> None:
        self.heads = max(1, model.mtp_layers)
        self.first = 0
        super().__init__(model, replace(options, outputs=1, rollback=0, hidden=False), abort)
        if model.sliding_window and not options.swa_full:
            self.depth = RollbackDepth("window", model.sliding_window)
        # Rows of the tokens whose logits are wanted: the last one's, which the next guess is made from.
        extension.llama_set_embeddings_nextn(self._ctx, True, True)
        rows = np.ctypeslib.as_array(self._batch.embd, shape=(self.options.batch * self.hidden_width,))
        self._rows = rows.reshape(self.options.batch, self.hidden_width)
        self._rows[:] = 0

    def _new_batch(self) -> Any:
        """A batch with room for rows beside tokens: the library allocates one or the other."""
        batch = native.llama_batch_init(self.options.batch, int(native.llama_model_n_embd_out(self.model.handle)), 1)
        self._ids = (native.llama_token * self.options.batch)()
        batch.token = ctypes.cast(self._ids, ctypes.POINTER(native.llama_token))
        return batch

    def start_at(self, tokens: Sequence[int]) -> None:
        """Empty the cache; what is read next stands behind `tokens`, which stay unread: their rows are not known."""
        self.clear()
        self.tokens[:] = tokens
        self.first = len(tokens)

    def read(self, tokens: Sequence[int], rows: Rows) -> None:
        """Append `tokens` to every head's cache, `rows[i]` beside `tokens[i]`. Raises `Aborted` and `DecodeError`."""
        size, start = self.options.batch, len(self.tokens)
        for at in range(0, len(tokens), size):
            part = tokens[at : at + size]
            for head in range(self.heads):
                self._at_head(head, start + at, part, rows[at : at + size], 0)

    def guess(self, start: int, tokens: Sequence[int], rows: Rows) -> tuple[Rows, Rows]:
        """Logits (one row) of what follows `tokens`, which come behind the first `start`, and the hidden row (one) to
        go on with.

        With one head a single token; with several, all that were drafted so far, and the one they follow: head number
        `len(tokens) - 1` is asked. The logits are a view that the next pass overwrites. Raises as `read`.
        """
        head = len(tokens) - 1
        if head and self.heads == 1:
            # Of a wider pass the library would hand out the first token's row.
            raise DecodeError("a single head guesses from one token")
        logits = self._at_head(head, start, tokens, rows, 1)
        hidden = extension.llama_get_embeddings_nextn_ith(self._ctx, head)
        return logits[-1], np.ctypeslib.as_array(hidden, shape=(1, self.hidden_width)).copy()

    def rehearse(self, tokens: Sequence[int]) -> int:
        """As the base says: what was accepted is read before, and each head has its turn."""
        row, start = self._rows[:1].copy(), len(self.tokens) + 1
        self.read(tokens[:1], row)
        count = len(tokens) if self.heads == 1 else min(len(tokens), self.heads)
        for i in range(count):
            if self.heads == 1:
                self.guess(start + i, tokens[i : i + 1], row)
            else:
                self.guess(start, tokens[: i + 1], np.repeat(row, i + 1, axis=0))
        return count

    def share_of(self, target: Context) -> float:
        """As the base says: one layer of the target's and its output matrix are read for a guess."""
        model = self.model
        output = model.vocab_size * int(native.llama_model_n_embd(model.handle))
        return min(1.0, 1 / max(1, model.layers) + output / max(1, int(native.llama_model_n_params(model.handle))))

    def clear(self) -> None:
        super().clear()
        self.first = 0

    def truncate(self, keep: int) -> int:
        """As the base says; there is nothing to keep of what was never read."""
        if keep <= self.first:
            self.clear()
        return super().truncate(keep)

    def _at_head(self, head: int, start: int, tokens: Sequence[int], rows: Rows, wanted: int) -> Rows:
        """One pass of one head behind the first `start` tokens. The cells that another head filled there are taken
        again: they belong to all, each has its own layer in them. So they are given up and not cleared."""
        if len(self.tokens) > start:
            if not native.llama_memory_seq_rm(self._memory, SEQUENCE, start, -1):
                raise DecodeError("the heads' cache cannot be cut back")
            del self.tokens[start:]
        if self.heads > 1:
            extension.llama_set_nextn_layer_offset(self._ctx, head)
        self._rows[: len(tokens)] = rows
        return self.decode(tokens, wanted)

    def close(self) -> None:
        if self._ctx:
            # Not the library's to free.
            self._batch.token = ctypes.POINTER(native.llama_token)()
        super().close()


def runnable_heads(model: Model) -> int:
    """How many heads the model, loaded with them, can run; 0 when its file names some and has none of their tensors, or
    the library cannot run them."""
    heads = model.mtp_layers
    if not can_run(model.meta("general.architecture") or "", heads):
        return 0
    missing = set(needed_tensors(model.layers, heads))
    for part in _parts(Path(model.path)):
        missing -= _held(part, missing)
    return 0 if missing else heads


def bytes_per_token(model: Model, kv_type: KvType) -> int:
    """What heads add to the memory of a token of context: their caches, and the hidden row."""
    return model.kv_bytes_per_token(kv_type) * model.mtp_layers // max(1, model.layers) + 4 * int(
        native.llama_model_n_embd_out(model.handle)
    )


def _parts(path: Path) -> list[Path]:
    """The files of a model: all parts of a split one."""
    split = re.fullmatch(r"(.*-)\d{5}(-of-\d{5}\.gguf)", path.name)
    if split is None:
        return [path]
    before, after = map(glob.escape, split.groups())
    return sorted(path.parent.glob(before + "[0-9]" * 5 + after))


class _InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


def _held(file: Path, names: set[str]) -> set[str]:
    """Those of the tensors `names` that a GGUF file has."""
    lib = _ggml.libggml
    lib.gguf_init_from_file.argtypes, lib.gguf_init_from_file.restype = [ctypes.c_char_p, _InitParams], ctypes.c_void_p
    lib.gguf_find_tensor.argtypes, lib.gguf_find_tensor.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_int64
    lib.gguf_free.argtypes = [ctypes.c_void_p]
    opened = lib.gguf_init_from_file(os.fsencode(file), _InitParams(True, None))
    if not opened:
        return set()
    try:
        return {name for name in names if lib.gguf_find_tensor(opened, name.encode()) >= 0}
    finally:
        lib.gguf_free(opened)
