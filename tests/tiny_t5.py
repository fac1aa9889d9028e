"""Tiny T5 models with random weights: an encoder, a decoder that attends to it, and T5's own kind of tokenizer.

The vocabulary keeps the places of `tiny.py`: four specials, here `<pad>` (the decoder's start), `</s>`, `<unk>` and a
control token, then one token a letter. Texts of letters get no blank in front unless `blank`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests import tiny

PAD, EOS, UNK = 0, 1, 2
SPECIALS = [("<pad>", tiny.CONTROL), ("</s>", tiny.CONTROL), ("<unk>", tiny.UNKNOWN), ("<|role|>", tiny.CONTROL)]
BUCKETS = 8
"""Classes of distance that have an attention bias of their own."""


def vocabulary(letters: int = 12, *, extra: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    """Token texts and types: the specials, `letters` letters, then `extra` texts."""
    spelled = [*tiny.LETTERS[:letters], *extra]
    return SPECIALS + [(text, tiny.NORMAL) for text in spelled]


def write_t5(
    path: Path,
    *,
    arch: str = "t5",
    tokens: list[tuple[str, int]] | None = None,
    layers: int = 2,
    width: int = 32,
    seed: int = 1,
    scale: float = 3.0,
    context: int = 512,
    start: int | None = PAD,
    add_eos: bool | None = None,
    blank: bool = False,
    name: str | None = None,
    tune: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> Path:
    """`layers` in the encoder and as many in the decoder, which `arch` "t5encoder" does not have. `scale` sharpens
    the distributions; `tune` may edit `token_embd` and `output`. `start` None and `add_eos` None leave these out."""
    tokens = tokens or vocabulary()
    heads, hidden = 2, 2 * width
    w = tiny._Writer(path, arch, seed, scale)
    out = w.out
    out.add_context_length(context)
    out.add_embedding_length(width)
    out.add_block_count(layers)
    out.add_uint32(f"{arch}.decoder_block_count", layers)
    out.add_feed_forward_length(hidden)
    out.add_head_count(heads)
    out.add_key_length(width // heads)
    out.add_value_length(width // heads)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_relative_attn_buckets_count(BUCKETS)
    if start is not None:
        out.add_decoder_start_token_id(start)
    out.add_tokenizer_model("t5")
    out.add_token_list([text for text, _ in tokens])
    out.add_token_scores([-1.0 / len(text) if kind == tiny.NORMAL else 0.0 for text, kind in tokens])
    out.add_token_types([kind for _, kind in tokens])
    out.add_eos_token_id(EOS)
    out.add_pad_token_id(PAD)
    out.add_unk_token_id(UNK)
    out.add_add_bos_token(False)
    if add_eos is not None:
        out.add_add_eos_token(add_eos)
    out.add_add_space_prefix(blank)
    out.add_bool("tokenizer.ggml.remove_extra_whitespaces", blank)
    out.add_vocab_size(len(tokens))
    if name is not None:
        out.add_name(name)
    w.ends(len(tokens), width, tune)
    for side in ("enc", "dec") if arch == "t5" else ("enc",):
        w.ones(f"{side}.output_norm.weight", width)
        w.weight(f"{side}.blk.0.attn_rel_b.weight", BUCKETS, heads, scale=1.0)
        for i in range(layers):
            b = f"{side}.blk.{i}."
            for kind in ("attn", "cross_attn") if side == "dec" else ("attn",):
                w.ones(f"{b}{kind}_norm.weight", width)
                for part in ("q", "k", "v", "o"):
                    w.weight(f"{b}{kind}_{part}.weight", width, width)
            w.ones(b + "ffn_norm.weight", width)
            w.weight(b + "ffn_up.weight", hidden, width)
            w.weight(b + "ffn_down.weight", width, hidden)
    w.close()
    return path
