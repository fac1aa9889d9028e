"""What a strategy asks of its drafters, what it learns from them, and when it lets a draft model read."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from localspec.engine.acceptance import ENOUGH_CONFIDENCE
from localspec.engine.controller import Drawing
from localspec.engine.cost import ENOUGH
from localspec.engine.costs import IN_STEP, Costs
from localspec.engine.drafters.base import Draft
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.engine import Engine
from localspec.engine.events import MODEL_DRAFTERS, ModelDrafterName
from localspec.engine.requests import EngineConfig, SamplerSettings, Speculate
from localspec.engine.strategy import Experience, Strategy
from tests.engine.answers import ask

TEXT = [*range(100, 140), 1, 2, 3, *range(100, 120)]
"""Its end copies its beginning."""


class Known:
    """Costs that are known: `wide` is any pass of more than one token."""

    def __init__(self, wide: float = 1.2, draft: float = 0.1, reading: float = 0.0, plain: bool = False) -> None:
        self.wide, self.draft, self.reading, self.plain = wide, draft, reading, plain

    def relative(self, width: int, context: int) -> float:
        return 1.0 if width == 1 else self.wide

    def draft_token(self, context: int) -> float:
        return self.draft

    def catching_up(self, behind: int, context: int) -> float:
        return behind * self.reading

    def plain_wanted(self, context: int, now: float) -> bool:
        return self.plain


class Scripted:
    """A model drafter that guesses `guesses`, sure of each by `tops`."""

    def __init__(self, guesses: Sequence[int], tops: Sequence[float], name: ModelDrafterName = "draft") -> None:
        self.name = name
        self.guesses, self.tops = guesses, tops
        self.asked = 0
        self.read: Sequence[int] = ()

    def begin(self, tokens: Sequence[int]) -> None: ...

    def prefill(self, tokens: Sequence[int]) -> None:
        self.read = tokens

    def behind(self, history: Sequence[int]) -> int:
        return len(history)

    def draft(
        self, history: Sequence[int], limit: int, drawing: Drawing | None = None, sure: Callable[[float], float] = float
    ) -> Draft:
        self.asked += 1
        tokens: list[int] = []
        for top in self.tops[:limit]:
            if drawing is not None and not drawing.draw(sure(top)):
                break
            tokens.append(self.guesses[len(tokens)])
            if drawing is not None and not drawing.go_on():
                break
        return Draft(tokens, tops=list(self.tops[: len(tokens)]))


def begun(strategy: Strategy, tokens: Sequence[int] = TEXT) -> Strategy:
    strategy.begin(tokens)
    return strategy


def test_a_copy_is_drafted_with_its_estimate() -> None:
    proposal = begun(Strategy("auto", None, Known(), Lookup(), None)).propose(TEXT, 12, 0.0)
    assert (proposal.drafter, list(proposal.draft.tokens)) == ("lookup", list(range(120, 132)))
    assert proposal.choice is not None
    assert proposal.choice.length == 12
    assert 8 < proposal.choice.expected < 13
    assert proposal.choice.gain == pytest.approx(proposal.choice.expected / 1.2)


def test_a_width_is_priced_once_a_cycle() -> None:
    """Every drafter and every draw of the draft model asks for the same few widths."""
    asked: list[int] = []

    class Counting(Known):
        def relative(self, width: int, context: int) -> float:
            asked.append(width)
            return super().relative(width, context)

    model = Scripted(range(12), [0.99] * 12)
    strategy = begun(Strategy("draft", None, Counting(), Lookup(), model))
    assert len(strategy.propose(TEXT, 12, 0.0).draft.tokens) > 4
    assert len(asked) == len(set(asked)) <= 13


def test_where_nothing_pays_the_estimate_says_so() -> None:
    proposal = begun(Strategy("auto", None, Known(wide=40.0), Lookup(), None)).propose(TEXT, 12, 0.0)
    assert (proposal.drafter, len(proposal.draft.tokens)) == ("none", 0)
    assert proposal.choice is not None
    assert proposal.choice.gain < 1.0


def test_a_plain_pass_that_is_due_comes_first() -> None:
    proposal = begun(Strategy("auto", None, Known(plain=True), Lookup(), None)).propose(TEXT, 12, 0.0)
    assert proposal.draft.tokens == ()
    assert proposal.choice is None


def test_off_drafts_nothing_and_a_fixed_length_always_that_much() -> None:
    assert begun(Strategy("off", None, Known(), Lookup(), None)).propose(TEXT, 12, 0.0).draft.tokens == ()
    fixed = begun(Strategy("lookup", 5, Known(wide=40.0), Lookup(), None))
    assert list(fixed.propose(TEXT, 12, 0.0).draft.tokens) == list(range(120, 125))


@pytest.mark.parametrize("wide", [1.0, 1.2])
def test_a_proposal_names_who_was_chosen_whatever_the_cycle_costs(wide: float) -> None:
    """On a device where wide passes are free too; nobody was where the length is fixed, or where nothing pays."""
    free = Known(wide=wide, draft=0.0)
    copy = begun(Strategy("lookup", None, free, Lookup(), None)).propose(TEXT, 12, 0.0)
    assert (copy.drafter, copy.asked, copy.spent) == ("lookup", "lookup", wide)
    silent = begun(Strategy("draft", None, free, Lookup(), Scripted((), ()))).propose(TEXT, 12, 0.0)
    assert (silent.drafter, silent.asked, silent.spent) == ("none", "draft", 1.0)
    assert begun(Strategy("lookup", 5, free, Lookup(), None)).propose(TEXT, 12, 0.0).asked is None
    assert begun(Strategy("auto", None, Known(wide=40.0), Lookup(), None)).propose(TEXT, 12, 0.0).asked is None


def test_what_lookup_found_is_judged_for_free() -> None:
    """A plain cycle tells as much of a guess as a drafted one, up to the first that differs."""
    experience = Experience()
    strategy = begun(Strategy("auto", None, Known(wide=40.0), Lookup(), None, experience))
    proposal = strategy.propose(TEXT, 12, 0.0)
    before = [experience.lookup.rate(place) for place in proposal.found.places]
    strategy.learn(proposal, 0, 0, [999])
    after = [experience.lookup.rate(place) for place in proposal.found.places]
    assert after[0] < before[0]


def test_where_copies_fail_lookup_stops_by_itself() -> None:
    """P1: a text in which phrases come back to go on otherwise. Tried for what they promise, until they do not."""
    phrases = [1, 2, 3, 4, 5, 6, 7]
    strategy = begun(Strategy("auto", None, Known(wide=1.7), Lookup(), None), phrases)
    history, drafted = list(phrases), []
    for turn in range(60):
        for token in phrases[:4]:
            strategy.accept([token])
        history += phrases[:4]
        proposal = strategy.propose(history, 3, 0.0)
        drafted.append(len(proposal.draft.tokens))
        strategy.learn(proposal, min(1, drafted[-1]), 0, [1000 + turn])
        history.append(1000 + turn)
    assert drafted[0] > 0
    assert sum(drafted[-20:]) == 0


def test_in_auto_a_draft_model_is_not_asked_before_the_text_was_heard() -> None:
    """Reading a prompt costs; nothing is known of the text yet."""
    model = Scripted(range(8), [0.99] * 8)
    strategy = begun(Strategy("auto", None, Known(reading=0.2), Lookup(), model, forecast=400), [1, 2, 3, 4, 5])
    for _ in range(int(ENOUGH_CONFIDENCE)):
        assert strategy.propose([1, 2, 3, 4, 5], 8, 0.0).drafter == "none"
        strategy.heard(0.995)
    assert model.asked == 0
    for _ in range(8):
        strategy.heard(0.995)
    proposal = strategy.propose([1, 2, 3, 4, 5], 8, 0.0)
    assert (proposal.drafter, model.asked) == ("draft", 1)
    assert model.read == (), "in auto it reads when it is first asked"


def test_a_draft_model_that_is_unsure_stops() -> None:
    """What is drawn before is kept; the doubtful token comes for nothing with the pass already paid, the next not."""
    model = Scripted(range(8), [0.99, 0.99, 0.05, 0.99])
    strategy = begun(Strategy("draft", None, Known(draft=0.3), Lookup(), model))
    proposal = strategy.propose(TEXT, 8, 0.0)
    assert (proposal.drafter, list(proposal.draft.tokens)) == ("draft", [0, 1, 2])
    assert model.read == TEXT, "a person who names the draft model has it read at once"


@pytest.mark.parametrize("name", MODEL_DRAFTERS)
def test_a_model_drafter_drafts_under_its_own_name_only(name: ModelDrafterName) -> None:
    """In its mode, at a fixed length and in auto, never when another one is named; its cycles teach the controller."""

    def proposed(mode: Speculate, fixed: int | None = None) -> Strategy:
        return begun(Strategy(mode, fixed, Known(draft=0.3), Lookup(), Scripted(range(8), [0.99] * 8, name)), [1, 2, 3])

    for fixed in (None, 4):
        assert proposed(name, fixed).propose([1, 2, 3], 8, 0.0).drafter == name
        for other in set(MODEL_DRAFTERS) - {name}:
            assert proposed(other, fixed).propose([1, 2, 3], 8, 0.0).drafter == "none"
    strategy = proposed("auto")
    for _ in range(int(ENOUGH_CONFIDENCE) + 8):
        strategy.heard(0.995)
    proposal = strategy.propose([1, 2, 3], 8, 0.0)
    assert proposal.drafter == name
    before = strategy._experience.draft.rate
    for turn in range(20):
        strategy.learn(proposal, 1, 0, [1000 + turn])
    assert strategy._experience.draft.rate < before
    assert strategy.propose([1, 2, 3], 8, 0.0).drafter == "none", "what never stands is given up"


def test_an_empty_draft_is_a_plain_cycle_that_cost_its_look() -> None:
    model = Scripted([7], [0.001])
    strategy = begun(Strategy("auto", None, Known(draft=0.3), Lookup(), model, forecast=400), [1, 2, 3, 4, 5])
    for _ in range(20):
        strategy.heard(0.995)
    proposal = strategy.propose([1, 2, 3, 4, 5], 8, 0.0)
    assert (proposal.drafter, proposal.draft.tokens) == ("none", [])
    assert proposal.spent == pytest.approx(1.3)


def test_verdicts_on_the_draft_model_are_learnt() -> None:
    experience = Experience()
    model = Scripted(range(8), [0.9] * 8)
    strategy = begun(Strategy("draft", None, Known(), Lookup(), model, experience))
    before = experience.draft.rate
    for _ in range(10):
        strategy.learn(strategy.propose(TEXT, 8, 0.0), 1, 0, [999])
    assert experience.draft.rate < before


def measured(prior: float) -> Costs:
    """Costs on a machine whose plain pass takes 100 ms."""
    costs = Costs(prior)
    for number in range(ENOUGH):
        costs.learn_pass(100, 1, 0.1, 0.1 * number)
    return costs


def test_a_draft_token_costs_what_drawing_it_takes() -> None:
    """P1: the seconds a draft model spent on reading the prompt are not the price of its tokens."""
    costs = measured(0.4)
    costs.learn_draft(100, behind=1000, tokens=3, seconds=7.0)
    assert costs.draft_token(100) == pytest.approx(0.4)
    for _ in range(ENOUGH):
        costs.learn_draft(100, behind=IN_STEP, tokens=3, seconds=0.06)
    assert costs.draft_token(100) == pytest.approx(0.2)


def test_in_auto_a_long_prompt_is_not_read_by_the_draft_for_a_short_answer(tiny_files: dict[str, Path]) -> None:
    """P1: however good the draft might be; named by the person it reads at once."""
    config = EngineConfig(str(tiny_files["target"]), str(tiny_files["twin"]), context=2048, threads=1, flash_attn="on")
    engine = Engine(config)
    drafter = engine._model_drafter
    assert drafter is not None
    text = "abcdefgh" * 200
    ask(engine, text, speculate="auto", max_tokens=100)
    assert drafter.context.tokens == []
    ask(engine, text, speculate="draft", max_tokens=2)
    assert len(drafter.context.tokens) >= len(text) - 1
    engine.close()


def test_a_cycle_tells_what_the_draft_model_read_and_how_often_it_passed(
    tiny_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In auto the prompt is read within the answer; the same prompt again is known, unless it is asked for anew."""
    monkeypatch.setattr(Costs, "relative", lambda costs, width, context: 1.0 + 0.01 * (width - 1))
    monkeypatch.setattr(Costs, "draft_token", lambda costs, context: 0.01)
    monkeypatch.setattr(Costs, "plain_wanted", lambda costs, context, now: False)
    config = EngineConfig(
        str(tiny_files["target"]), str(tiny_files["draft"]), context=256, threads=1, flash_attn="on", max_draft_length=4
    )
    engine = Engine(config)
    text = "abdcfehgjilk"
    kinds = [{}, {}, {"draft_anew": True}]
    answers = [ask(engine, text, speculate="auto", max_tokens=20, **more) for more in kinds]
    asked = [[cycle for cycle in answer.cycles if cycle.passes] for answer in answers]
    first, again, anew = (cycles[0].read for cycles in asked)
    assert first == anew > len(text)
    assert again < len(text)
    for answer, cycles in zip(answers, asked, strict=True):
        assert all(cycle.read <= IN_STEP for cycle in cycles[1:] if cycle.cycle == 1 + cycles[0].cycle)
        assert all(cycle.drafter in ("draft", "none") for cycle in cycles)
        assert all(cycle.proposed <= cycle.passes <= cycle.proposed + 1 for cycle in cycles)
        assert all((cycle.draft_ms > 0) == (cycle.passes > 0) for cycle in answer.cycles)
        assert all(cycle.read == 0 for cycle in answer.cycles if cycle not in cycles)
    engine.close()


def test_a_draft_model_that_cannot_hold_the_text_read_nothing(
    tiny_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target has rows that the draft knows nothing of: a text with one of them it never reads."""
    monkeypatch.setattr(Costs, "relative", lambda costs, width, context: 1.0 + 0.01 * (width - 1))
    monkeypatch.setattr(Costs, "draft_token", lambda costs, context: 0.01)
    monkeypatch.setattr(Costs, "plain_wanted", lambda costs, context, now: False)
    padding = 20
    engine = Engine(
        EngineConfig(str(tiny_files["padded"]), str(tiny_files["target"]), context=128, threads=1, flash_attn="on")
    )
    sampling = SamplerSettings(temperature=0.0, logit_bias={padding: 1000.0})
    answer = ask(engine, "abdc", speculate="auto", max_tokens=12, sampling=sampling)
    assert set(answer.ids) == {padding}
    assert any(cycle.proposed == 0 for cycle in answer.cycles)
    assert all((cycle.read, cycle.passes) == (0, 0) for cycle in answer.cycles)
    engine.close()
