"""The rules compared on one text by the engine, on tiny models: against fresh decodes and the engine's own cycles."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, pvariance

import pytest

from localspec.engine import rule_rates
from localspec.engine.context import Context, ContextOptions
from localspec.engine.distribution import Distribution
from localspec.engine.engine import Engine
from localspec.engine.errors import EngineError
from localspec.engine.events import Cycle, ModelDrafterName, Token
from localspec.engine.llama import Model
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Verify
from localspec.engine.rule_report import RuleJob, RuleRates
from localspec.engine.sampling import Sampler
from tests import tiny
from tests.engine.answers import ENDLESS, PLAIN_SAMPLING, prompt
from tests.engine.conftest import MakeEngine

FILTERED = SamplerSettings(temperature=0.7, top_k=6, logit_bias=ENDLESS)
JOB = RuleJob(prompt("abcabd"), PLAIN_SAMPLING, text_tokens=12, stride=3, longest=4, seed=5)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Engine, Path, Path]]:
    """A draft that points where the target does, less sharply: it agrees often and not always."""
    target = tiny.write_llama(tmp_path / "target.gguf", seed=11, scale=1.2)
    draft = tiny.write_llama(tmp_path / "draft.gguf", seed=11, scale=0.6)
    engine = Engine(EngineConfig(str(target), str(draft), context=512, threads=1, flash_attn="on"))
    yield engine, target, draft
    engine.close()


def nothing(fraction: float) -> None:
    pass


@pytest.mark.parametrize("names", [("target", "twin"), ("t5", "t5-twin")])
@pytest.mark.parametrize("settings", [PLAIN_SAMPLING, FILTERED])
def test_a_draft_that_is_the_target_loses_nothing_under_any_rule(
    make_engine: MakeEngine, settings: SamplerSettings, names: tuple[str, str]
) -> None:
    engine = make_engine(*names)
    # Another text first: nothing of it is taken for this one's.
    engine.measure(replace(JOB, prompt=prompt("ddcba"), seed=6), nothing)
    found = engine.measure(replace(JOB, sampling=settings), nothing)
    assert found.complete
    length = engine.count(JOB.prompt)
    assert [place.context for place in found.places] == [length + start for start in (1, 4, 7, 10)]
    for place in found.places:
        assert place.drawn == 4
        assert place.minima == pytest.approx(1.0, abs=1e-4)
        assert place.agreement == pytest.approx(1.0, abs=1e-4)
        for kept in place.kept.values():
            assert kept == pytest.approx((1.0, 2.0, 3.0, 4.0), abs=1e-3)


def test_what_is_found_at_a_place_is_what_fresh_decodes_say(pair: tuple[Engine, Path, Path]) -> None:
    engine, *files = pair
    places = engine.measure(replace(JOB, sampling=FILTERED), nothing).places
    plain = Request(JOB.prompt, FILTERED, speculate="off", max_tokens=JOB.text_tokens, seed=JOB.seed)
    text = engine.encode(JOB.prompt) + [event.id for event in engine.generate(plain) if isinstance(event, Token)]
    for place in places:
        p, q = (law_of(file, text[: place.context]) for file in files)
        assert place.minima == pytest.approx(rule_rates.minima(p, q), abs=1e-4)
        assert place.agreement == pytest.approx(rule_rates.agreement(p, q), abs=1e-4)
        assert place.argmax == pytest.approx(p.prob(q.argmax), abs=1e-4)
    assert len({round(place.minima, 3) for place in places}) == len(places)


def law_of(file: Path, tokens: list[int]) -> Distribution:
    model = Model(str(file))
    context = Context(model, ContextOptions(256, flash_attn="on"))
    law = Sampler(FILTERED, model.vocab_size).distribution(context.decode(tokens)[-1], tokens)
    context.close()
    model.close()
    return law


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_the_engines_own_cycles_keep_as_much_as_was_reckoned(pair: tuple[Engine, Path, Path], rule: Verify) -> None:
    same_as_counted(pair[0], "draft", rule)


def test_heads_are_reckoned_like_a_draft_model(tmp_path: Path) -> None:
    file = tiny.write_hybrid(tmp_path / "heads.gguf", seed=11, scale=1.2, heads=1, agreeing=2.0)
    engine = Engine(EngineConfig(str(file), drafter="mtp", context=512, threads=1, flash_attn="on"))
    same_as_counted(engine, "mtp", "block")
    engine.close()


def same_as_counted(engine: Engine, drafter: ModelDrafterName, rule: Verify) -> None:
    """Of the first cycle of many answers; the first token is drawn anew in each, here and there."""
    job = replace(JOB, sampling=FILTERED, text_tokens=2, stride=1, longest=3)
    reckoned = [kept(engine, replace(job, seed=seed), rule) for seed in range(200)]
    counted = []
    for seed in range(700):
        request = Request(
            JOB.prompt, FILTERED, speculate=drafter, draft_length=3, verify=rule, max_tokens=6, seed=10_000 + seed
        )
        cycles = [event for event in engine.generate(request) if isinstance(event, Cycle)]
        counted.append(cycles[0].accepted)
    error = sqrt(pvariance(reckoned) / len(reckoned) + pvariance(counted) / len(counted))
    assert abs(fmean(counted) - fmean(reckoned)) < 4 * error
    assert 0.05 < fmean(counted) < 2.5


def kept(engine: Engine, job: RuleJob, rule: Verify) -> float:
    (place,) = engine.measure(job, nothing).places
    return place.kept[rule][-1]


def test_a_cancel_keeps_the_places_it_has(make_engine: MakeEngine) -> None:
    engine = make_engine("target", "draft")
    whole = engine.measure(JOB, nothing)

    def stop(after: float) -> Callable[[float], None]:
        return lambda fraction: engine.cancel() if fraction >= after else None

    part = engine.measure(JOB, stop(0.5))
    assert not part.complete
    assert 0 < len(part.places) < len(whole.places)
    assert [place.context for place in part.places] == [place.context for place in whole.places[: len(part.places)]]
    assert engine.measure(JOB, stop(0.1)) == RuleRates(False)
    assert len(engine.measure(JOB, nothing).places) == len(whole.places)


@pytest.mark.parametrize("target", ["sliding", "hybrid"])
def test_a_cache_that_is_hard_to_cut_back_is_read_again(make_engine: MakeEngine, target: str) -> None:
    found = make_engine(target, "draft").measure(replace(JOB, longest=2), nothing)
    assert [place.drawn for place in found.places] == [2, 2, 2, 2]


def test_drafts_near_the_end_of_the_context_are_as_long_as_there_is_room(make_engine: MakeEngine) -> None:
    found = make_engine("target", "draft", context=16).measure(replace(JOB, text_tokens=32, stride=1), nothing)
    assert [place.drawn for place in found.places] == [4, 4, 4, 4, 4, 3, 2, 1]


def test_what_the_arithmetic_costs_is_timed_on_the_rows(make_engine: MakeEngine) -> None:
    found = make_engine("target", "draft").measure(replace(JOB, timed=True), nothing)
    assert [cost.filters for cost in found.costs] == ["top-k 40", "unfiltered"]
    for cost in found.costs:
        assert cost.vocab == 16
        assert cost.laws > 0
        assert set(cost.rules) == {"rejection", "block", "coupled"}
        assert all(ms > 0 for ms in cost.rules.values())


def test_what_cannot_be_compared_says_why(make_engine: MakeEngine) -> None:
    with pytest.raises(EngineError, match="load a draft model"):
        make_engine("target").measure(JOB, nothing)
    engine = make_engine("target", "draft")
    with pytest.raises(EngineError, match="temperature 0"):
        engine.measure(replace(JOB, sampling=SamplerSettings(temperature=0.0)), nothing)
    with pytest.raises(EngineError, match="1 to 32 tokens long, not 33"):
        engine.measure(replace(JOB, longest=33), nothing)
