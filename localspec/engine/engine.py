"""The engine of one process: the models, the conversation their caches hold, and what is known of both."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from localspec.engine import comparing, state, thorough
from localspec.engine.agreement import Agreements
from localspec.engine.bounds import PREFILL_CHUNK
from localspec.engine.calibrate import Calibration
from localspec.engine.context import Aborted, Context
from localspec.engine.costs import CostReport
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.drafters.mtp import MtpDrafter
from localspec.engine.errors import DecodeError
from localspec.engine.events import Event, Notice
from localspec.engine.generate import Reply
from localspec.engine.head import HeadContext
from localspec.engine.llama import AbortFlag
from localspec.engine.load import load
from localspec.engine.prompt import PromptEncoder
from localspec.engine.proof.report import Proof, ProofJob
from localspec.engine.proof.run import prove
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment
from localspec.engine.rule_report import RuleJob, RuleRates
from localspec.engine.sampling import Sampler
from localspec.engine.strategy import Experience


class Engine:
    """A target, perhaps a draft, and the conversation their caches hold.

    `generate` answers one request at a time; `cancel` may come from any thread. Raises `EngineError` on a failed load.
    """

    def __init__(self, config: EngineConfig, progress: Callable[[float], None] | None = None) -> None:
        self._abort = AbortFlag()
        self._loaded = load(config, self._abort, progress)
        self._config = config
        self.info: EngineInfo = self._loaded.info
        target, draft = self._loaded.target, self._loaded.draft
        self._encoder = PromptEncoder(target.model)
        self._calibration = Calibration(config, self._loaded)
        self._costs = self._calibration.costs
        self._lookup = Lookup(ends=target.model.end_tokens, vocabulary=target.model)
        self._experience = Experience()
        self._agreements = Agreements(config, self.info.gpu_layers, target, PREFILL_CHUNK)
        self._model_drafter: ModelDrafter | None = None
        self._follows = False
        if draft is not None:
            size = target.model.vocab_size
            unset = Sampler(Request(prompt=()).sampling, size)
            rng = np.random.default_rng(0)
            self._model_drafter = (
                MtpDrafter(draft, target, unset, rng)
                if isinstance(draft, HeadContext)
                else ModelDrafter(draft, size, unset, rng, config.drafter)
            )

    def cancel(self) -> None:
        """End the answer in progress, also in the middle of a decode. From any thread."""
        self._abort.is_set = True

    def count(self, prompt: Sequence[Segment]) -> int:
        """Tokens of a prompt, the begin token included."""
        return len(self.encode(prompt))

    def encode(self, prompt: Sequence[Segment]) -> list[int]:
        """Token ids of a prompt, the begin token included."""
        return self._encoder.encode(prompt)

    def save(self, path: str) -> int:
        """Write the caches to files at `path`; returns bytes. Raises `EngineError` when they cannot be written."""
        return state.save(self._loaded.target, self._kept_draft(), Path(path))

    def restore(self, path: str) -> int:
        """Load what `save` wrote there, when it fits; returns the tokens in the target's cache that came with it."""
        return state.restore(self._loaded.target, self._kept_draft(), Path(path))

    def _kept_draft(self) -> Context | None:
        """The draft's context where its cache is of use later; heads need the target's rows too, and start anew."""
        draft = self._loaded.draft
        return None if isinstance(draft, HeadContext) else draft

    def generate(self, request: Request) -> Iterator[Event]:
        """Answer one request; the events are in `events.py`. Raises `EngineError` when it cannot be answered."""
        self._abort.is_set = False
        if request.draft_anew and self._model_drafter is not None:
            self._model_drafter.forget()
        answer = Reply(self, request)
        self._follows = not request.draft_anew and request.speculate not in ("off", "lookup")
        try:
            yield answer.started
            yield from map(Notice, answer.notes)
            yield from answer.run()
        finally:
            answer.close()

    def idle(self, waiting: Callable[[], bool]) -> None:
        """Measure costs that are not known yet, then let the draft model read what was said since it was last in step:
        in the next answer it starts for little. Until `waiting` or `cancel`; no answer's text can tell."""
        self._abort.is_set = False
        self._calibration.idle(waiting)
        if self._follows and self._model_drafter is not None and not waiting():
            self._follows = False
            with suppress(Aborted, DecodeError):
                self._model_drafter.prefill(self._loaded.target.tokens)

    def costs(self) -> CostReport:
        """What is known of the cost of passes now."""
        return self._calibration.report()

    def calibrate(self, seconds: float, progress: Callable[[float], None]) -> CostReport:
        """Measure costs thoroughly, for about `seconds`; `cancel` ends it with what there is. Raises `EngineError`."""
        self._abort.is_set = False
        return thorough.calibrate(self._config, self._loaded, self._calibration, self._abort, seconds, progress)

    def measure(self, job: RuleJob | ProofJob, progress: Callable[[float], None]) -> RuleRates | Proof:
        """Compare the verification rules on one text, or prove that all is exact; `cancel` ends it with what there is.
        Raises `EngineError`."""
        self._abort.is_set = False
        return prove(self, job, progress) if isinstance(job, ProofJob) else comparing.compare(self, job, progress)

    def keep(self) -> None:
        """Write down what was learnt of costs."""
        self._calibration.keep()

    def close(self) -> None:
        """Give back all native memory."""
        self.keep()
        self._loaded.close()
