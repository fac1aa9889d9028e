"""A KV cache and the one record of what it holds: decode, truncate, save and load."""

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import llama_cpp.llama_cpp as native
import numpy as np
from llama_cpp import llama_cpp_ext as extension
from numpy.typing import NDArray

from localspec.engine.errors import DecodeError, EngineError, LoadError
from localspec.engine.llama import AbortFlag, Model, load_failure, recent_log
from localspec.engine.requests import FlashAttention, KvType

SEQUENCE = 0
"""The one sequence a conversation lives in."""

_KV_TYPES: dict[KvType, int] = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30,
}  # fmt: skip
_FLASH: dict[FlashAttention, int] = {"auto": -1, "off": 0, "on": 1}


class Aborted(EngineError):
    """A decode was ended by the abort flag; the context is back at what it held before the call."""


@dataclass(frozen=True, slots=True)
class RollbackDepth:
    """How far a context can be cut back, as a probe found by behaviour (`probe.py`).

    `unlimited`: to any point. `window`: checked at every cut against the sliding window's oldest kept position.
    `last_pass`: at most `tokens` tokens, inside the last decode. `none`: only clearing.
    """

    kind: Literal["unlimited", "window", "last_pass", "none"]
    tokens: int = 0

    def __str__(self) -> str:
        words = {"unlimited": "unlimited", "window": f"window of {self.tokens} tokens"}
        return words.get(self.kind) or (f"the last pass, {self.tokens} tokens" if self.tokens else "none")


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How a context is made. `outputs` is the most logit rows one decode may ask for; asking for more would abort.
    `hidden` keeps what the last layer says of every token, for an MTP head to read (`Context.hidden`)."""

    context: int
    batch: int = 512
    outputs: int = 1
    threads: int = 1
    kv_type: KvType = "f16"
    flash_attn: FlashAttention = "auto"
    swa_full: bool = True
    rollback: int = 0
    sequences: int = 1
    kv_unified: bool = False
    hidden: bool = False


class Context:
    """A KV cache and the record of what it holds: `tokens`, position by position.

    `busy_s` adds up the seconds spent decoding, to the end of the work on a GPU. `text` is what an encoder read
    (`encoder_context.py`), nothing here. Where the options ask for hidden rows, `hidden[i]` (float32, shape (size,
    `hidden_width`)) is that of `tokens[i]`, from `hidden_from` on: those of tokens that came with a saved cache are not
    known. Raises `LoadError` when it cannot be made (memory, options).
    """

    encodes = False
    text: Sequence[int] = ()
    _KIND = native.LLAMA_CONTEXT_TYPE_DEFAULT

    def __init__(self, model: Model, options: ContextOptions, abort: AbortFlag | None = None) -> None:
        self.model, self.options = model, options
        params = native.llama_context_default_params()
        params.ctx_type = self._KIND
        params.n_ctx = options.context
        params.n_batch = params.n_ubatch = options.batch
        params.n_seq_max = options.sequences
        params.n_rs_seq = options.rollback if model.is_recurrent else 0
        params.n_outputs_max = options.outputs
        params.n_outputs_max_per_seq = 0
        params.n_threads = params.n_threads_batch = options.threads
        params.type_k = params.type_v = _KV_TYPES[options.kv_type]
        params.flash_attn_type = _FLASH[options.flash_attn]
        params.swa_full = options.swa_full
        params.kv_unified = options.kv_unified
        recent_log.clear()
        self._ctx: Any = native.llama_init_from_model(model.handle, params)
        if not self._ctx:
            raise LoadError(f"cannot make a context of {options.context} tokens for {model.path}: {load_failure()}")
        self._abort = abort
        if abort is not None:
            native.llama_set_abort_callback(self._ctx, abort.callback, ctypes.c_void_p(0))
        self._memory: Any = native.llama_get_memory(self._ctx)
        self._batch = self._new_batch()
        view = np.ctypeslib.as_array
        self._token = view(self._batch.token, shape=(options.batch,))
        self._pos = view(self._batch.pos, shape=(options.batch,))
        self._wanted = view(self._batch.logits, shape=(options.batch,))
        view(self._batch.n_seq_id, shape=(options.batch,))[:] = 1
        for i in range(options.batch):
            self._batch.seq_id[i][0] = SEQUENCE
        self.tokens: list[int] = []
        self.depth = RollbackDepth("unlimited")
        self._last_pass = 0
        self.busy_s = 0.0
        self.hidden_width = int(native.llama_model_n_embd_out(model.handle))
        self.hidden_from = 0
        self.hidden: NDArray[np.float32] | None = None
        if options.hidden:
            extension.llama_set_embeddings_nextn(self._ctx, True, False)
            # Pages are taken when they are written: the array costs what the conversation needs.
            self.hidden = np.empty((self.size, self.hidden_width), np.float32)

    def _new_batch(self) -> Any:
        return native.llama_batch_init(self.options.batch, 0, 1)

    @property
    def size(self) -> int:
        """The most tokens this context may hold: what was asked for, though the library rounds up."""
        return min(self.options.context, int(native.llama_n_ctx(self._ctx)))

    @property
    def room(self) -> int:
        return self.size - len(self.tokens)

    @property
    def rollback_slots(self) -> int:
        """Snapshots of a recurrent state the library keeps for cutting back (0 for plain attention)."""
        return int(native.llama_n_rs_seq(self._ctx))

    def decode(self, tokens: Sequence[int], rows: int = 1) -> NDArray[np.float32]:
        """Append `tokens` (at most `batch`) and return the logits after the last `rows` of them.

        Shape (rows, vocab_size), float32: a view of native memory that the next decode overwrites. Raises `Aborted`,
        or `DecodeError` when the library refuses; in both cases the context holds what it held before, or nothing.
        """
        count = len(tokens)
        if not 0 < count <= self.options.batch or rows > min(count, self.options.outputs) or count > self.room:
            raise DecodeError(f"{count} tokens, {rows} rows do not fit (batch {self.options.batch}, room {self.room})")
        self._pass(native.llama_decode, tokens, self._place(len(self.tokens)), rows)
        self.tokens.extend(tokens)
        self._last_pass = count
        if self.hidden is not None:
            rows_of = extension.llama_get_embeddings_nextn(self._ctx)
            own = np.ctypeslib.as_array(rows_of, shape=(count, self.hidden_width))
            self.hidden[len(self.tokens) - count : len(self.tokens)] = own
        return self._logits(rows)

    def _place(self, index: int) -> int:
        """The position that the cache gives to the record's token `index`."""
        return index

    def _pass(self, call: Callable[[Any, Any], int], tokens: Sequence[int], start: int, rows: int) -> None:
        """Run `call` on `tokens` at position `start`, wanting the last `rows`; on a failure the context is what its
        record says, or empty, and `Aborted` or `DecodeError` is raised."""
        count = len(tokens)
        self._batch.n_tokens = count
        self._token[:count] = tokens
        self._pos[:count] = range(start, start + count)
        self._wanted[:count] = 0
        self._wanted[count - rows : count] = 1
        begun = time.perf_counter()
        status = call(self._ctx, self._batch)
        native.llama_synchronize(self._ctx)
        self.busy_s += time.perf_counter() - begun
        if status != 0:
            # A recurrent state that saw part of the batch cannot be trusted after a cut.
            if self.depth.kind in ("unlimited", "window"):
                self._cut_native(len(self.tokens))
            else:
                self.clear()
            if status == 2:
                raise Aborted("cancelled")
            raise DecodeError(f"llama.cpp could not decode {count} tokens at position {start} (status {status})")

    def _logits(self, rows: int) -> NDArray[np.float32]:
        """The rows that the last pass was asked for."""
        if rows == 0:
            return np.empty((0, self.model.vocab_size), np.float32)
        return np.ctypeslib.as_array(native.llama_get_logits(self._ctx), shape=(rows, self.model.vocab_size))

    def truncate(self, keep: int) -> int:
        """Cut the cache back to its first `keep` tokens; returns how many it really holds now.

        That is `keep`, or 0 when this model cannot be cut there: then the cache was cleared and the caller decodes the
        tokens again.
        """
        removed = len(self.tokens) - keep
        if removed <= 0:
            return len(self.tokens)
        within = self.depth.kind in ("unlimited", "window") or (
            self.depth.kind == "last_pass" and removed <= min(self.depth.tokens, self._last_pass - 1)
        )
        if keep == 0 or not within:
            self.clear()
        else:
            self._cut_native(keep)
            if self.depth.kind == "last_pass":
                # The snapshots are relative to a pass: only the next one makes new ones.
                self._last_pass = 0
        return len(self.tokens)

    def clear(self) -> None:
        native.llama_memory_clear(self._memory, True)
        self.tokens.clear()
        self._last_pass = 0
        self.hidden_from = 0

    def _cut_native(self, keep: int) -> None:
        """Remove from `keep` on; clears when the library says no or its oldest position shows the answer is wrong."""
        done = keep > 0 and native.llama_memory_seq_rm(self._memory, SEQUENCE, self._place(keep), -1)
        if done and self.depth.kind == "window":
            oldest = native.llama_memory_seq_pos_min(self._memory, SEQUENCE)
            # -1 says that the window's cells hold nothing at all any more.
            done = 0 <= oldest <= max(0, keep - self.model.sliding_window)
        if not done:
            self.clear()
            return
        del self.tokens[keep:]
        self.hidden_from = min(self.hidden_from, keep)

    def alike(self, options: ContextOptions, abort: AbortFlag | None) -> "Context":
        """Another context of this kind, for the same model."""
        return type(self)(self.model, options, abort)

    def rehearse(self, tokens: Sequence[int]) -> int:
        """The passes that drawing a draft of `tokens` takes; returns how many of them it was. Raises as `decode`."""
        for token in tokens:
            self.decode([token])
        return len(tokens)

    def share_of(self, target: "Context") -> float:
        """What a token drawn with this context costs relative to one of `target`, as the sizes say."""
        return self.model.size / max(1, target.model.size)

    def save(self, path: str) -> int:
        """Write the sequence's cache and tokens to a file; returns its size in bytes. Raises `EngineError`."""
        ids = (native.llama_token * len(self.tokens))(*self.tokens)
        size = native.llama_state_seq_save_file(self._ctx, os.fsencode(path), SEQUENCE, ids, len(self.tokens))
        if not size:
            raise EngineError(f"cannot save the conversation's cache to {path}")
        return int(size)

    def load(self, path: str) -> int:
        """Read back what `save` wrote, replacing the cache; returns the token count. Raises `EngineError`."""
        self.clear()
        ids, count = (native.llama_token * self.size)(), ctypes.c_size_t()
        size = native.llama_state_seq_load_file(
            self._ctx, os.fsencode(path), SEQUENCE, ids, self.size, ctypes.byref(count)
        )
        if not size:
            self.clear()
            raise EngineError(f"cannot read a conversation's cache from {path}")
        self.tokens[:] = ids[: count.value]
        self.hidden_from = count.value
        return count.value

    def close(self) -> None:
        if self._ctx:
            native.llama_batch_free(self._batch)
            native.llama_free(self._ctx)
            self._ctx = None


def stretches(start: int, end: int, longest: int, text: int = 0) -> Iterator[tuple[int, int]]:
    """Where to cut the tokens from `start` to `end` of a sequence into passes of at most `longest`; an encoder reads
    the first `text` in one, however many they are."""
    if start < text:
        yield start, text
    for at in range(max(start, text), end, longest):
        yield at, min(at + longest, end)
