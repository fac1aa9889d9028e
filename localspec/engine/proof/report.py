"""What a proof found: one line a check, as it leaves the engine."""

from dataclasses import dataclass, field
from typing import Literal

from localspec.engine.proof.texts import TEXTS

State = Literal["ok", "wrong", "note"]
"""`note`: nothing could be said, for the reason in the meaning."""


@dataclass(frozen=True, slots=True)
class ProofJob:
    """Run every check, about `seconds` in all; prompts are made of `texts` (the last one the least predictable)."""

    seconds: float
    texts: tuple[str, ...] = TEXTS


@dataclass(frozen=True, slots=True)
class Finding:
    """One verdict. `check` of `subject` came out as `figure`, which `meaning` says in a sentence; `numbers` are the
    figures for programs."""

    check: str
    subject: str
    state: State
    figure: str
    meaning: str
    numbers: dict[str, float | int | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proof:
    """All verdicts, in order. `complete` is False when it was stopped before the last check."""

    findings: tuple[Finding, ...]
    seconds: float
    complete: bool
    target: str
    draft: str | None

    @property
    def wrong(self) -> int:
        return sum(finding.state == "wrong" for finding in self.findings)
