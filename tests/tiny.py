"""Tiny GGUF models with random weights: real files for the real llama.cpp, decoded in microseconds.

The vocabulary is SentencePiece-like without a space prefix: `<unk>`, `<s>`, `</s>`, one control token, then one token a
letter, so that a text of those letters is one token a character. `with_bytes` adds the blank and the 256
byte tokens.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
BOS, EOS = 1, 2
SPECIALS = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), ("<|role|>", CONTROL)]
FIRST_LETTER = len(SPECIALS)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vocabulary(letters: int = 12, *, with_bytes: bool = False, extra: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    """Token texts and types: the specials, `letters` letters, `extra` texts, then the bytes."""
    tokens = SPECIALS + [(letter, NORMAL) for letter in LETTERS[:letters]] + [(text, NORMAL) for text in extra]
    if with_bytes:
        tokens += [("▁", NORMAL)]
        tokens += [(f"<0x{i:02X}>", BYTE) for i in range(256)]
    return tokens


class _Writer:
    """A GGUF under construction whose tensors are drawn from one seeded generator."""

    def __init__(self, path: Path, arch: str, seed: int, scale: float) -> None:
        self.out = gguf.GGUFWriter(path, arch)
        self.rng = np.random.default_rng(seed)
        self.scale = scale

    def weight(self, name: str, *shape: int, scale: float | None = None) -> None:
        data = self.rng.normal(size=shape) * (scale if scale is not None else self.scale / np.sqrt(shape[-1]))
        self.out.add_tensor(name, data.astype(np.float32))

    def ones(self, name: str, *shape: int) -> None:
        self.out.add_tensor(name, np.ones(shape, np.float32))

    def head(self, block: str, width: int, agreeing: float) -> None:
        """What makes a block an MTP head: it reads a token's embedding beside a hidden row. With `agreeing` the
        embedding comes through unmixed, times that: such a head guesses as a target does that knows the last token
        only."""
        mixed = self.rng.normal(size=(width, 2 * width)) / np.sqrt(2 * width)
        mixed[:, :width] += agreeing * np.eye(width)
        self.out.add_tensor(block + "nextn.eh_proj.weight", mixed.astype(np.float32))
        self.ones(block + "nextn.enorm.weight", width)
        self.ones(block + "nextn.hnorm.weight", width)

    def tokens(self, tokens: list[tuple[str, int]], *, add_bos: bool, eos: int = EOS) -> None:
        out = self.out
        out.add_tokenizer_model("llama")
        out.add_token_list([text for text, _ in tokens])
        out.add_token_scores([float(len(text)) if kind == NORMAL else 0.0 for text, kind in tokens])
        out.add_token_types([kind for _, kind in tokens])
        out.add_bos_token_id(BOS)
        out.add_eos_token_id(eos)
        out.add_unk_token_id(0)
        out.add_add_bos_token(add_bos)
        out.add_add_space_prefix(False)
        out.add_vocab_size(len(tokens))

    def ends(self, tokens: int, width: int, tune: Callable[[dict[str, np.ndarray]], None] | None) -> None:
        """`token_embd` and `output`, which `tune` may edit first."""
        ends = {
            "token_embd": self.rng.normal(size=(tokens, width)).astype(np.float32),
            "output": (self.rng.normal(size=(tokens, width)) * self.scale / np.sqrt(width)).astype(np.float32),
        }
        if tune is not None:
            tune(ends)
        for name, data in ends.items():
            self.out.add_tensor(f"{name}.weight", data)

    def close(self) -> None:
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_tensors_to_file()
        self.out.close()


def write_llama(
    path: Path,
    *,
    tokens: list[tuple[str, int]] | None = None,
    layers: int = 2,
    width: int = 32,
    seed: int = 1,
    scale: float = 3.0,
    add_bos: bool = False,
    context: int = 2048,
    template: str | None = None,
    name: str | None = None,
    tune: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> Path:
    """A plain-attention model. `scale` sharpens the distributions; `tune` may edit `token_embd` and `output`."""
    tokens = tokens or vocabulary()
    heads, hidden = 2, 2 * width
    w = _Writer(path, "llama", seed, scale)
    out = w.out
    out.add_context_length(context)
    out.add_embedding_length(width)
    out.add_block_count(layers)
    out.add_feed_forward_length(hidden)
    out.add_head_count(heads)
    out.add_head_count_kv(1)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(width // heads)
    w.tokens(tokens, add_bos=add_bos)
    if template is not None:
        out.add_chat_template(template)
    if name is not None:
        out.add_name(name)
    w.ends(len(tokens), width, tune)
    w.ones("output_norm.weight", width)
    for i in range(layers):
        b = f"blk.{i}."
        w.ones(b + "attn_norm.weight", width)
        w.weight(b + "attn_q.weight", width, width)
        w.weight(b + "attn_k.weight", width // heads, width)
        w.weight(b + "attn_v.weight", width // heads, width)
        w.weight(b + "attn_output.weight", width, width)
        w.ones(b + "ffn_norm.weight", width)
        w.weight(b + "ffn_gate.weight", hidden, width)
        w.weight(b + "ffn_up.weight", hidden, width)
        w.weight(b + "ffn_down.weight", width, hidden)
    w.close()
    return path


def write_sliding(path: Path, *, window: int = 16, layers: int = 2, width: int = 32, seed: int = 1) -> Path:
    """A gemma3 model whose every other layer sees only the last `window` tokens."""
    tokens = vocabulary()
    heads, hidden, head = 2, 2 * width, width // 2
    w = _Writer(path, "gemma3", seed, 3.0)
    out = w.out
    out.add_context_length(2048)
    out.add_embedding_length(width)
    out.add_block_count(layers)
    out.add_feed_forward_length(hidden)
    out.add_head_count(heads)
    out.add_head_count_kv(1)
    out.add_key_length(head)
    out.add_value_length(head)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_sliding_window(window)
    out.add_sliding_window_pattern([i % 2 == 0 for i in range(layers)])
    w.tokens(tokens, add_bos=False)
    w.weight("token_embd.weight", len(tokens), width, scale=1.0)
    w.weight("output.weight", len(tokens), width)
    w.ones("output_norm.weight", width)
    for i in range(layers):
        b = f"blk.{i}."
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            w.ones(b + norm + ".weight", width)
        w.weight(b + "attn_q.weight", width, width)
        w.weight(b + "attn_k.weight", head, width)
        w.weight(b + "attn_v.weight", head, width)
        w.weight(b + "attn_output.weight", width, width)
        w.ones(b + "attn_q_norm.weight", head)
        w.ones(b + "attn_k_norm.weight", head)
        w.weight(b + "ffn_gate.weight", hidden, width)
        w.weight(b + "ffn_up.weight", hidden, width)
        w.weight(b + "ffn_down.weight", width, hidden)
    w.close()
    return path


def write_hybrid(
    path: Path,
    *,
    layers: int = 4,
    width: int = 32,
    seed: int = 1,
    scale: float = 2.0,
    heads: int = 0,
    agreeing: float = 1.0,
) -> Path:
    """A qwen35 model: three linear-attention layers with a recurrent state, then one of full attention. `heads` MTP
    heads behind them (the library runs one at most), `agreeing` with the target more or less."""
    tokens = vocabulary()
    query_heads, hidden, head = 2, 2 * width, 16
    state, key_heads, value_heads, kernel = 8, 2, 2, 4
    key_width, value_width = state * key_heads, state * value_heads
    w = _Writer(path, "qwen35", seed, scale)
    out = w.out
    out.add_context_length(2048)
    out.add_embedding_length(width)
    out.add_block_count(layers + heads)
    out.add_feed_forward_length(hidden)
    out.add_head_count(query_heads)
    out.add_head_count_kv(1)
    out.add_key_length(head)
    out.add_value_length(head)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(head)
    out.add_rope_dimension_sections([head // 4, head // 4, 0, 0])
    out.add_ssm_conv_kernel(kernel)
    out.add_ssm_inner_size(value_width)
    out.add_ssm_state_size(state)
    out.add_ssm_time_step_rank(value_heads)
    out.add_ssm_group_count(key_heads)
    out.add_full_attention_interval(4)
    if heads:
        out.add_nextn_predict_layers(heads)
    w.tokens(tokens, add_bos=False)
    w.weight("token_embd.weight", len(tokens), width, scale=1.0)
    w.weight("output.weight", len(tokens), width)
    w.ones("output_norm.weight", width)
    for i in range(layers + heads):
        b = f"blk.{i}."
        w.ones(b + "attn_norm.weight", width)
        w.ones(b + "post_attention_norm.weight", width)
        if i >= layers or (i + 1) % 4 == 0:
            w.weight(b + "attn_q.weight", head * query_heads * 2, width)
            w.weight(b + "attn_k.weight", head, width)
            w.weight(b + "attn_v.weight", head, width)
            w.weight(b + "attn_output.weight", width, head * query_heads)
            w.ones(b + "attn_q_norm.weight", head)
            w.ones(b + "attn_k_norm.weight", head)
        else:
            w.weight(b + "attn_qkv.weight", key_width * 2 + value_width, width)
            w.weight(b + "attn_gate.weight", value_width, width)
            w.weight(b + "ssm_conv1d.weight", key_width * 2 + value_width, kernel)
            w.weight(b + "ssm_dt.bias", value_heads, scale=0.1)
            w.out.add_tensor(b + "ssm_a", -np.full(value_heads, 0.1, np.float32))
            w.weight(b + "ssm_beta.weight", value_heads, width)
            w.weight(b + "ssm_alpha.weight", value_heads, width)
            w.ones(b + "ssm_norm.weight", state)
            w.weight(b + "ssm_out.weight", width, value_width)
        w.weight(b + "ffn_gate.weight", hidden, width)
        w.weight(b + "ffn_up.weight", hidden, width)
        w.weight(b + "ffn_down.weight", width, hidden)
        if i >= layers:
            w.head(b, width, agreeing)
    w.close()
    return path


def write_step(
    path: Path,
    *,
    tokens: list[tuple[str, int]] | None = None,
    layers: int = 2,
    heads: int = 3,
    agreeing: float = 1.0,
    width: int = 32,
    seed: int = 1,
    scale: float = 3.0,
    window: int = 64,
) -> Path:
    """A step35 model, every other layer of which sees only the last `window` tokens, with `heads` MTP heads of which
    the n-th drafts the n-th token. `agreeing` 0: they guess at random."""
    tokens = tokens or vocabulary()
    hidden, head, blocks = 2 * width, width // 2, layers + heads
    w = _Writer(path, "step35", seed, scale)
    out = w.out
    out.add_context_length(2048)
    out.add_embedding_length(width)
    out.add_block_count(blocks)
    out.add_feed_forward_length(hidden)
    out.add_expert_feed_forward_length(hidden)
    out.add_head_count(2)
    out.add_head_count_kv(1)
    out.add_key_length(head)
    out.add_value_length(head)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(head)
    out.add_sliding_window(window)
    out.add_sliding_window_pattern([i % 2 == 0 for i in range(blocks)])
    if heads:
        out.add_nextn_predict_layers(heads)
    w.tokens(tokens, add_bos=False)
    w.weight("token_embd.weight", len(tokens), width, scale=1.0)
    w.weight("output.weight", len(tokens), width)
    w.ones("output_norm.weight", width)
    for i in range(blocks):
        b = f"blk.{i}."
        w.ones(b + "attn_norm.weight", width)
        w.weight(b + "attn_q.weight", width, width)
        w.weight(b + "attn_k.weight", head, width)
        w.weight(b + "attn_v.weight", head, width)
        w.weight(b + "attn_output.weight", width, width)
        w.ones(b + "ffn_norm.weight", width)
        w.weight(b + "ffn_gate.weight", hidden, width)
        w.weight(b + "ffn_up.weight", hidden, width)
        w.weight(b + "ffn_down.weight", width, hidden)
        if i >= layers:
            w.head(b, width, agreeing)
    w.close()
    return path


def forced(*tokens: str | int) -> Callable[[dict[str, np.ndarray]], None]:
    """Weights that make each token of a cycle of `tokens` predict the next one, whatever came before."""
    order = [ids(t)[0] if isinstance(t, str) else t for t in tokens]

    def tune(ends: dict[str, np.ndarray]) -> None:
        width = ends["token_embd"].shape[1]
        ends["token_embd"][:] = 0
        ends["output"][:] = 0
        for place, (token, following) in enumerate(itertools.pairwise([*order, order[0]])):
            ends["token_embd"][token, place % width] = 100.0
            ends["output"][following, place % width] = 5.0

    return tune


def ids(text: str) -> list[int]:
    """Token ids of a text of letters."""
    return [FIRST_LETTER + LETTERS.index(letter) for letter in text]


def letters_of(tokens: list[int]) -> Iterator[str]:
    """The letters of ordinary tokens, `?` for others."""
    for token in tokens:
        yield LETTERS[token - FIRST_LETTER] if 0 <= token - FIRST_LETTER < len(LETTERS) else "?"
