"""The law of the whole engine under a grammar: chi-square against the target's own law among what is allowed.

The exact law does not come from the grammar code: which tokens may follow is told by a small automaton written here,
and forbidden ones get a logit bias of -inf. Some tokens spell two letters, so that a text has several ways to be cut.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec.engine.distribution import Distribution
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.drafters.woven import Weaver
from localspec.engine.grammar import Grammar
from localspec.engine.llama import Model
from localspec.engine.requests import SamplerSettings
from localspec.engine.sampling import Allowed, Sampler
from localspec.engine.strategy import Proposal, Strategy
from localspec.engine.verify import rejection
from tests import tiny
from tests.engine import engine_law
from tests.engine.engine_law import ACCEPTED_P, NEVER, Law, p_value
from tests.engine.exact_law import Script
from tests.engine.exact_law import law as law_of

SAMPLES = 2_500

GRAMMAR = 'root ::= ("b" [acdi] "ed"? | "f" [a-l] | "ghk" | "e")*'

STEPS = {
    "": {"b": "b", "f": "f", "g": "g", "e": ""},
    "b": dict.fromkeys("acdi", "bx"),
    "bx": {"b": "b", "f": "f", "g": "g", "e": "be"},
    "be": {"d": "", "b": "b", "f": "f", "g": "g", "e": ""},
    "f": dict.fromkeys("abcdefghijkl", ""),
    "g": {"h": "gh"},
    "gh": {"k": ""},
}
"""The same as an automaton. `be` is after one `e`: it may be the one of `ed`, or an `e` of its own."""

COPIED = ("ghkbcedghkfabaghkeghk",)
"""What stands behind a `ghk`, looked up."""

EXTRA = ("gh", "ed", "ba", "hk")

FREE = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias=NEVER)
SETTINGS = {
    "free": FREE,
    "filtered": replace(FREE, top_k=6, top_p=0.95, temperature=1.4),
    "min-p": replace(FREE, min_p=0.03, temperature=1.4),
    "penalised": replace(FREE, repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("law")
    tokens = tiny.vocabulary(extra=EXTRA)
    return {
        "target": tiny.write_llama(root / "target.gguf", tokens=tokens, seed=11, scale=1.2),
        "draft": tiny.write_llama(root / "draft.gguf", tokens=tokens, seed=11, scale=0.6),
    }


def state_after(text: str, state: str = "") -> str | None:
    """Where the automaton is after `text`; None when the grammar does not take it."""
    for letter in text:
        if letter not in STEPS[state]:
            return None
        state = STEPS[state][letter]
    return state


def forbidden(model: Model, tokens: tuple[int, ...]) -> list[int]:
    """Told by the automaton alone."""
    spelled = {token: model.piece(token).decode() for token in range(tiny.FIRST_LETTER, model.vocab_size)}
    state = state_after("".join(spelled[token] for token in tokens))
    assert state is not None
    return [token for token, text in spelled.items() if state_after(text, state) is None]


def exact_law(file: Path, settings: SamplerSettings) -> Law:
    return engine_law.exact_law(file, settings, forbidden)


def draw(files: dict[str, Path], settings: SamplerSettings, mode: str) -> tuple[Counter, Counter, float]:
    """Counts of answers and of cycles by drafter, and the acceptance rate."""
    drafters: Counter[str] = Counter()
    counts, acceptance = engine_law.draw(files, settings, mode, samples=SAMPLES, drafters=drafters, grammar=GRAMMAR)
    return counts, drafters, acceptance


@pytest.mark.parametrize(
    ("mode", "name"),
    [("off", "free"), ("lookup", "free"), ("lookup", "filtered"), *(("draft", name) for name in SETTINGS)],
)
def test_the_law_is_the_targets_among_what_is_allowed(files: dict[str, Path], mode: str, name: str) -> None:
    counts, drafters, acceptance = draw(files, SETTINGS[name], mode)
    assert p_value(counts, exact_law(files["target"], SETTINGS[name])) > ACCEPTED_P
    if mode != "off":
        assert drafters["grammar"] > SAMPLES / 20
        assert drafters[mode] > SAMPLES / 20
        assert 0.05 < acceptance < 0.98


def test_forced_tokens_alone_keep_the_law(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual cut of a forced text is a guess like any other: `gh` may come as `g` and `h` too."""
    monkeypatch.setattr(Lookup, "draft", lambda *_, **__: Draft(()))
    monkeypatch.setattr(Lookup, "guess", lambda *_, **__: None)
    counts, drafters, acceptance = draw(files, FREE, "lookup")
    assert set(drafters) == {"grammar", "none"}
    assert 0.05 < acceptance < 0.98
    assert p_value(counts, exact_law(files["target"], FREE)) > ACCEPTED_P


def test_drafts_of_forced_and_copied_tokens_in_turns_keep_the_law(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hk` behind a `g`, what was copied behind it, and so on: each in its place."""
    grounds: Counter[frozenset[bool]] = Counter()
    real = Strategy.propose

    def counted(self: Strategy, *arguments: Any) -> Proposal:
        proposal = real(self, *arguments)
        grounds[frozenset(place.ground == "forced" for place in proposal.draft.places)] += 1
        return proposal

    monkeypatch.setattr(Strategy, "propose", counted)
    counts, acceptance = engine_law.draw(
        files, FREE, "lookup", length=4, samples=SAMPLES, grammar=GRAMMAR, predictions=COPIED
    )
    assert grounds[frozenset({True, False})] > SAMPLES / 20
    assert 0.05 < acceptance < 0.98
    assert p_value(counts, exact_law(files["target"], FREE)) > ACCEPTED_P


# -- by enumeration --

SMALL = 'root ::= ("a" [bc] | "c" "a"?)*'


@pytest.mark.parametrize("drafter", ["model", "certain"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_cycle_has_the_masked_law_to_the_last_digit(files: dict[str, Path], drafter: str, name: str) -> None:
    """Two drafted tokens and what follows, over every uniform: the first two tokens of a cycle, exactly.

    Rows of logits are fixed by the text so far. The law to hold to masks them without the grammar code, as above.
    """
    model = Model(str(files["target"]), vocab_only=True)
    size, abc = model.vocab_size, tiny.ids("abc")
    settings = replace(SETTINGS[name], logit_bias={i: -np.inf for i in range(size) if i not in abc})
    sampler = Sampler(settings, size)

    def row(who: int, text: list[int]) -> np.ndarray:
        return np.random.default_rng([who, *text]).normal(size=size).astype(np.float32)

    def process(script: Script) -> tuple[int, ...]:
        grammar = Grammar(model, SMALL)
        draft: list[int] = []
        probs = []
        for place in range(2):
            guess = sampler.distribution(row(1, draft), draft, grammar.allowed(place))
            if drafter == "certain":
                guess = Distribution.one_hot(guess.argmax)
            draft.append(guess.sample(script))
            probs.append(guess)
            script.note(draft[-1])
            grammar.push(draft[-1])
        verdict = rejection(
            draft,
            probs,
            lambda i: sampler.distribution(row(0, draft[:i]), draft[:i], grammar.allowed(i)),
            script,
        )
        script.note(verdict.accepted)
        kept = [*draft[: verdict.accepted], verdict.token]
        for token in kept:
            grammar.advance(token)
        if len(kept) < 2:
            kept.append(sampler.distribution(row(0, kept), kept, grammar.allowed(0)).sample(script))
        grammar.close()
        return tuple(kept[:2])

    may = {(): "ac", ("a",): "bc", ("c",): "ac"}
    expected: Law = {}
    for first, share in _masked_by_hand(sampler, row(0, []), [], may[()]).items():
        second = _masked_by_hand(sampler, row(0, [first]), [first], may[("a" if first == abc[0] else "c",)])
        expected |= {(first, token): share * further for token, further in second.items()}
    found = law_of(process)
    model.close()
    assert set(found) == set(expected)
    for outcome, probability in expected.items():
        assert found[outcome] == pytest.approx(probability, abs=1e-11)


def _masked_by_hand(sampler: Sampler, row: np.ndarray, history: list[int], letters: str) -> dict[int, float]:
    masked = np.full_like(row, -np.inf)
    masked[tiny.ids(letters)] = row[tiny.ids(letters)]
    found = sampler.distribution(masked, history)
    return {token: found.prob(token) for token in tiny.ids(letters) if found.prob(token) > 0}


# -- planted faults --


def test_a_mask_after_the_filters_is_caught(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Top-k of everything, and only then the grammar, is another law."""
    real = Sampler.distribution

    def late(self: Sampler, row: np.ndarray, history: list[int], allowed: Allowed | None = None) -> Distribution:
        law = real(self, row, history)
        if allowed is None:
            return law
        assert law.ids is not None
        left = Distribution.from_weights(law.ids, np.where(allowed(law.ids), law.probs, 0.0))
        return left or real(self, row, history, allowed)

    monkeypatch.setattr(Sampler, "distribution", late)
    settings = replace(FREE, top_k=6)
    counts, _, _ = draw(files, settings, "off")
    law = exact_law_with(files["target"], settings, real, monkeypatch)
    assert not set(counts) <= set(law) or p_value(counts, law) < ACCEPTED_P / 1000


def exact_law_with(file: Path, settings: SamplerSettings, real: object, patch: pytest.MonkeyPatch) -> Law:
    patch.setattr(Sampler, "distribution", real)
    return exact_law(file, settings)


def test_a_drawn_token_taken_back_because_the_grammar_forbids_it_is_caught(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft must be bounded before it is drawn: cutting it afterwards looks at the token's own value."""
    real = ModelDrafter.draft

    def unbounded(self: ModelDrafter, *arguments: object, **fields: object) -> Draft:
        grammar, self.grammar = self.grammar, None
        draft = real(self, *arguments, **fields)  # type: ignore[arg-type]
        self.grammar = grammar
        assert grammar is not None
        assert draft.probs is not None
        keep = grammar.admit(draft.tokens)
        return Draft(draft.tokens[:keep], draft.probs[:keep])

    monkeypatch.setattr(ModelDrafter, "draft", unbounded)
    monkeypatch.setattr(Weaver, "draft", lambda *_: Draft(()))
    counts, _, _ = draw(files, FREE, "draft")
    assert p_value(counts, exact_law(files["target"], FREE)) < ACCEPTED_P / 1000


def test_a_state_that_does_not_follow_the_draft_is_caught(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row i masked by where the text stood before the draft: what is then chosen may not come there."""
    real = Grammar.allowed
    monkeypatch.setattr(Grammar, "allowed", lambda self, place: real(self, 0))
    with pytest.raises(ValueError, match=r"may not come|probability 0"):
        draw(files, FREE, "lookup")
