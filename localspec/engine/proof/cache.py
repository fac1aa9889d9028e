"""Whether what is cut away from a cache is gone: by behaviour, on this machine, at the shapes the loop decodes."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Context, RollbackDepth
from localspec.engine.errors import DecodeError
from localspec.engine.probe import probe_rollback
from localspec.engine.proof.ground import Ground
from localspec.engine.proof.report import Finding
from localspec.engine.proof.rows import bring

PREFIX = 24
"""Tokens of the text that stay in any case."""

SHAPES = ((1, 0), (4, 2), (16, 5))
"""Draft lengths, and how many of the draft's tokens stand."""

GPU_NOISE = 1e-2
"""Logits by which a GPU, whose sums run in another order each time, may differ."""

_ORDER = {"none": 0, "last_pass": 1, "window": 2, "unlimited": 3}


def cuts(ground: Ground) -> Iterator[Finding]:
    """The target's cache, and the draft's."""
    on_gpu = ground.engine.info.gpu_layers != 0 or ground.engine.info.draft_gpu_layers != 0
    tokens = ground.engine.encode(ground.prompts[-1])
    yield _cut(ground, ground.target, "target", tokens, GPU_NOISE if on_gpu else 0.0)
    if ground.draft is not None:
        yield _cut(ground, ground.draft, "draft", tokens, GPU_NOISE if on_gpu else 0.0)


def _cut(ground: Ground, context: Context, name: str, tokens: list[int], noise: float) -> Finding:
    used = context.depth
    try:
        found = probe_rollback(context, exact=noise == 0.0)
        context.depth = used
        tried, worst = _try(ground, context, tokens) if used.kind != "none" else (0, 0.0)
    except DecodeError as error:
        return Finding("cuts", name, "wrong", str(used), f"a pass behind a cut fails: {error}", {"variation": None})
    finally:
        context.depth = used
        context.clear()
    figure = f"{used}; {tried} cuts tried: logits {worst:.2g} apart"
    numbers: dict[str, float | int | bool | None] = {"cuts": tried, "apart": worst, "depth": used.tokens or None}
    if _weaker(found, used):
        meaning = f"the engine takes it for {used}, and it shows {found}: what was cut away is still there"
        return Finding("cuts", name, "wrong", figure, meaning, numbers)
    if worst > noise:
        meaning = "what follows a cut depends on what was cut away: it is still there"
        return Finding("cuts", name, "wrong", figure, meaning, numbers)
    if used.kind == "none":
        meaning = "this cache cannot be cut back: nothing is drafted with it"
        return Finding("cuts", name, "note", figure, meaning, numbers)
    meaning = "what was cut away is gone: what follows does not depend on it" + (
        ", to the last bit" if not worst else ""
    )
    return Finding("cuts", name, "ok", figure, meaning, numbers)


def _weaker(found: RollbackDepth, used: RollbackDepth) -> bool:
    return (_ORDER[found.kind], found.tokens) < (_ORDER[used.kind], used.tokens)


def _try(ground: Ground, context: Context, tokens: list[int]) -> tuple[int, float]:
    """How many cuts were made, and how far what follows them is apart between two kinds of rejected tokens."""
    tried, worst = 0, 0.0
    options = context.options
    for length, kept in SHAPES:
        rows = min(1 + length, options.outputs, options.batch)
        removed = length - kept
        fits = len(tokens) > PREFIX + 2 * (1 + length) and 1 + length <= options.batch
        if not removed or not fits or (context.depth.kind == "last_pass" and removed > context.depth.tokens):
            continue
        ground.check()
        found = [_behind(context, tokens, length, kept, rows, other) for other in (0, 1)]
        if found[0] is None or found[1] is None:
            # It was cleared instead, which is right for a window that the cut left.
            continue
        tried += 1
        worst = max(worst, float(np.abs(found[0] - found[1]).max()))
    return tried, worst


def _behind(
    context: Context, tokens: list[int], length: int, kept: int, rows: int, other: int
) -> NDArray[np.float32] | None:
    """Logits of a continuation after a draft of which `kept` tokens stood and the rest, `other` ones, was cut away."""
    usual = range(context.model.vocab_size // 4, context.model.vocab_size)
    stands = PREFIX + 1 + kept
    rejected = [usual[(97 * i + 31 * other + 5) % len(usual)] for i in range(length - kept)]
    context.clear()
    bring(context, tokens[:PREFIX], PREFIX if context.encodes else 0)
    context.decode([*tokens[PREFIX:stands], *rejected], rows)
    if context.truncate(stands) != stands:
        return None
    return context.decode(tokens[stands : stands + 1 + length], rows).copy()
