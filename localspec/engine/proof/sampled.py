"""One sampled answer looked into: the draft in step, its tokens all judged, penalties blind to what was rejected."""

from collections.abc import Iterator

from localspec.engine.distribution import Distribution
from localspec.engine.proof.ground import DRAFT_LENGTH, Ground, Said
from localspec.engine.proof.oracle import GAP
from localspec.engine.proof.report import Finding
from localspec.engine.proof.rows import bring
from localspec.engine.proof.watch import Cycles, Drafted, drafting
from localspec.engine.requests import Verify
from localspec.engine.sampling import Sampler

PLACES = 6
"""Drafts whose first distribution is held against that of a fresh context."""

DRIFT, JUMP = 0.1, 0.3
"""Total variation that rounding may make between them, on average and at a single place: `GAP` logits move an even
choice by an eighth."""

SAME = 1e-9
"""Total variation between two laws computed from one row: the arithmetic is the same."""

SEEN = 1e-3
"""What a rejected token must move a law by for its absence to show anything."""

SEED = 11


def sampled(ground: Ground) -> Iterator[Finding]:
    """An answer with penalties in force, drafted by the model drafter, or by lookup where there is none."""
    settings = ground.settings(repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2)
    own = ground.drafter
    rule: Verify = "rejection" if own is None else "block"
    cycles = Cycles()
    with drafting(own) as drafted:
        said = ground.ask(
            ground.prompts[-1],
            "lookup" if own is None else own.name,
            cycles.watch,
            sampling=settings,
            # Longer than others: what a rejected token would change must come up.
            max_tokens=2 * ground.length,
            draft_length=DRAFT_LENGTH,
            seed=SEED,
            verify=rule,
        )
    if own is not None:
        yield _in_step(ground, drafted)
        yield _all_judged(drafted, cycles, own.name)
    yield _penalties(said, cycles, Sampler(settings, ground.vocab))


def _in_step(ground: Ground, drafted: list[Drafted]) -> Finding:
    """The draft's context holds the target's text and its own draft, and says what a fresh one says of that text."""
    drafter = ground.drafter
    assert drafter is not None
    name = drafter.name
    behind = [each for each in drafted if each.drawn and not _holds(each)]
    places = [each for each in drafted if each.draft.probs is not None and each.draft.tokens][:: _every(drafted)][
        :PLACES
    ]
    drifts = []
    for each in places:
        ground.check()
        if ground.draft is None:
            # Heads read the target's rows: these are made anew too.
            bring(ground.target, each.history[:-1], len(ground.target.text))
        drafter.forget()
        fresh = drafter.sampler.distribution(drafter._target_row(drafter._step_to(each.history)), each.history)
        assert each.draft.probs is not None
        drifts.append(fresh.surplus(each.draft.probs[0]))
    drafter.forget()
    mean = sum(drifts) / len(drifts) if drifts else 0.0
    figure = f"{len(drafted)} drafts, {len(places)} read afresh: {mean:.1g} apart on average"
    numbers: dict[str, float | int | bool | None] = {
        "drafts": len(drafted),
        "behind": len(behind),
        "read_afresh": len(places),
        "mean_variation": mean,
        "worst_variation": max(drifts, default=0.0),
    }
    if behind:
        return Finding(
            "draft in step", name, "wrong", figure,
            f"at {len(behind)} drafts its context did not hold the target's text: it guesses after another text",
            numbers,
        )  # fmt: skip
    if mean > DRIFT or max(drifts, default=0.0) > JUMP:
        return Finding(
            "draft in step", name, "wrong", figure,
            f"it guesses otherwise than after the same text read afresh, by more than rounding of {GAP:g} logits makes",
            numbers,
        )  # fmt: skip
    if not drifts:
        return Finding("draft in step", name, "note", figure, "nothing was drawn, so this shows nothing", numbers)
    meaning = "its context holds what the target's holds, and it guesses as after the same text read afresh"
    return Finding("draft in step", name, "ok", figure, meaning, numbers)


def _holds(each: Drafted) -> bool:
    begin = len(each.history)
    tail = each.held[begin:]
    return each.held[:begin] == each.history and tail == each.drawn[: len(tail)]


def _every(drafted: list[Drafted]) -> int:
    return max(1, len(drafted) // PLACES)


def _all_judged(drafted: list[Drafted], cycles: Cycles, name: str) -> Finding:
    """What was drawn is what was proposed: no token was taken back once its value was known."""
    drawn = [each.drawn for each in drafted]
    proposed = [list(p.draft.tokens) for p in cycles.proposals if p is not None and p.drafter == name]
    count, kept = sum(map(len, drawn)), sum(map(len, proposed))
    # A draft whose every token was taken back was not proposed at all.
    back = count - kept if [each for each in drawn if each] != proposed else 0
    figure = f"{count} tokens drawn, {kept} proposed"
    numbers: dict[str, float | int | bool | None] = {"drawn": count, "proposed": kept}
    if [each for each in drawn if each] != proposed:
        meaning = (
            f"{back} drawn tokens were taken back, or others proposed: which ones stand then depends on their value"
        )
        return Finding("draws kept", name, "wrong", figure, meaning, numbers)
    if not count:
        return Finding("draws kept", name, "note", figure, "nothing was drawn, so this shows nothing", numbers)
    return Finding(
        "draws kept", name, "ok", figure, "every token that was drawn was proposed, and in its place", numbers
    )


def _penalties(said: Said, cycles: Cycles, sampler: Sampler) -> Finding:
    """Each law that an emitted token came from is that of the emitted history alone."""
    text = [*said.prompt, *said.ids]
    worst = felt = 0.0
    laws = after_rejection = 0
    emitted = [1, *(cycle.emitted for cycle in said.cycles)]
    accepted = [0, *(cycle.accepted for cycle in said.cycles)]
    before = len(said.prompt)
    rejected: list[int] = []
    for number, (count, kept) in enumerate(zip(emitted, accepted, strict=True)):
        for judged in cycles.laws[number]:
            if judged.place > kept or before + judged.place > len(text):
                continue
            history = text[: before + judged.place]
            own = sampler.distribution(judged.row, history)
            worst = max(worst, _apart(own, judged.law))
            laws += 1
            if rejected and judged.place == 0:
                after_rejection += 1
                felt = max(felt, _apart(own, sampler.distribution(judged.row, [*history, *rejected])))
        proposal = cycles.proposals[number]
        rejected = list(proposal.draft.tokens[kept:]) if proposal is not None else []
        before += count
    figure = f"{laws} laws, {after_rejection} after a rejection: {worst:.1g} apart"
    numbers: dict[str, float | int | bool | None] = {
        "laws": laws,
        "after_rejection": after_rejection,
        "variation": worst,
        "a_rejected_token_would_move": felt,
    }
    if worst > SAME:
        meaning = "a law is not that of the emitted text: the penalties saw tokens that were never emitted"
        return Finding("penalties", "history", "wrong", figure, meaning, numbers)
    if felt < SEEN:
        meaning = "no rejected token would have mattered here, so this shows little"
        return Finding("penalties", "history", "note", figure, meaning, numbers)
    meaning = f"they count emitted tokens alone; a rejected one would have moved a law by {felt:.2g}"
    return Finding("penalties", "history", "ok", figure, meaning, numbers)


def _apart(a: Distribution, b: Distribution) -> float:
    return max(a.surplus(b), b.surplus(a))
