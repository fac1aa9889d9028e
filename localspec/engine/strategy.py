"""What is drafted this cycle: the mode a person chose, the drafters at hand, and the controller's estimates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from localspec.engine.controller import Controller, Offer
from localspec.engine.costs import Costs
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.events import DrafterName
from localspec.engine.requests import Speculate

NOTHING = Draft(())

PATIENCE = 0.4
"""The draft model goes on while it believes at least so much that all its tokens so far stand: below it a further token
costs more than it is likely to return on every curve measured."""

@dataclass(frozen=True, slots=True)
class Proposal:
    """This cycle's draft, who made it, and the free guesses that were offered but not used.

    `behind` is how many tokens a draft model had to read first.
    """

    drafter: DrafterName
    draft: Draft
    offer: Offer | None = None
    unused: tuple[tuple[Offer, int], ...] = ()
    behind: int = 0


PLAIN = Proposal("none", NOTHING)


class Strategy:
    """One answer's drafting. `fixed` is a draft length for every cycle; None lets the controller choose.

    In mode `draft` every cycle drafts: who names the draft model wants to see it at work. `auto` and `lookup` draft
    when it pays.
    """

    def __init__(
        self, mode: Speculate, fixed: int | None, costs: Costs, lookup: Lookup, model: ModelDrafter | None
    ) -> None:
        self.costs = costs
        self._fixed = fixed
        self._lookup = lookup if mode in ("auto", "lookup") else None
        self._model = model if mode in ("auto", "draft") else None
        self._lazy_model = mode == "auto"
        self._insist = mode == "draft"
        self._controller = Controller(costs.passes)
        if self._model is not None:
            self._model.patience = 0.0 if fixed else PATIENCE

    @property
    def drafts(self) -> bool:
        """Anything at all may be drafted."""
        return self._lookup is not None or self._model is not None

    def begin(self, prompt: Sequence[int]) -> None:
        """The prompt is known. In `auto` the draft model waits until it is first asked: its prefill may never pay."""
        if self._lookup is not None:
            self._lookup.begin(prompt)
        if self._model is not None:
            self._model.begin(prompt)
            if not self._lazy_model:
                self._model.prefill(prompt)

    def propose(self, history: Sequence[int], limit: int, now: float) -> Proposal:
        """At most `limit` tokens to follow `history`; nothing when a plain pass is better, or due for the baseline."""
        if limit < 1 or not self.drafts or self.costs.plain_wanted(len(history), now):
            return PLAIN
        return self._propose_fixed(history, min(limit, self._fixed)) if self._fixed else self._choose(history, limit)

    def _propose_fixed(self, history: Sequence[int], length: int) -> Proposal:
        if self._lookup is not None:
            draft = self._lookup.draft(history, length)
            if draft.tokens:
                return Proposal("lookup", draft)
        if self._model is not None:
            behind = self._model.behind(history)
            draft = self._model.draft(history, length)
            if draft.tokens:
                return Proposal("draft", draft, behind=behind)
        return PLAIN

    def _choose(self, history: Sequence[int], limit: int) -> Proposal:
        offers: list[Offer] = []
        found = NOTHING
        if self._lookup is not None:
            found = self._lookup.draft(history, limit)
            if found.tokens:
                offers.append(Offer("lookup", len(found.tokens), evidence=found.match_length, ground=found.ground))
        behind = 0
        if self._model is not None:
            behind = self._model.behind(history)
            start = self.costs.catching_up(behind, len(history))
            offers.append(Offer("draft", limit, token_cost=self.costs.draft_token(len(history)), start_cost=start))
        choice = self._controller.choose(offers, limit, insist=self._insist)
        offer = offers[choice.offer] if choice else None
        unused = tuple((o, found.tokens[0]) for o in offers if o.drafter == "lookup" and o is not offer)
        if choice is None or offer is None:
            return Proposal("none", NOTHING, None, unused)
        if offer.drafter == "lookup":
            # Which tokens lookup proposes depends on the history alone, so cutting them biases nothing.
            return Proposal("lookup", replace(found, tokens=found.tokens[: choice.length]), offer)
        assert self._model is not None
        draft = self._model.draft(history, choice.length)
        return Proposal("draft" if draft.tokens else "none", draft, offer, unused, behind)

    def learn(self, proposal: Proposal, judged: int, accepted: int, emitted: Sequence[int]) -> None:
        """The target judged the proposal; `emitted` tokens left the cycle."""
        if proposal.offer is not None:
            self._controller.learn(proposal.offer, judged, accepted)
        for offer, guess in proposal.unused:
            if emitted:
                self._controller.learn(offer, 1, int(guess == emitted[0]))
        self._controller.emitted(len(emitted))
        if self._lookup is not None:
            self._lookup.accept(emitted)
