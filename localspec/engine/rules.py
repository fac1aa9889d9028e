"""Which rule verifies an answer's drafts, when nobody said."""

from localspec.engine.events import ModelDrafterName
from localspec.engine.requests import Request, Speculate, Verify


def rule_for(request: Request, *, drawn: bool) -> Verify:
    """The rule in force. `drawn`: a model drafter draws at a temperature above 0.

    A seed promises the same text again, which only `coupled` keeps. Without one the fastest: `block` accepts at least
    as much as `rejection` and costs microseconds more, and on drafts that were not drawn the two are the same.
    """
    if request.verify is not None:
        return request.verify
    if request.seed is not None:
        return "coupled"
    return "block" if drawn else "rejection"


def may_draw(mode: Speculate, drafter: ModelDrafterName | None) -> bool:
    """Whether the model drafter (None: there is none) may be asked in this mode."""
    return drafter is not None and mode in ("auto", drafter)
