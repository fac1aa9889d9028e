"""Numbers of the GGUF format and their names. Source: ggml.h, ggml-common.h, gguf.h and llama.h of llama.cpp."""

from typing import NamedTuple

STRING = 8
ARRAY = 9
BOOL = 7

SCALARS: dict[int, str] = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
"""GGUF value type to its `struct` format. Texts and arrays are not here: their size is in the file."""


class Layout(NamedTuple):
    """How a tensor type is stored: `block` elements take `size` bytes."""

    name: str
    block: int
    size: int


TENSOR_TYPES: dict[int, Layout] = {
    0: Layout("F32", 1, 4),
    1: Layout("F16", 1, 2),
    2: Layout("Q4_0", 32, 18),
    3: Layout("Q4_1", 32, 20),
    6: Layout("Q5_0", 32, 22),
    7: Layout("Q5_1", 32, 24),
    8: Layout("Q8_0", 32, 34),
    9: Layout("Q8_1", 32, 36),
    10: Layout("Q2_K", 256, 84),
    11: Layout("Q3_K", 256, 110),
    12: Layout("Q4_K", 256, 144),
    13: Layout("Q5_K", 256, 176),
    14: Layout("Q6_K", 256, 210),
    15: Layout("Q8_K", 256, 292),
    16: Layout("IQ2_XXS", 256, 66),
    17: Layout("IQ2_XS", 256, 74),
    18: Layout("IQ3_XXS", 256, 98),
    19: Layout("IQ1_S", 256, 50),
    20: Layout("IQ4_NL", 32, 18),
    21: Layout("IQ3_S", 256, 110),
    22: Layout("IQ2_S", 256, 82),
    23: Layout("IQ4_XS", 256, 136),
    24: Layout("I8", 1, 1),
    25: Layout("I16", 1, 2),
    26: Layout("I32", 1, 4),
    27: Layout("I64", 1, 8),
    28: Layout("F64", 1, 8),
    29: Layout("IQ1_M", 256, 56),
    30: Layout("BF16", 1, 2),
    34: Layout("TQ1_0", 256, 54),
    35: Layout("TQ2_0", 256, 66),
    39: Layout("MXFP4", 32, 17),
    40: Layout("NVFP4", 64, 36),
    41: Layout("Q1_0", 128, 18),
    42: Layout("Q2_0", 64, 18),
}

FILE_TYPES: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4",
    40: "Q1_0", 41: "Q2_0",
}  # fmt: skip
"""`general.file_type` to the name people and file names use."""

GUESSED = 1024
"""Flag in `general.file_type`: the writer did not know and took the most frequent tensor type."""

RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Architectures without an attention cache."""

HYBRID = frozenset({
    "jamba", "falcon-h1", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen3next",
    "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next", "qwen35", "qwen35moe", "qwen4exp", "deepseek4", "minimax-01",
})  # fmt: skip
"""Architectures with recurrent layers beside attention."""

ENCODERS = frozenset({
    "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
    "t5encoder", "gemma-embedding", "llama-embed",
})  # fmt: skip
"""Architectures that make embeddings and no text."""

ENCODER_DECODERS = frozenset({"t5"})
"""Architectures whose decoder attends to a text that their encoder read."""

ROLLS_BACK = frozenset({
    "qwen35", "qwen35moe", "qwen4exp", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "kimi-k3", "deepseek4",
    "glm5-next", "bailingmoe3",
})  # fmt: skip
"""Hybrids that can keep earlier recurrent states (`n_rs_seq`), each a copy of the whole state."""

VOCABULARIES: dict[str, str] = {
    "llama": "SPM", "bert": "WPM", "gpt2": "BPE", "hybriddna": "BPE", "whitespace": "BPE", "gemma4": "BPE",
    "t5": "UGM", "rwkv": "RWKV", "plamo2": "PLaMo-2", "no_vocab": "none", "none": "none",
}  # fmt: skip
"""`tokenizer.ggml.model` to the kind of tokenizer llama.cpp makes of it."""

DEFAULT_BEGIN: dict[str, int] = {"SPM": 1, "WPM": 101, "BPE": 11, "PLaMo-2": 1}
DEFAULT_END: dict[str, int] = {"SPM": 2, "UGM": 1, "BPE": 11, "PLaMo-2": 2}
"""Begin and end token where the file names none; a kind that is not listed has none."""

ADDS_BEGIN_BY_PRE = frozenset({
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
    "chameleon",
})  # fmt: skip
"""Values of `tokenizer.ggml.pre` that make a byte-pair tokenizer add the begin token by default."""

NO_BEGIN_BY_PRE = frozenset({"chatglm-bpe", "glm4", "glm5"})
"""Values of `tokenizer.ggml.pre` without a default begin token."""

FIM_TEXTS: dict[str, tuple[str, ...]] = {
    "prefix": (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>",
    ),
    "suffix": (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>",
    ),
    "middle": (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>",
    ),
    "pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "repository": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "separator": ("<|file_sep|>",),
}  # fmt: skip
"""Spellings by which llama.cpp knows fill-in-the-middle tokens where the file gives no ids."""
