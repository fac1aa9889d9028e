"""Which model files carry MTP heads that can run: what the file says, and what llama.cpp has a graph for.

A file may name layers and leave their tensors out, and the library ends the process when it is asked for heads that it
has no graph for, or more of them than its graph takes. So both are looked at before.
"""

from collections.abc import Iterator

SINGLE = frozenset(
    {"bailingmoe3", "cohere2moe", "deepseek32", "glm-dsa", "glm4moe", "hy_v3", "qwen35", "qwen35moe", "qwen3next"}
)
"""Architectures whose one head drafts on with its own hidden rows."""

CHAINED = frozenset({"mimo2", "step35"})
"""Those with a head for each token of a draft."""

TRIED = frozenset({"qwen35", "step35"})
"""Those that were tried here, with small random files: the others' heads run only when a person asks for them."""


def can_run(architecture: str, heads: int) -> bool:
    """Whether llama.cpp can run the `heads` of a file of this architecture."""
    return heads > 0 and (architecture in CHAINED or (heads == 1 and architecture in SINGLE))


def needed_tensors(layers: int, heads: int) -> Iterator[str]:
    """A tensor of each of the `heads`, which stand behind `layers` others; a file without it carries no such head."""
    for layer in range(layers, layers + heads):
        yield f"blk.{layer}.nextn.eh_proj.weight"
