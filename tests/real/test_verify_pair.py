"""`localspec verify` on real models: it holds, and planted faults show there too."""

from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.engine import generate
from localspec.engine.client import EngineClient
from localspec.engine.drafters.model import ModelDrafter
from localspec.engine.engine import Engine
from localspec.engine.proof import law_check
from localspec.engine.proof.ground import Ground
from localspec.engine.proof.report import Proof, ProofJob
from localspec.engine.proof.sampled import sampled
from localspec.engine.proof.texts import TEXTS
from localspec.engine.requests import EngineConfig
from tests.engine.faults import whole_redraw

pytestmark = pytest.mark.real


def held(proof: Proof) -> set[tuple[str, str]]:
    """What holds; nothing may be wrong. How much is drawn and drafted in the time there is depends on the machine."""
    for each in proof.findings:
        print(f"{each.state:6}{each.check:14}{each.subject:10}{each.figure}: {each.meaning}")
    print(f"{proof.seconds:.0f} s")
    assert proof.complete
    assert not proof.wrong
    return {(each.check, each.subject) for each in proof.findings if each.state == "ok"}


def test_the_starter_pair_holds(client: EngineClient) -> None:
    assert held(client.measure(ProofJob(20))) >= {
        ("cuts", "target"), ("cuts", "draft"), ("law", "rejection"), ("law", "block"), ("law", "coupled"),
        ("greedy", "lookup"), ("greedy", "draft"), ("seed", "draft"), ("draft in step", "draft"),
        ("draws kept", "draft"),
    }  # fmt: skip


def test_a_model_without_a_draft_holds(smollm: Path, tmp_path: Path) -> None:
    with EngineClient(EngineConfig(str(smollm), context=1024), state_dir=tmp_path) as client:
        assert held(client.measure(ProofJob(10))) >= {
            ("cuts", "target"), ("law", "rejection"), ("law", "block"), ("law", "coupled"), ("greedy", "lookup"),
        }  # fmt: skip


@pytest.fixture
def ground(engine: Engine) -> Ground:
    return Ground(engine, TEXTS, 600.0, lambda _: None)


def test_a_biased_rule_shows_on_the_pairs_own_rows(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law_check, "ROWS", 10)
    monkeypatch.setattr(generate, "block", whole_redraw)
    found = {each.subject: each for each in law_check.laws(ground)}
    print(found["block"].figure)
    assert found["block"].state == "wrong"
    assert found["rejection"].state == "ok"


def test_a_draft_out_of_step_shows_on_the_pair(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., object] = ModelDrafter.draft
    monkeypatch.setattr(ModelDrafter, "draft", lambda self, history, *rest: real(self, history[:-1], *rest))
    found = {each.check: each for each in sampled(ground)}
    print(found["draft in step"].figure)
    assert found["draft in step"].state == "wrong"
