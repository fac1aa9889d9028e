"""An engine's model drafter goes by the name of what it is: in modes, tokens, cycles, kept costs and errors."""

from pathlib import Path
from typing import get_args

import pytest

from localspec.engine.costs import Costs
from localspec.engine.engine import Engine
from localspec.engine.errors import EngineError
from localspec.engine.events import MODEL_DRAFTERS, DrafterName
from localspec.engine.requests import EngineConfig, Speculate
from localspec.models import catalog
from tests.engine.answers import PLAIN_SAMPLING, ask, check_sums
from tests.engine.conftest import MakeEngine


def test_the_names_are_one_list() -> None:
    """The menu's file may say what a request may say; the menu does not know the engine, so its list is its own."""
    assert set(catalog.SPECULATE) == set(get_args(Speculate)) == {"auto", "off", "lookup", *MODEL_DRAFTERS}
    assert set(get_args(DrafterName)) == {"lookup", "grammar", "none", *MODEL_DRAFTERS}


@pytest.mark.parametrize("name", ["draft", "self"])
def test_what_it_drafts_has_its_name(make_engine: MakeEngine, name: str) -> None:
    engine = make_engine("target", "twin", drafter=name)
    assert engine.info.drafter == name
    for fields in ({"draft_length": 4}, {}, {"draft_length": 3, "sampling": PLAIN_SAMPLING, "seed": 3}):
        answer = ask(engine, speculate=name, **fields)
        assert answer.started.drafter == name
        assert {cycle.drafter for cycle in answer.cycles if cycle.proposed} == {name}
        assert {token.drafter for token in answer.tokens if token.kind == "accepted"} == {name}
        check_sums(answer)
    assert engine._costs.rows()[name], "what a draft token costs is learnt under its name"


@pytest.mark.parametrize("loaded", ["draft", "self", None])
def test_a_drafter_that_is_not_loaded_is_refused(make_engine: MakeEngine, loaded: str | None) -> None:
    engine = make_engine("target", "draft", drafter=loaded) if loaded else make_engine("target")
    assert engine.info.drafter == loaded
    words = {"draft": "no draft model is loaded", "mtp": "no MTP heads are loaded", "self": "model's own layers"}
    for other in set(MODEL_DRAFTERS) - {loaded}:
        with pytest.raises(EngineError, match=words[other]):
            ask(engine, speculate=other)


def test_kept_costs_are_found_again_under_the_name(tiny_files: dict[str, Path], tmp_path: Path) -> None:
    """The same file as another drafter is timed anew: what was kept of the one says nothing of the other."""

    def engine(name: str) -> Engine:
        return Engine(EngineConfig(
            str(tiny_files["target"]), str(tiny_files["draft"]), drafter=name,  # type: ignore[arg-type]
            context=256, threads=1, flash_attn="on", cache_dir=str(tmp_path),
        ))  # fmt: skip

    first = engine("self")
    ask(first, speculate="self", draft_length=4)
    seen = first._costs.draft_count(64)
    assert seen > 0
    first.close()
    again, other = engine("self"), engine("draft")
    assert again._costs.draft_count(64) > 0
    assert other._costs.draft_count(64) == 0
    again.close()
    other.close()


def test_rows_under_another_name_are_not_taken_up() -> None:
    costs = Costs(0.5, drafter="mtp")
    costs.take_up({"draft": [[1, 64, 0.3, 9]]})
    assert costs.draft_token(64) == 0.5
    costs.take_up({"mtp": [[1, 64, 0.3, 9]]})
    assert costs.draft_token(64) == pytest.approx(0.3)
