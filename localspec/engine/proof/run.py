"""All checks in turn: what `localspec verify` runs in the engine's process."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from localspec.engine.context import Aborted
from localspec.engine.errors import EngineError
from localspec.engine.proof.cache import cuts
from localspec.engine.proof.chance import chance
from localspec.engine.proof.greedy import greedy, seeded
from localspec.engine.proof.ground import Ground
from localspec.engine.proof.law_check import laws
from localspec.engine.proof.report import Finding, Proof, ProofJob
from localspec.engine.proof.sampled import sampled

if TYPE_CHECKING:
    from localspec.engine.engine import Engine

Check = tuple[str, Callable[[Ground], Iterator[Finding]]]

CHECKS: tuple[Check, ...] = (
    ("cuts", cuts),
    ("law", laws),
    ("greedy", greedy),
    ("seed", seeded),
    ("draft", sampled),
    ("chi-square", chance),
)


def prove(
    engine: "Engine", job: ProofJob, progress: Callable[[float], None], checks: Sequence[Check] = CHECKS
) -> Proof:
    """Run every check. What the caches held is gone.

    A check that fails with an error is wrong, and the next one begins. Ends early, with what there is, when the engine
    is cancelled. Raises `EngineError` when nothing can be checked.
    """
    begun = time.monotonic()
    findings: list[Finding] = []
    complete = False

    progress(0.0)
    ground = Ground(engine, job.texts, job.seconds, progress)
    try:
        for name, check in checks:
            try:
                findings.extend(check(ground))
            except Aborted:
                raise
            except EngineError as error:
                findings.append(Finding(name, "engine", "wrong", "failed", f"the engine failed: {error}"))
            _start_afresh(engine)
        complete = True
        progress(1.0)
    except Aborted:
        _start_afresh(engine)
    info = engine.info
    return Proof(tuple(findings), time.monotonic() - begun, complete, info.target, info.draft)


def _start_afresh(engine: "Engine") -> None:
    """No check builds on the caches of another."""
    engine._loaded.target.clear()
    if engine._model_drafter is not None:
        engine._model_drafter.forget()
