"""The cost curve of the starter pair: measured by the thorough run and while idle, and no answer can tell."""

from pathlib import Path

import pytest

from localspec.engine.calibrate import PREFIX, TIMES
from localspec.engine.client import EngineClient
from localspec.engine.engine import Engine
from localspec.engine.events import Finished, Token
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Segment
from tests.real.conftest import Pair

pytestmark = pytest.mark.real

CODE = "class Shelf:\n    def __init__(self, name):\n        self.name = name\n        self.books = {}\n"


def answer(engine: Engine, text: str) -> tuple[list[int], int]:
    """Token ids of a plain greedy answer, and how much of its prompt was in the cache."""
    request = Request((Segment(text),), SamplerSettings(temperature=0.0), speculate="off", max_tokens=24)
    events = list(engine.generate(request))
    last = events[-1]
    assert isinstance(last, Finished)
    return [event.id for event in events if isinstance(event, Token)], last.stats.prompt_reused


def test_idle_measuring_changes_no_answer_of_the_real_model(starter: Pair) -> None:
    """The same passes are made with it and without, so the tokens are the same ones, near ties included."""
    told = []
    for measuring in (False, True):
        engine = Engine(EngineConfig(str(starter.target), context=1024))
        text, ids, reused = CODE, [], []
        for _ in range(2):
            if measuring:
                held = list(engine._loaded.target.tokens)
                engine._calibration._spent = 0.0
                engine.idle(lambda: False)
                assert engine._loaded.target.tokens == held
            found, again = answer(engine, text)
            ids.append(found)
            reused.append(again)
            text += "    def add(self, book):\n"
        if measuring:
            assert engine._costs.count(1, PREFIX) >= TIMES
        engine.close()
        told.append((ids, reused))
    assert told[0] == told[1]
    assert told[0][1][1] > 0


def test_the_thorough_run_gives_a_curve_that_can_be_one(starter: Pair, tmp_path: Path) -> None:
    """Ratios only, and wide bounds: a wider pass costs more than a plain one and less than its tokens one by one."""
    config = EngineConfig(str(starter.target), str(starter.draft), context=2048, cache_dir=str(tmp_path))
    with EngineClient(config, state_dir=tmp_path / "state") as client:
        report = client.calibrate(60)
        assert report.samples[0] >= TIMES
        assert report.samples[15] >= TIMES
        assert 1.0 < report.relative(16, 64) < 16.0
        assert 1.0 <= report.relative(4, 64) < report.relative(32, 64) < 32.0
        assert report.draft_token is not None
        assert 0.05 < report.draft_token < 2.0
        if report.faster is None:
            assert report.notes, "why there is no verdict"
        known = client.costs()
        assert known.samples[0] > 0
        if report.flash == known.flash:
            assert known.samples[15] > 0
