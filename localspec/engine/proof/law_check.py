"""Every rule on recorded rows of the real models: exactly the target's law, by arithmetic.

The rules are those that the loop calls. Of `coupled` the law is a theorem about noise that nobody can add up: what is
exact here is that each emitted token is the target's own draw of the noise whatever was drafted, that the draft model
draws with the same noise, and that the fast draw is the argmax it stands for. That the noise itself is even enough is
a chi-square over seeds.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from localspec.engine import generate
from localspec.engine.distribution import Distribution
from localspec.engine.noise import Noise, gumbel
from localspec.engine.proof import chisquare
from localspec.engine.proof.ground import Ground, Row
from localspec.engine.proof.law import Rule, certain_distance, drawn_distance, single_distance
from localspec.engine.proof.report import Finding
from localspec.engine.proof.rows import recorded
from localspec.engine.requests import SamplerSettings
from localspec.engine.sampling import Sampler
from localspec.engine.verify import Verdict

ROWS = 200
"""Places of the texts at which every rule is judged."""

BOUND = 1e-6
"""Total variation that counts as none."""

EVERY = 2
"""Of the rows, every so many is taken without filters too, over the whole vocabulary."""

DRAFT = 2
"""Tokens of a judged draft: from two on the block rule differs from the token-level one."""

SHARE = 0.25
"""Of the time, the most that this may take."""

BEGIN = 8
"""Tokens of a text before its first recorded row."""

WHOLE = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
HOTTER = SamplerSettings(temperature=1.6, top_k=10, top_p=1.0, min_p=0.0)

SEEDS, NOISE_ROWS, NOISE_DRAWS = 4, 5, 4_000
LEVEL = 1e-4

_LOOP: Any = generate
"""Where the loop takes its rules from: those are judged."""

Name = Literal["greedy", "rejection", "block", "coupled"]


@dataclass(slots=True)
class _Worst:
    """How often a rule was judged, and the largest distance from the target's law."""

    rows: int = 0
    whole: int = 0
    distance: float = 0.0

    def saw(self, distance: float) -> None:
        self.distance = max(self.distance, distance)


def laws(ground: Ground) -> Iterator[Finding]:
    """All rules, at as many rows as there is time for."""
    ends = SHARE + ground.elapsed / ground.seconds
    filtered, whole = Sampler(SamplerSettings(), ground.vocab), Sampler(WHOLE, ground.vocab)
    hotter = Sampler(HOTTER, ground.vocab)
    worst: dict[Name, _Worst] = {name: _Worst() for name in ("greedy", "rejection", "block", "coupled")}
    coupled = _Coupled(ground)
    window: deque[tuple[Row, Row | None, int]] = deque(maxlen=DRAFT + 1)
    for number, (row, draft_row, token) in enumerate(_rows(ground)):
        if number == ROWS + DRAFT or ground.gone(ends):
            break
        window.append((row, draft_row, token))
        if len(window) <= DRAFT:
            continue
        targets = [each[0] for each in window]
        # Without a draft model, drafts drawn from what the target itself says when it is less sure.
        drafts = [targets[i] if (own := window[i][1]) is None else own for i in range(DRAFT)]
        drawing = filtered if ground.draft is not None else hotter
        p = [filtered.distribution(row, ()) for row in targets]
        q = [drawing.distribution(row, ()) for row in drafts]
        copied = (window[0][2], window[1][2])
        _drawn(worst, p, q, copied)
        coupled.judge(worst["coupled"], p, q, number)
        _greedy(worst["greedy"], targets, (q[0].argmax, q[1].argmax))
        if number % EVERY == 0:
            _whole(worst, [whole.distribution(row, ()) for row in targets[:2]], whole.distribution(drafts[0], ()))
    beside = "" if ground.draft is not None else " (drafts drawn from the target's own rows, hotter)"
    yield from (_verdict(name, worst[name], beside) for name in ("greedy", "rejection", "block"))
    yield coupled.verdict(worst["coupled"])


def _rows(ground: Ground) -> Iterator[tuple[Row, Row | None, int]]:
    """The target's row and the draft's at one place after the other, and the token that stands behind it."""
    for prompt in ground.prompts:
        tokens = ground.engine.encode(prompt)
        own = recorded(ground.target, tokens[:-1], min(BEGIN, len(tokens) - 2))
        if ground.draft is None:
            for at, row in enumerate(own, min(BEGIN, len(tokens) - 2)):
                yield ground.open_ended(row), None, tokens[at + 1]
        else:
            drafts = recorded(ground.draft, tokens[:-1], min(BEGIN, len(tokens) - 2))
            for at, (row, draft) in enumerate(zip(own, drafts, strict=True), min(BEGIN, len(tokens) - 2)):
                yield ground.open_ended(row), ground.open_ended(ground.fitted_row(draft)), tokens[at + 1]


def _drawn(worst: dict[Name, _Worst], p: list[Distribution], q: list[Distribution], copied: tuple[int, int]) -> None:
    """Two drawn tokens under both rules, and one copied one, which may be what the target would say or not."""
    rejection: Rule = _LOOP.rejection
    worst["rejection"].rows += 1
    worst["rejection"].saw(drawn_distance(rejection, p, q))
    for token in {copied[0], q[0].argmax}:
        worst["rejection"].saw(certain_distance(rejection, p[:2], (token,)))
    worst["block"].rows += 1
    worst["block"].saw(drawn_distance(_block, p, q))


def _whole(worst: dict[Name, _Worst], p: list[Distribution], q: Distribution) -> None:
    """One token drawn without any filter, over the whole vocabulary."""
    for name, rule in (("rejection", _LOOP.rejection), ("block", _block)):
        worst[name].whole += 1  # type: ignore[index]
        worst[name].saw(single_distance(rule, p, q))  # type: ignore[index]


def _block(draft: Sequence[int], probs: Sequence[Distribution] | None, *rest: object) -> Verdict:
    assert probs is not None
    verdict: Verdict = _LOOP.block(draft, probs, *rest)
    return verdict


def _greedy(worst: _Worst, rows: list[Row], guess: tuple[int, int]) -> None:
    """The argmax of each row, kept as long as the draft says it; one-hot laws are the same or wholly apart."""
    said = [int(row.argmax()) for row in rows]
    worst.rows += 1
    for draft in ((said[0], said[1]), guess, (said[0], guess[1])):
        verdict = _LOOP.greedy(draft, said.__getitem__)
        emitted = [*draft[: verdict.accepted], verdict.token]
        stands = next((i for i in range(DRAFT) if draft[i] != said[i]), DRAFT)
        worst.saw(0.0 if emitted == said[: stands + 1] else 1.0)


class _Coupled:
    """What can be said exactly of the coupled rule, and the noise's own chi-square."""

    def __init__(self, ground: Ground) -> None:
        self._drafter = ground.drafter
        self._apart = self._foreign = self._slips = self._draws = 0
        self._p = 1.0

    def judge(self, worst: _Worst, p: list[Distribution], q: list[Distribution], position: int) -> None:
        worst.rows += 1
        for seed in range(SEEDS):
            noise = Noise(1_000 * seed + 7)
            own = [noise.draw(law, position + i) for i, law in enumerate(p)]
            guess = tuple(noise.draw(law, position + i) for i, law in enumerate(q))
            for draft in ((own[0], own[1]), guess, (own[0], guess[1]), (guess[0], own[1])):
                verdict = _LOOP.coupled(draft, p.__getitem__, noise, position)
                emitted = [*draft[: verdict.accepted], verdict.token]
                self._draws += len(emitted)
                self._apart += emitted != own[: len(emitted)]
            self._foreign += self._drafter is not None and self._drawn(p[0], noise, position) != own[0]
        if position % (ROWS // NOISE_ROWS) == 0:
            self._even(p[0], position)
            self._slips += noise.draw(p[0], position) != _plainly(p[0], noise, position)

    def _drawn(self, law: Distribution, noise: Noise, position: int) -> int:
        """What the draft model draws from a law at a place, with the noise given to it."""
        drafter = self._drafter
        assert drafter is not None
        before, drafter.noise = drafter.noise, noise
        try:
            return drafter._draw(law, position)
        finally:
            drafter.noise = before

    def _even(self, law: Distribution, position: int) -> None:
        """Over seeds the draws of one law follow it."""
        if law.is_one_hot:
            return
        counts: dict[int, int] = {}
        for seed in range(NOISE_DRAWS):
            token = Noise(seed).draw(law, position)
            counts[token] = counts.get(token, 0) + 1
        ids = np.arange(len(law.probs)) if law.ids is None else law.ids
        shares = {int(token): float(share) for token, share in zip(ids, law.probs, strict=True)}
        self._p = min(self._p, chisquare.test(counts, shares).p)

    def verdict(self, worst: _Worst) -> Finding:
        figure = (
            f"{worst.rows} rows, {self._draws} tokens: {self._apart} not the target's draw; noise p = {self._p:.2g}"
        )
        numbers: dict[str, float | int | bool | None] = {
            "rows": worst.rows,
            "tokens": self._draws,
            "not_the_targets_draw": self._apart,
            "draft_hears_other_noise": self._foreign,
            "fast_draw_differs": self._slips,
            "noise_p": self._p,
        }
        wrong = [
            (self._apart, "a token came out that is not the target's own draw of the noise"),
            (self._foreign, "the draft model draws with other noise than the target: nothing is coupled"),
            (self._slips, "the fast draw is not the argmax it stands for"),
            (self._p < LEVEL / NOISE_ROWS, "over seeds the noise does not give the law it is applied to"),
        ]
        for found, meaning in wrong:
            if found:
                return Finding("law", "coupled", "wrong", figure, meaning, numbers)
        meaning = "whatever was drafted, the target's own draw comes out, and the draft model hears the same noise"
        if self._drafter is None:
            meaning = "whatever was drafted, the target's own draw comes out"
        return Finding("law", "coupled", "ok" if worst.rows else "note", figure, meaning, numbers)


def _plainly(law: Distribution, noise: Noise, position: int) -> int:
    ids = np.arange(len(law.probs), dtype=np.int32) if law.ids is None else law.ids
    with np.errstate(divide="ignore"):
        return int(ids[(np.log(law.probs) + gumbel(noise.uniforms(ids, position))).argmax()])


def _verdict(name: Name, worst: _Worst, beside: str) -> Finding:
    whole = f", {worst.whole} of them over the whole vocabulary" if worst.whole else ""
    figure = f"{worst.rows} rows{whole}: total variation at most {worst.distance:.1g}"
    numbers: dict[str, float | int | bool | None] = {
        "rows": worst.rows,
        "whole_rows": worst.whole,
        "variation": worst.distance,
        "bound": BOUND,
    }
    if worst.distance >= BOUND:
        meaning = f"what comes out is not the target's law: {BOUND:g} is what rounding may do"
        return Finding("law", name, "wrong", figure, meaning, numbers)
    if not worst.rows:
        return Finding("law", name, "note", figure, "there was no time for it: give it more --seconds", numbers)
    meaning = "exactly the target's law" if name != "greedy" else "exactly the target's argmax"
    return Finding("law", name, "ok", figure, meaning + beside * (name != "greedy"), numbers)
