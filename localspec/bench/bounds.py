"""What lookup with perfect draft lengths would reach on the text of an answer (see `replay`).

By its tokens alone, since their letters are with the engine: renamed words and code blocks, which its lookup finds by
them, are not in the bound, and an edit may pass it.
"""

from collections.abc import Mapping, Sequence

from localspec.bench.curves import Pricing
from localspec.bench.paired import Run
from localspec.bench.replay import Recording, bound
from localspec.bench.summary import Bound


def known(pricing: Pricing | None, prompts: Mapping[str, Sequence[int]]) -> Bound:
    """The bound of an answer by the price list, every text replayed once. `prompts`: token ids by the task's id; of a
    task that is not there nothing is known."""
    found: dict[tuple[str, tuple[int, ...]], float] = {}

    def of(run: Run) -> float | None:
        prompt = prompts.get(run.task.id)
        if pricing is None or prompt is None or len(run.tokens) < 2:
            return None
        key = run.task.id, run.tokens
        if key not in found:
            # One length of context for the whole answer: the curve changes little within it.
            middle = len(prompt) + len(run.tokens) // 2
            found[key] = bound(Recording(prompt, run.tokens), lambda width: pricing.relative(width, middle))
        return found[key]

    return of
