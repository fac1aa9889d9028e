"""Greedy answers with drafting, held against plain decoding on the starter pair, and two faults that must be seen."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from localspec.engine.context import Context, ContextOptions
from localspec.engine.drafters.base import Draft
from localspec.engine.engine import Engine
from localspec.engine.events import Finished, Token
from localspec.engine.proof.oracle import Oracle, Score
from localspec.engine.requests import EngineConfig, Request, Speculate
from tests.engine.answers import GREEDY
from tests.real.conftest import Pair, prompt_for
from tests.real.texts import CHAT, CODE, EDIT, REQUESTS

pytestmark = pytest.mark.real

TOKENS = 128
MODES: list[tuple[Speculate, int | None]] = [("lookup", 8), ("draft", 8), ("auto", None)]


@dataclass(frozen=True)
class Answered:
    """One greedy answer: its prompt's and its own token ids, its last event."""

    prompt: list[int]
    ids: list[int]
    end: Finished


def answer(engine: Engine, text: str, speculate: Speculate, length: int | None, tokens: int = TOKENS) -> Answered:
    prompt = prompt_for(engine.info, text)
    request = Request(prompt, sampling=GREEDY, speculate=speculate, draft_length=length, max_tokens=tokens)
    events = list(engine.generate(request))
    end = events[-1]
    assert isinstance(end, Finished)
    ids = [event.id for event in events if isinstance(event, Token)]
    return Answered(engine._encoder.encode(prompt), ids, end)


@pytest.fixture(scope="module")
def oracle(engine: Engine) -> Iterator[Oracle]:
    """A second, plain context over the engine's own target, with the options that decide rounding alike."""
    target = engine._loaded.target
    options = target.options
    context = Context(
        target.model,
        ContextOptions(
            options.context, batch=256, threads=options.threads, kv_type=options.kv_type, flash_attn=options.flash_attn
        ),
    )
    yield Oracle(context)
    context.close()


def scored(oracle: Oracle, given: Answered) -> Score:
    score = oracle.score(given.prompt, given.ids)
    stats = given.end.stats
    print(f"{len(given.ids)} tokens, accepted {stats.accepted}, flips {score.flips}, largest gap {score.worst:.3f}")
    return score


@pytest.mark.parametrize("kind", sorted(REQUESTS))
def test_drafting_says_what_plain_decoding_could_say(engine: Engine, oracle: Oracle, kind: str) -> None:
    """C2: every emitted token is the argmax of plain, one-token-at-a-time decoding or within half a logit of it."""
    for speculate, length in MODES:
        given = answer(engine, REQUESTS[kind], speculate, length)
        assert given.end.reason in ("max_tokens", "end_of_text")
        assert len(given.ids) == TOKENS or given.end.reason == "end_of_text"
        if speculate == "draft":
            assert given.end.stats.judged > 0
        score = scored(oracle, given)
        assert score.accepted, (kind, speculate, score.flips, score.worst)


def test_lookup_drafts_a_copy_of_the_prompt(engine: Engine) -> None:
    """What the oracle says about lookup is only worth something when lookup drafts."""
    stats = answer(engine, EDIT, "lookup", 8).end.stats
    assert stats.accepted > TOKENS / 2


@pytest.mark.parametrize("text", [CHAT, CODE], ids=["chat", "code"])
def test_the_oracle_sees_a_cut_that_is_off_by_one(
    engine: Engine, oracle: Oracle, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: after every verify pass the target's cache is cut one token too short, and says it is not."""
    target = engine._loaded.target
    real = target.truncate

    decoding = False

    def off_by_one(keep: int) -> int:
        nonlocal decoding
        if not decoding:
            decoding = True  # the first cut is the prompt's
            return real(keep)
        real(keep - 1)
        return keep

    monkeypatch.setattr(target, "truncate", off_by_one)
    given = answer(engine, text, "draft", 8, tokens=48)
    assert given.end.stats.resampled > 0
    assert not scored(oracle, given).accepted


@pytest.fixture
def twins(starter: Pair) -> Iterator[Engine]:
    """The draft model as a draft for itself."""
    made = Engine(EngineConfig(str(starter.draft), str(starter.draft), context=1024))
    yield made
    made.close()


def test_a_model_that_drafts_for_itself_is_believed(twins: Engine) -> None:
    """C6, on a quantised model: only rounding between pass widths may ever reject. C3: temperature 0 is argmax."""
    stats = answer(twins, CODE, "draft", 5, tokens=64).end.stats
    print(f"accepted {stats.accepted} of {stats.judged} judged")
    assert stats.judged >= 40
    assert stats.acceptance_rate is not None
    assert stats.acceptance_rate >= 0.97


def test_a_drafter_that_is_a_token_behind_shows_as_rejections(twins: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the target's oracle cannot see, for the text stays right: the draft goes on from one token
    earlier."""
    drafter = twins._model_drafter
    assert drafter is not None
    draft: Callable[[Sequence[int], int], Draft] = drafter.draft
    monkeypatch.setattr(drafter, "draft", lambda history, limit: draft(history[:-1], limit))
    rate = answer(twins, CODE, "draft", 5, tokens=32).end.stats.acceptance_rate
    assert rate is not None
    assert rate < 0.9
