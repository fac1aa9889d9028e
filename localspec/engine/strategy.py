"""What is drafted this cycle: the mode a person chose, the drafters at hand, and the controller's estimates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from localspec.engine.acceptance import DraftAcceptance
from localspec.engine.blocks import Block
from localspec.engine.controller import HARDLY, Choice, Controller, Drawing, Offer
from localspec.engine.drafters.base import Draft, Place
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.woven import Weaver
from localspec.engine.events import MODEL_DRAFTERS, DrafterName, ModelDrafterName
from localspec.engine.lookup_acceptance import LookupAcceptance
from localspec.engine.requests import Speculate
from localspec.engine.rules import may_draw

if TYPE_CHECKING:
    from localspec.engine.drafters.grammar import GrammarDrafter

NOTHING = Draft(())

PRICED = 16
"""Tokens of context for which prices are kept: they change little within, and cost a tenth of a millisecond anew."""

CHEAP = 1.0
"""Plain passes that bringing a draft model in step may cost without a second thought."""


class Pricing(Protocol):
    """What passes cost, in plain passes of the target at the same context; `costs.py` has the measured one."""

    def relative(self, width: int, context: int) -> float: ...

    def draft_token(self, context: int) -> float: ...

    def catching_up(self, behind: int, context: int) -> float: ...

    def plain_wanted(self, context: int, now: float) -> bool: ...


class Model(Protocol):
    """A model drafter as a strategy sees it; `drafters/model.py` has a real one."""

    @property
    def name(self) -> ModelDrafterName: ...

    def begin(self, tokens: Sequence[int]) -> None: ...

    def prefill(self, tokens: Sequence[int]) -> None: ...

    def behind(self, history: Sequence[int]) -> int: ...

    def draft(
        self, history: Sequence[int], limit: int, drawing: Drawing | None = None, sure: Callable[[float], float] = float
    ) -> Draft: ...


@dataclass(slots=True)
class Experience:
    """What became of drafts so far: kept over the answers of an engine."""

    lookup: LookupAcceptance = field(default_factory=LookupAcceptance)
    draft: DraftAcceptance = field(default_factory=DraftAcceptance)


@dataclass(frozen=True, slots=True)
class Proposal:
    """This cycle's draft, who made it, and what was expected of it.

    `found` is what lookup had to offer, used or not: its verdict is free. `choice` is the estimate acted on, or that of
    the best draft that was not made. `behind` is how many tokens a draft model had to read first, `spent` what the
    cycle costs in plain passes. `asked` is who the controller chose, though it may have drawn nothing; None: nobody.
    """

    drafter: DrafterName
    draft: Draft
    found: Draft = NOTHING
    choice: Choice | None = None
    behind: int = 0
    spent: float = 1.0
    asked: DrafterName | None = None

    def drafter_of(self, place: int) -> DrafterName:
        """Who proposed the token at `place`, or was asked when it was chosen: copies and forced texts share drafts."""
        places = self.draft.places
        return "grammar" if place < len(places) and places[place].ground == "forced" else self.drafter


PLAIN = Proposal("none", NOTHING)


def _forced(found: Draft) -> int:
    """How many tokens the draft begins with that a grammar forces."""
    return next((n for n, place in enumerate(found.places) if place.ground != "forced"), len(found.places))


def _finder(draft: Draft) -> DrafterName:
    """Who found the draft: the grammar, when it forces all."""
    return "grammar" if _forced(draft) == len(draft.tokens) else "lookup"


class Strategy:
    """One answer's drafting. `fixed` is a draft length for every cycle; None lets the controller choose.

    In a model drafter's own mode every cycle drafts: who names it wants to see it at work. `auto` and `lookup` draft
    when it pays. `forecast` is the most tokens the answer may have; `forced` drafts what a grammar forces, and bounds
    what lookup does.
    """

    def __init__(
        self,
        mode: Speculate,
        fixed: int | None,
        costs: Pricing,
        lookup: Lookup,
        model: Model | None,
        experience: Experience | None = None,
        forecast: int | None = None,
        forced: "GrammarDrafter | None" = None,
    ) -> None:
        self.costs = costs
        self._fixed = fixed
        self._lookup = lookup if mode in ("auto", "lookup") else None
        self._model = model if model is not None and may_draw(mode, model.name) else None
        self._forced = forced if mode != "off" else None
        self._lazy_model = mode == "auto"
        self._insist = mode in MODEL_DRAFTERS
        self._experience = experience or Experience()
        self._experience.lookup.begin(bounded=forced is not None)
        self._experience.draft.begin()
        self._prices: dict[int, float] = {}
        self._priced_at = 0
        self._controller = Controller(float("inf") if forecast is None else forecast)

    @property
    def drafts(self) -> bool:
        """Anything at all may be drafted."""
        return self._lookup is not None or self._model is not None or self._forced is not None

    @property
    def listens(self) -> bool:
        """The target's confidence is of use: a draft model is at hand that nobody insists on."""
        return self._model is not None and not self._insist and not self._fixed

    def begin(self, prompt: Sequence[int], texts: Sequence[Sequence[int]] = (), blocks: Sequence[Block] = ()) -> None:
        """The prompt is known, with its `blocks`; `texts` are looked up besides. In `auto` the draft model waits until
        it is first asked: its prefill may never pay."""
        if self._lookup is not None:
            self._lookup.begin(prompt, texts, blocks)
        if self._forced is not None:
            self._forced.begin(prompt)
        if self._model is not None:
            self._model.begin(prompt)
            if not self._lazy_model:
                self._model.prefill(prompt)

    def propose(self, history: Sequence[int], limit: int, now: float) -> Proposal:
        """At most `limit` tokens to follow `history`; nothing when a plain pass is better, or due for the baseline."""
        if limit < 1 or not self.drafts:
            return PLAIN
        found = self._find(history, limit)
        if self.costs.plain_wanted(len(history), now):
            return Proposal("none", NOTHING, found)
        return self._propose_fixed(history, limit, found) if self._fixed else self._choose(history, limit, found)

    def _propose_fixed(self, history: Sequence[int], limit: int, found: Draft) -> Proposal:
        length = min(limit, self._fixed or limit)
        if found.tokens:
            draft = found.cut(length)
            return Proposal(_finder(draft), draft, found)
        if self._model is not None:
            behind = self._model.behind(history)
            draft = self._model.draft(history, length)
            if draft.tokens:
                return Proposal(self._model.name, draft, behind=behind)
        return PLAIN

    def _choose(self, history: Sequence[int], limit: int, found: Draft) -> Proposal:
        offers: list[Offer] = []
        context = len(history)
        seen = self._experience
        if found.tokens:
            rates = self._rates(found)
            # What is forced is offered by itself too: it stands though copies are not to be trusted.
            if forced := _forced(found):
                offers.append(Offer("grammar", rates[:forced]))
            if forced < len(rates):
                offers.append(Offer("lookup", rates))
        behind = 0
        if self._model is not None:
            behind = self._model.behind(history)
            start = self.costs.catching_up(behind, context)
            # A text that nothing is known of yet is no reason to read it all.
            if self._insist or start < CHEAP or seen.draft.informed:
                rates = [seen.draft.looking] * limit
                offers.append(Offer(self._model.name, rates, self.costs.draft_token(context), start))

        if not self._priced_at <= context < self._priced_at + PRICED:
            self._prices.clear()
            self._priced_at = context
        prices = self._prices

        def cost(width: int) -> float:
            # Asked again and again for the same few widths: by every offer, and before each draw.
            if width not in prices:
                prices[width] = self.costs.relative(width, context)
            return prices[width]

        decision = self._controller.choose(offers, limit, cost, insist=self._insist)
        choice = decision.choice
        if choice is None:
            return Proposal("none", NOTHING, found, decision.best)
        offer = offers[choice.offer]
        if offer.drafter not in MODEL_DRAFTERS:
            # Which tokens lookup proposes depends on the history alone, so cutting them biases nothing.
            draft = found.cut(choice.length)
            finder = _finder(draft)
            return Proposal(finder, draft, found, choice, spent=cost(1 + choice.length), asked=finder)
        assert self._model is not None
        # A draft chosen for its length may turn out to be worth going on with, or not even that length.
        drawing = Drawing(seen.draft.rate, offer.token_cost, cost, decision.pace, limit, self._insist)
        draft = self._model.draft(history, limit, drawing, seen.draft.of)
        # What bringing it in step took was weighed against the whole answer, not against this cycle.
        spent = cost(1 + len(draft.tokens)) + max(1, len(draft.tokens), draft.passes) * offer.token_cost
        name = self._model.name
        return Proposal(name if draft.tokens else "none", draft, found, choice, behind, spent, asked=name)

    def learn(self, proposal: Proposal, judged: int, accepted: int, emitted: Sequence[int]) -> None:
        """The target judged the proposal; `emitted` tokens left the cycle."""
        seen = self._experience
        if proposal.drafter in MODEL_DRAFTERS:
            for number, top in enumerate(proposal.draft.tops[:judged]):
                seen.draft.learn(top, number < accepted)
        found = proposal.found
        # What a draft does not say the places of, it says nothing about.
        for number, (token, _, said) in enumerate(zip(found.tokens, found.places, emitted, strict=False)):
            self._judged(found, number, token == said)
            if token != said:
                break
        # A model drafter that was asked and drew nothing has cost its passes all the same.
        self._controller.learn(proposal.asked, len(emitted), proposal.spent)
        self.accept(emitted)

    def accept(self, emitted: Sequence[int]) -> None:
        """The text went on with these tokens; `learn` tells of a cycle's by itself."""
        for drafter in (self._lookup, self._forced):
            if drafter is not None:
                drafter.accept(emitted)

    def _find(self, history: Sequence[int], limit: int) -> Draft:
        """What costs nothing to draft: copies, and what a grammar forces."""
        if self._forced is not None:
            return Weaver(self._forced, self._lookup, self._rate).draft(history, limit)
        return self._lookup.draft(history, limit) if self._lookup is not None else NOTHING

    def _judged(self, found: Draft, number: int, stood: bool) -> None:
        """Token `number` of what was found had its verdict. A forced one says nothing of copies."""
        if found.places[number].ground != "forced":
            self._experience.lookup.learn(found.places[number], stood)
        elif self._forced is not None:
            self._forced.learn(stood)
        if stood and self._forced is not None and self._lookup is not None and found.positions[number] >= 0:
            self._forced.copied(found.positions[number] - self._lookup.offset)

    def _rates(self, found: Draft) -> list[float]:
        """Of its tokens, up to the one that hardly ever comes to be judged."""
        rates: list[float] = []
        standing = 1.0
        for place in found.places:
            rates.append(self._rate(place))
            standing *= rates[-1]
            if standing < HARDLY:
                break
        return rates

    def _rate(self, place: Place) -> float:
        """The probability that a token of it stands, those before it standing."""
        if place.ground == "forced" and self._forced is not None:
            return self._forced.rate
        return self._experience.lookup.rate(place)

    def heard(self, top: float) -> None:
        """The target gave its latest token this probability, its largest."""
        self._experience.draft.heard(top)
