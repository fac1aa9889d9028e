"""The rules compared at the same places of the same text, with the same drafts: what each would keep, on average.

The text is sampled from the target alone. From a place of it on the draft model draws a draft, and one pass of the
target gives its rows along that draft. A draft drawn by the coupled rule has, over the noise, the same law as any
other; so one path stands for all rules, and what each keeps of it is an expectation in closed form (`rule_rates.py`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from localspec.engine import rule_cost, rule_rates
from localspec.engine.context import Aborted, Context, stretches
from localspec.engine.distribution import Distribution
from localspec.engine.errors import EngineError
from localspec.engine.events import Finished, Token
from localspec.engine.generate import Reply
from localspec.engine.prompt import common_prefix
from localspec.engine.requests import Request, SamplerSettings
from localspec.engine.rule_report import Place, RowCost, RuleJob, RuleRates
from localspec.engine.sampling import Allowed, Logits, Sampler

if TYPE_CHECKING:
    from localspec.engine.drafters.model import ModelDrafter
    from localspec.engine.engine import Engine

Progress = Callable[[float], None]
Rows = NDArray[np.float32]


def compare(engine: "Engine", job: RuleJob, progress: Progress) -> RuleRates:
    """Sample the text, draft along it and reckon; a cancel ends it with what there is. Raises `EngineError`."""
    drafter = engine._model_drafter
    if drafter is None:
        raise EngineError("the rules differ in how they judge tokens that a draft model drew: load a draft model")
    if engine._loaded.target.depth.kind == "none":
        raise EngineError("this model's cache cannot be cut back, so it runs without drafting: no rule judges anything")
    if not 1 <= job.longest <= engine._config.max_draft_length:
        raise EngineError(f"drafts must be 1 to {engine._config.max_draft_length} tokens long, not {job.longest}")
    if job.sampling.temperature == 0:
        raise EngineError("at temperature 0 all rules keep the target's argmax: there is nothing to compare")
    return _Comparison(engine, drafter, job, progress).run()


class _Comparison:
    def __init__(self, engine: "Engine", drafter: "ModelDrafter", job: RuleJob, progress: Progress) -> None:
        self._engine, self._drafter, self._job, self._progress = engine, drafter, job, progress
        self._target: Context = engine._loaded.target
        self._ids = engine.encode(job.prompt)
        self._sampler = Sampler(job.sampling, self._target.model.vocab_size)
        self._places: list[Place] = []
        self._costs: list[RowCost] = []

    def run(self) -> RuleRates:
        self._progress(0.0)
        text = self._text()
        if text is None:
            return RuleRates(False)
        self._drafter.begin(self._ids)
        # The first token comes from the prompt; cycles begin behind it.
        starts = range(1, len(text), self._job.stride)
        try:
            for done, start in enumerate(starts):
                self._place([*self._ids, *text[:start]])
                self._progress(0.2 + 0.8 * (done + 1) / len(starts))
        except Aborted:
            return RuleRates(False, tuple(self._places), tuple(self._costs))
        return RuleRates(True, tuple(self._places), tuple(self._costs))

    def _text(self) -> list[int] | None:
        """Tokens sampled from the target; None when it was cancelled. Leaves the drafter set up for such answers."""
        job = self._job
        reply = Reply(
            self._engine,
            Request(job.prompt, job.sampling, speculate="off", max_tokens=job.text_tokens, seed=job.seed),
        )
        text: list[int] = []
        try:
            for event in reply.run():
                if isinstance(event, Token):
                    text.append(event.id)
                    self._progress(0.2 * len(text) / job.text_tokens)
                if isinstance(event, Finished) and event.reason == "cancelled":
                    return None
        finally:
            reply.close()
        return text

    def _place(self, history: list[int]) -> None:
        """Draft behind `history`, read it with the target, and reckon."""
        self._drafter.sampler = noting = _Noting(self._job.sampling, self._target.model.vocab_size)
        self._read(history)
        draft = self._drafter.draft(history, min(self._job.longest, self._target.size - len(history) - 1))
        if not draft.tokens:
            return
        rows = self._target.decode([history[-1], *draft.tokens], len(draft.tokens) + 1)
        q = draft.probs or [Distribution.one_hot(token) for token in draft.tokens]
        p = [self._sampler.distribution(row, [*history, *draft.tokens[:i]]) for i, row in enumerate(rows)]
        self._places.append(
            Place(
                len(history),
                len(draft.tokens),
                {rule: tuple(kept(draft.tokens, q, p)) for rule, kept in rule_rates.RULES.items()},
                rule_rates.minima(p[0], q[0]),
                rule_rates.agreement(p[0], q[0]),
                p[0].prob(q[0].argmax),
            )
        )
        if self._job.timed and not self._costs and len(draft.tokens) == self._job.longest:
            self._costs = rule_cost.measure(rows, np.array(noting.seen[: len(draft.tokens)]))

    def _read(self, history: Sequence[int]) -> None:
        """Bring the target to all of `history` but its last token: where it is when a drafter is asked."""
        target, end = self._target, len(history) - 1
        kept = target.truncate(min(common_prefix(target.tokens, history), end))
        text = len(self._ids) if target.encodes else 0
        for at, stop in stretches(kept, end, target.options.batch, text):
            target.decode(history[at:stop], 0)


class _Noting(Sampler):
    """A sampler that keeps the draft model's logits: what the arithmetic costs is timed on real ones."""

    def __init__(self, settings: SamplerSettings, vocab_size: int) -> None:
        super().__init__(settings, vocab_size)
        self.seen: list[Logits] = []

    def distribution(self, logits: Logits, history: Sequence[int], allowed: Allowed | None = None) -> Distribution:
        self.seen.append(logits.copy())
        return super().distribution(logits, history, allowed)
