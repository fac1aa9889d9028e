"""llama.cpp's library and models: loading, tokenising, facts. Only this module, the contexts (`context.py`,
`encoder_context.py`, `head.py`), `grammar_state.py` and `parallel.py` call llama_cpp.

A `Model` is weights and a vocabulary. It belongs to one thread; only `AbortFlag` may be touched from another.
"""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import llama_cpp.llama_cpp as native
import numpy as np
from llama_cpp import _ggml
from numpy.typing import NDArray

from localspec.engine.errors import LoadError
from localspec.engine.requests import KvType

_LOG_DEBUG = 1
_Q4_0 = 2
_DEVICE_KINDS = {1: "gpu", 2: "igpu"}

recent_log: deque[str] = deque(maxlen=200)


@native.llama_log_callback  # type: ignore[untyped-decorator]
def _on_log(level: int, text: bytes, _data: ctypes.c_void_p) -> None:
    if level == _LOG_DEBUG:
        return
    line = text.decode("utf-8", "replace")
    recent_log.append(line)
    # Written without Python's buffering: the next native call may be the one that kills the process.
    os.write(2, line.encode())


@cache
def start_library() -> str:
    """Initialise llama.cpp once; returns its system information (instruction sets, threading) in one line."""
    native.llama_log_set(_on_log, ctypes.c_void_p(0))
    native.llama_backend_init()
    info: bytes = native.llama_print_system_info()
    return f"llama-cpp-python {_library_version()}: {info.decode().strip(' |')}"


def _library_version() -> str:
    import llama_cpp

    return str(llama_cpp.__version__)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU llama.cpp can use; memory in bytes. `kind` is "igpu" for one that shares main memory, else "gpu"."""

    name: str
    description: str
    free: int
    total: int
    kind: str


def gpus() -> list[Device]:
    """The GPUs of this build and machine; empty for a CPU build."""
    start_library()
    if not native.llama_supports_gpu_offload():
        return []
    lib = _ggml.libggml
    lib.ggml_backend_dev_count.restype = ctypes.c_size_t
    lib.ggml_backend_dev_get.restype = ctypes.c_void_p
    for name in ("name", "description"):
        getattr(lib, f"ggml_backend_dev_{name}").restype = ctypes.c_char_p
    found = []
    for i in range(lib.ggml_backend_dev_count()):
        device = ctypes.c_void_p(lib.ggml_backend_dev_get(ctypes.c_size_t(i)))
        kind = _DEVICE_KINDS.get(lib.ggml_backend_dev_type(device))
        if kind is None:
            continue
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        name, description = (
            getattr(lib, f"ggml_backend_dev_{n}")(device).decode("utf-8", "replace") for n in ("name", "description")
        )
        found.append(Device(name, description, free.value, total.value, kind))
    return found


class AbortFlag:
    """Set from any thread to end the decode in flight; llama.cpp asks for it between graph nodes."""

    def __init__(self) -> None:
        self.is_set = False
        self.callback = native.ggml_abort_callback(lambda _data: self.is_set)


class Model:
    """Weights and vocabulary of one GGUF file.

    `gpu_layers` -1 means all. Raises `LoadError` with the native reason. `vocab_only` loads the tokenizer alone,
    `heads` the MTP heads too where the file has any (`head.py`).
    """

    def __init__(
        self,
        path: str,
        *,
        gpu_layers: int = 0,
        extra_bufts: bool = True,
        vocab_only: bool = False,
        heads: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        start_library()
        self.path = path
        params = native.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        params.use_extra_bufts = extra_bufts
        params.vocab_only = vocab_only
        params.load_mtp = heads
        if progress is not None:

            def on_progress(done: float, _data: object) -> bool:
                progress(done)
                return True

            # Kept in a local until the load is over: the library holds no reference of its own.
            callback = native.llama_progress_callback(on_progress)
            params.progress_callback = callback
        recent_log.clear()
        self.handle: Any = native.llama_model_load_from_file(os.fsencode(path), params)
        if not self.handle:
            raise LoadError(f"cannot load {path}: {load_failure()}")
        self._vocab: Any = native.llama_model_get_vocab(self.handle)
        self._pieces: dict[int, bytes] = {}

    def close(self) -> None:
        if self.handle:
            native.llama_model_free(self.handle)
            self.handle = None

    # -- facts -------------------------------------------------------------------------------------------------------

    @cached_property
    def vocab_size(self) -> int:
        return int(native.llama_vocab_n_tokens(self._vocab))

    @property
    def train_context(self) -> int:
        return int(native.llama_model_n_ctx_train(self.handle))

    @property
    def layers(self) -> int:
        return int(native.llama_model_n_layer(self.handle))

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return int(native.llama_model_size(self.handle))

    @property
    def sliding_window(self) -> int:
        """Tokens a sliding-window layer sees; 0 when there is none."""
        return int(native.llama_model_n_swa(self.handle))

    @property
    def is_recurrent(self) -> bool:
        """Some layers keep a state that cannot be cut like a KV cache (recurrent and hybrid models)."""
        return bool(native.llama_model_is_recurrent(self.handle) or native.llama_model_is_hybrid(self.handle))

    @property
    def has_encoder(self) -> bool:
        """An encoder reads the text before a decoder writes (T5)."""
        return bool(native.llama_model_has_encoder(self.handle))

    @cached_property
    def decoder_start(self) -> int | None:
        """The token an encoder-decoder model's answers start from; the begin token where the file names none."""
        named = _token_or_none(native.llama_model_decoder_start_token(self.handle))
        return self.bos if named is None else named

    @property
    def mtp_layers(self) -> int:
        return int(native.llama_model_n_layer_nextn(self.handle))

    @property
    def chat_template(self) -> str | None:
        raw = native.llama_model_chat_template(self.handle, None)
        return raw.decode("utf-8", "replace") if raw else None

    @property
    def description(self) -> str:
        buffer = ctypes.create_string_buffer(256)
        native.llama_model_desc(self.handle, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    def meta(self, key: str) -> str | None:
        """One metadata value as text, None when absent."""
        buffer = ctypes.create_string_buffer(4096)
        size = native.llama_model_meta_val_str(self.handle, key.encode(), buffer, len(buffer))
        return None if size < 0 else buffer.value.decode("utf-8", "replace")

    def kv_bytes_per_token(self, kv_type: KvType) -> int:
        """KV cache of one token over all layers, in bytes; an upper bound where layers differ."""
        bits = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q5_1": 6, "q5_0": 5.5, "q4_1": 5, "q4_0": 4.5}[kv_type]
        heads, kv_heads = native.llama_model_n_head(self.handle), native.llama_model_n_head_kv(self.handle)
        width = native.llama_model_n_embd(self.handle) // max(1, heads)
        arch = self.meta("general.architecture") or ""
        key_width = int(self.meta(f"{arch}.attention.key_length") or width)
        value_width = int(self.meta(f"{arch}.attention.value_length") or width)
        return int(self.layers * kv_heads * (key_width + value_width) * bits / 8)

    # -- vocabulary --------------------------------------------------------------------------------------------------

    @cached_property
    def bos(self) -> int | None:
        return _token_or_none(native.llama_vocab_bos(self._vocab))

    @cached_property
    def eos(self) -> int | None:
        return _token_or_none(native.llama_vocab_eos(self._vocab))

    @cached_property
    def add_bos(self) -> bool:
        return bool(native.llama_vocab_get_add_bos(self._vocab))

    @cached_property
    def add_eos(self) -> bool:
        return bool(native.llama_vocab_get_add_eos(self._vocab))

    @cached_property
    def begins_with_blank(self) -> bool:
        """The tokenizer puts a blank in front of a text, so that an answer of whole tokens begins with one."""
        return self.meta("tokenizer.ggml.add_space_prefix") == "true"

    @cached_property
    def fim_tokens(self) -> dict[str, int]:
        """The fill-in-the-middle tokens this vocabulary has, by role."""
        roles = ("pre", "suf", "mid", "pad", "rep", "sep")
        found = {role: getattr(native, f"llama_vocab_fim_{role}")(self._vocab) for role in roles}
        return {role: int(token) for role, token in found.items() if token >= 0}

    @cached_property
    def fim_texts(self) -> dict[str, str]:
        """The spellings of `fim_tokens`, by role; only of control tokens, for a text cannot spell another kind apart
        from itself."""
        spelled = {token: text for text, token in self.special_tokens.items()}
        return {role: spelled[token] for role, token in self.fim_tokens.items() if token in spelled}

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Every token that ends a generation."""
        return frozenset(i for i in range(self.vocab_size) if native.llama_vocab_is_eog(self._vocab, i))

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Control tokens by their spelling: the ones that only trusted text may produce."""
        vocab = self._vocab
        found = (i for i in range(self.vocab_size) if native.llama_vocab_is_control(vocab, i))
        spelled = ((self.piece(i, special=True).decode("utf-8", "replace"), i) for i in found)
        return {text: i for text, i in spelled if text}

    @cached_property
    def hidden_tokens(self) -> NDArray[np.bool_]:
        """By id: tokens without text of their own (control, unknown) that do not end a generation."""
        hidden = native.LLAMA_TOKEN_ATTR_CONTROL | native.LLAMA_TOKEN_ATTR_UNKNOWN
        attributes = (native.llama_vocab_get_attr(self._vocab, i) for i in range(self.vocab_size))
        marked = np.fromiter((bool(a & hidden) for a in attributes), np.bool_, self.vocab_size)
        marked[list(self.end_tokens)] = False
        return marked

    @cached_property
    def first_bytes(self) -> NDArray[np.int16]:
        """Shape (vocabulary, 2): the first two bytes of each token's text, -1 where it has no more."""
        heads = np.full((self.vocab_size, 2), -1, np.int16)
        buffer = ctypes.create_string_buffer(256)
        for token in range(self.vocab_size):
            size = native.llama_token_to_piece(self._vocab, token, buffer, 256, 0, False)
            # A negative answer says that the text is longer than the buffer, which is then not written to.
            head = bytes(buffer.raw[: min(size, 2)]) if size >= 0 else self.piece(token)[:2]
            heads[token, : len(head)] = list(head)
        return heads

    def strips(self, token: int) -> tuple[bool, bool]:
        """Whether the token, where it is spelled, takes the white space before it and after it along."""
        attributes = native.llama_vocab_get_attr(self._vocab, token)
        return bool(attributes & native.LLAMA_TOKEN_ATTR_LSTRIP), bool(attributes & native.LLAMA_TOKEN_ATTR_RSTRIP)

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """Token ids of `text`; characters that are no valid Unicode become replacement marks."""
        raw = text.encode("utf-8", "replace")
        room = len(raw) + 8
        while True:
            buffer = (native.llama_token * room)()
            count = native.llama_tokenize(self._vocab, raw, len(raw), buffer, room, add_special, parse_special)
            if count >= 0:
                return list(buffer[:count])
            room = -count

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token; a control token's are empty unless `special`."""
        key = -1 - token if special else token
        known = self._pieces.get(key)
        if known is None:
            room = 64
            while True:
                buffer = ctypes.create_string_buffer(room)
                size = native.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
                if size >= 0:
                    break
                room = -size
            known = self._pieces[key] = buffer.raw[:size]
        return known

    def detokenize(self, tokens: Sequence[int]) -> bytes:
        """The bytes of a whole run of tokens, as llama.cpp joins them."""
        ids = (native.llama_token * len(tokens))(*tokens)
        room = 16 * len(tokens) + 16
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = native.llama_detokenize(self._vocab, ids, len(tokens), buffer, room, False, False)
            if size >= 0:
                return buffer.raw[:size]
            room = -size


def requantize(source: str, copy: str, threads: int) -> None:
    """Write `copy`: the model in `source`, all its weights in Q4_0. Raises `LoadError`; then `copy` may be anything."""
    start_library()
    params = native.llama_model_quantize_default_params()
    params.nthread = threads
    params.ftype = native.LLAMA_FTYPE_MOSTLY_Q4_0
    params.allow_requantize = True
    params.pure = True
    # Without these two the largest matrix of a small model would stay in the format that is slow.
    params.output_tensor_type = params.token_embedding_type = _Q4_0
    recent_log.clear()
    if native.llama_model_quantize(os.fsencode(source), os.fsencode(copy), ctypes.byref(params)):
        raise LoadError(f"cannot copy {source}: {load_failure()}")


def _token_or_none(token: int) -> int | None:
    return int(token) if token >= 0 else None


def load_failure() -> str:
    """The native log's own reason, shortened to one line."""
    text = "".join(recent_log)
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    causes = [line for line in errors if "error loading model" in line] or errors or lines[-1:]
    return causes[0].split("error loading model: ")[-1] if causes else "no reason given"
