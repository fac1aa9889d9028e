"""How much memory a loaded model takes: weights, KV cache, compute buffers, vocabulary.

The formulas follow llama.cpp (llama-kv-cache.cpp, llama-hparams.cpp, ggml-cpu/repack.cpp, ggml-cpu/amx) and the
buffer sizes it reports for qwen2, llama and gemma3 models at contexts of 512 to 16,384 tokens; the `real` test holds
them against a child process. All sizes in bytes, lengths in tokens.
"""

from dataclasses import dataclass, replace
from typing import Literal

from localspec import nextn
from localspec.models import gguf_types as types
from localspec.models.gguf import Header, Tensor
from localspec.models.hardware import Kernels

KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

BATCH = 512
"""Tokens in a prefill pass (`n_batch` = `n_ubatch`)."""

OUTPUTS = 33
"""Logit rows a pass may ask for: a draft of 32 and one."""

ROLLBACK = 8
"""Earlier states a hybrid keeps (`n_rs_seq`), for drafts of that length."""

PROCESS = 24 << 20
"""The engine's process without a model."""

_VOCABULARY_ENTRY = 165  # measured for tokens and for merges alike: the text, its table entries and their heap blocks
_F32, _F16 = 4, 2
_KV_BYTES = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}  # fmt: skip

_REPACKED: dict[Kernels, frozenset[str]] = {
    "amx": frozenset({"Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "F16", "Q2_K", "IQ4_NL", "MXFP4"}),
    "avx512": frozenset({"Q4_0", "Q4_K", "Q2_K", "IQ4_NL", "MXFP4"}),
    "avx2": frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}),
    "neon": frozenset({"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4"}),
    "none": frozenset(),
}
"""Tensor types that are copied into another order at load, by processor."""

_WINDOW_PERIOD = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4}
"""Every n-th layer sees everything, the others a window, where the file does not say."""


@dataclass(frozen=True, slots=True)
class MtpShape:
    """The MTP heads of a model: their weights, what of those is copied at load, and their layers' caches."""

    layer_bytes: tuple[int, ...] = ()
    repacked: int = 0
    kv: tuple[tuple[int, int, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model decides its memory. `kv` holds, for each layer with an attention cache, elements a token of keys
    and values and whether the layer sees a window only. `layer_bytes` are weights; `output_bytes` the output
    matrix's. `repacked` are weights that are copied at load. `state_bytes` is the recurrent state, kept once whatever
    the context. `mtp` are the heads that draft when no draft model does, and in none of the other numbers. `rough`:
    parts of it are guessed from the size. `encodes`: an encoder reads the text in one pass."""

    weights: int
    kv: tuple[tuple[int, int, bool], ...]
    layer_bytes: tuple[int, ...]
    output_bytes: int
    repacked: int
    state_bytes: int
    heads: int
    query: int
    embedding: int
    feed_forward: int
    vocabulary: int
    merges: int
    window: int
    context_length: int
    rough: bool = False
    mtp: MtpShape = MtpShape()
    encodes: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one loaded model. `weights` counts what must stay in memory to run at full speed. `anonymous` is what
    the system cannot take back: of the weights only those copied at load, the others are pages of the file. `mtp` is
    what its MTP heads take, of all kinds together."""

    weights: int
    kv: int
    compute: int
    vocabulary: int
    anonymous: int
    mtp: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute + self.vocabulary + self.mtp


def estimate(
    model: Header | Shape,
    context: int,
    kv_type: KvType = "f16",
    *,
    kernels: Kernels = "none",
    flash_attn: bool = False,
    swa_full: bool = True,
    filled: int | None = None,
    mtp: bool = False,
) -> Memory:
    """Memory of one model with room for `context` tokens. `filled` asks for the state after that many tokens instead of
    a full context: buffers are reserved at load and become memory when they are written. `mtp`: with its heads."""
    shape = shape_of(model, kernels) if isinstance(model, Header) else model
    context = _padded(context)
    tokens = context if filled is None else min(filled, context)
    kv = kv_bytes(shape, context, kv_type, swa_full)
    compute = compute_bytes(shape, tokens, flash_attn)
    vocabulary = (shape.vocabulary + shape.merges) * _VOCABULARY_ENTRY
    anonymous = shape.repacked + kv + compute + vocabulary
    heads = 0
    if mtp and shape.mtp.kv:
        own = kv_bytes(replace(shape, kv=shape.mtp.kv, state_bytes=0), context, kv_type, swa_full)
        # Beside a graph of one layer: the hidden row of every token, and the rows of the widest pass handed out.
        own += compute_bytes(replace(shape, kv=shape.mtp.kv), tokens, flash_attn, outputs=1)
        own += (tokens + BATCH) * shape.embedding * _F32
        heads = sum(shape.mtp.layer_bytes) + own
        anonymous += shape.mtp.repacked + own
    return Memory(shape.weights, kv, compute, vocabulary, anonymous, heads)


def kv_bytes(shape: Shape, context: int, kv_type: KvType, swa_full: bool = True) -> int:
    """KV cache and recurrent state. Layers with a window keep it all with `swa_full`, else the window and a batch."""
    width = _KV_BYTES[kv_type]
    windowed = context if swa_full or not shape.window else min(context, _padded(shape.window + BATCH))
    return shape.state_bytes + int(sum((k + v) * width * (windowed if w else context) for k, v, w in shape.kv))


def compute_bytes(shape: Shape, tokens: int, flash_attn: bool = False, outputs: int = OUTPUTS) -> int:
    """Buffers of the widest prefill pass at `tokens` in the cache: the largest stage of the graph, the scratch memory
    beside it, and the logits handed out, at most `outputs` rows."""
    batch = max(1, tokens if shape.encodes else min(BATCH, tokens))
    cells = _padded(tokens // batch * batch)
    kv = max((k + v for k, v, _ in shape.kv), default=0)
    masks = 2 if any(w for _, _, w in shape.kv) else 1
    if flash_attn:
        mask = batch * cells * _F16 * masks
        feed_forward = batch * _F32 * (3 * shape.feed_forward + 4 * shape.embedding) + mask
        attention, scores = 0, 0
    else:
        mask = batch * cells * _F32 * masks
        feed_forward = batch * _F32 * (3 * shape.feed_forward + 3 * shape.embedding + kv) + mask
        attention = batch * _F32 * (shape.heads * cells + 3 * shape.embedding + 2 * shape.query + kv) + mask
        scores = batch * _F16 * shape.heads * cells
    # Beside an encoder the library keeps room for a row of every token.
    logits = (batch if shape.encodes else outputs) * shape.vocabulary * _F32
    scratch = max(scores, int(batch * shape.feed_forward * 1.0625))
    return max(feed_forward, attention, logits + mask + batch * _F32 * shape.embedding) + scratch + logits


def shape_of(header: Header, kernels: Kernels = "none") -> Shape:
    """The shape of a model whose header (all parts' tensors, see `read_model`) is known."""
    layers = max(0, header.block_count - header.mtp_layers)
    layer_bytes = [0] * header.block_count
    embedding = output = repacked = copied = 0
    for tensor in header.tensors:
        name, index = tensor.name, -1
        if name == "token_embd.weight":
            embedding = tensor.size
        elif name == "output.weight":
            output = tensor.size
        # The library keeps layer i of an encoder and of its decoder in one place.
        elif (of_layer := name.removeprefix("enc.").removeprefix("dec.")).startswith("blk."):
            number = of_layer.split(".", 2)[1]
            if number.isdecimal() and int(number) < len(layer_bytes):
                index = int(number)
                layer_bytes[index] += tensor.size
        if "token_embd" not in name and _is_repacked(tensor, kernels):
            if index < layers:
                repacked += tensor.size
            else:
                copied += tensor.size
    # Heads are left in the file where nothing drafts with them.
    weights = header.tensor_bytes - sum(layer_bytes[layers:])
    if not output and embedding:
        # The table is the output matrix as well; where that is copied, both stay in memory.
        output = embedding
        table = next(t for t in header.tensors if t.name == "token_embd.weight")
        if _is_repacked(table, kernels):
            weights += embedding
            repacked += embedding
    heads = max(header.head_count, default=0)
    return Shape(
        weights=weights,
        kv=_kv_layers(header, layers),
        layer_bytes=tuple(layer_bytes[:layers]),
        output_bytes=output,
        repacked=repacked,
        state_bytes=_state_bytes(header, layers),
        heads=heads,
        query=heads * header.key_length,
        embedding=header.embedding_length,
        feed_forward=_feed_forward(header),
        vocabulary=header.vocab_size,
        merges=header.lengths.get("tokenizer.ggml.merges", 0),
        window=header.sliding_window,
        context_length=header.longest_sequence,
        mtp=_mtp_shape(header, layers, layer_bytes[layers:], copied),
        encodes=header.has_encoder,
    )


def shape_from_facts(
    size: int,
    *,
    layers: int | None = None,
    kv_heads: int | None = None,
    head_size: int | None = None,
    vocabulary: int | None = None,
    context_length: int | None = None,
) -> Shape:
    """The shape of a model known from a catalogue: the file's size and what else is known. The rest is guessed from the
    size, on the side of too much."""
    layers_guess = layers or (28 if size < 8 << 30 else 48)
    known = bool(layers and kv_heads and head_size)
    # Models with grouped attention keep between 20 and 60 bytes per token and megabyte of four-bit weights.
    kv = 2 * kv_heads * head_size if kv_heads and head_size else int(size / (1 << 20) * 30 / layers_guess)
    embedding = 1024 if size < 1 << 30 else 2048 if size < 3 << 30 else 4096 if size < 7 << 30 else 5120
    tokens = vocabulary or 152_064
    return Shape(
        weights=size,
        kv=((kv // 2, kv // 2, False),) * layers_guess,
        layer_bytes=(size * 9 // 10 // layers_guess,) * layers_guess,
        output_bytes=size // 10,
        repacked=size,
        state_bytes=0,
        heads=embedding // (head_size or 128),
        query=embedding,
        embedding=embedding,
        feed_forward=embedding * 5,
        vocabulary=tokens,
        merges=tokens,
        window=0,
        context_length=context_length or 0,
        rough=not known,
    )


def _mtp_shape(header: Header, layers: int, layer_bytes: list[int], repacked: int) -> MtpShape:
    """The heads that are loaded without being asked for; each is a layer with attention, whatever the others are."""
    if not header.mtp_heads or header.architecture not in nextn.TRIED:
        return MtpShape()
    blocks = header.block_count
    heads, windowed = header.head_count_kv, _windowed(header, blocks)
    kv = tuple(
        (heads[i] * header.key_length, heads[i] * header.value_length, windowed[i]) for i in range(layers, blocks)
    )
    return MtpShape(tuple(layer_bytes), repacked, kv)


def _is_repacked(tensor: Tensor, kernels: Kernels) -> bool:
    if len(tensor.shape) < 2 or tensor.shape[1] % 8:
        return False
    if tensor.type not in _REPACKED[kernels]:
        return False
    # The AMX kernels take plain matrices only; of a mixture's experts those that AVX-512 takes too are copied.
    return kernels != "amx" or len(tensor.shape) == 2 or tensor.type in _REPACKED["avx512"]


def _kv_layers(header: Header, layers: int) -> tuple[tuple[int, int, bool], ...]:
    """Elements per token of keys and values and windowed or not, of the layers that have a cache."""
    if header.recurrent:
        return ()
    own = layers - header.shared_kv_layers
    heads, interval = header.head_count_kv, header.full_attention_interval
    windowed = _windowed(header, layers)
    found = []
    for layer in range(min(own, len(heads))):
        if not heads[layer] or (interval and (layer + 1) % interval):
            continue
        # With compressed attention the values are part of the keys.
        value = 0 if header.compressed_kv else heads[layer] * header.value_length
        found.append((heads[layer] * header.key_length, value, windowed[layer]))
    return tuple(found)


def _windowed(header: Header, layers: int) -> tuple[bool, ...]:
    if not header.sliding_window:
        return (False,) * layers
    pattern = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, tuple) and len(pattern) >= layers:
        return tuple(bool(entry) for entry in pattern[:layers])
    period = pattern if isinstance(pattern, int) else _WINDOW_PERIOD.get(header.architecture, 1)
    return tuple(period <= 1 or (layer + 1) % period != 0 for layer in range(layers))


def _state_bytes(header: Header, layers: int) -> int:
    """Recurrent states, with the copies that allow a rollback (llama_hparams::n_embd_r and n_embd_s)."""
    if not header.recurrent and not header.hybrid:
        return 0
    ssm, width = header.ssm, header.embedding_length
    conv, inner, state = ssm.get("conv_kernel", 0), ssm.get("inner_size", 0), ssm.get("state_size", 0)
    heads = max(header.head_count, default=0)
    if header.wkv_head_size:
        elements = width * (header.token_shift_count + header.wkv_head_size)
    elif header.shortconv_cache:
        elements = width * (header.shortconv_cache - 1)
    elif header.kda_head_size:
        elements = heads * header.kda_head_size * (3 * max(conv - 1, 0) + header.kda_head_size)
    else:
        elements = max(conv - 1, 0) * (inner + 2 * ssm.get("group_count", 0) * state) + state * inner
    # Falcon-H1 has a state and attention in every layer.
    with_state = layers if header.architecture == "falcon-h1" else layers - len(_kv_layers(header, layers))
    copies = 1 + ROLLBACK if header.architecture in types.ROLLS_BACK else 1
    return elements * _F32 * with_state * copies


def _feed_forward(header: Header) -> int:
    """Elements per token in the widest feed-forward: of a mixture the experts in use, side by side."""
    return max(*header.feed_forward_length, header.expert_used_count * header.expert_feed_forward_length, 0)


def _padded(tokens: int) -> int:
    """The cache's cells come in blocks of 256."""
    return -(-max(1, tokens) // 256) * 256
