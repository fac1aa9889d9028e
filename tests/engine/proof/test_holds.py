"""All checks on every kind of model there is: nothing is wrong, and what could be judged was."""

import pytest

from localspec.engine.proof import chance, ground, law_check
from localspec.engine.proof.report import Proof, ProofJob
from tests.engine.proof.conftest import SECONDS, TEXTS, MakeEngine

DRAWS = 400


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to see that all is in order; the faults are planted with more."""
    monkeypatch.setattr(chance, "MOST", DRAWS)
    monkeypatch.setattr(ground, "MOST", 32)
    monkeypatch.setattr(law_check, "ROWS", 40)
    monkeypatch.setattr(law_check, "NOISE_DRAWS", 500)


def proof_of(make: MakeEngine, target: str, draft: str | None, **options: object) -> Proof:
    told: list[float] = []
    found = make(target, draft, **options).measure(ProofJob(SECONDS, TEXTS), told.append)
    assert isinstance(found, Proof)
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert told == sorted(told)
    assert found.complete
    return found


def subjects(proof: Proof, check: str, *states: str) -> set[str]:
    return {each.subject for each in proof.findings if each.check == check and each.state in states}


@pytest.mark.parametrize(
    ("target", "draft", "options"),
    [
        ("target", "draft", {}),
        ("target", "padded", {}),
        ("padded", "target", {}),
        ("target", None, {}),
        ("sliding", "draft", {"swa_full": False}),
        ("hybrid", "draft", {}),
        ("single", None, {"drafter": "mtp"}),
        ("chained", None, {"drafter": "mtp"}),
        ("encoder", None, {}),
    ],
)
def test_every_kind_of_model_holds(
    make: MakeEngine, target: str, draft: str | None, options: dict[str, object]
) -> None:
    proof = proof_of(make, target, draft, **options)
    wrong = [each for each in proof.findings if each.state == "wrong"]
    assert not wrong
    own = {str(options.get("drafter", "draft"))} if draft or "drafter" in options else set()
    assert subjects(proof, "law", "ok") == {"greedy", "rejection", "block", "coupled"}
    assert subjects(proof, "greedy", "ok", "note") == {"lookup", "auto", *own}
    assert subjects(proof, "greedy", "ok") >= {"lookup", *own}
    assert subjects(proof, "seed", "ok") >= own
    assert subjects(proof, "chi-square", "ok") >= own
    assert subjects(proof, "draws kept", "ok") == own
    assert subjects(proof, "draft in step", "ok") == own
    assert subjects(proof, "cuts", "ok") >= {"target"}


def test_the_figures_are_there(make: MakeEngine) -> None:
    proof = proof_of(make, "target", "draft")
    by = {(each.check, each.subject): each.numbers for each in proof.findings}
    assert by["law", "rejection"]["rows"] == 40
    assert by["law", "rejection"]["whole_rows"] == 20
    assert 0 < by["law", "block"]["variation"] < 1e-12  # type: ignore[operator]
    square = by["chi-square", "draft"]
    assert square["draws"] == DRAWS
    assert square["judged"] > DRAWS  # type: ignore[operator]
    assert 0.05 < square["smallest_bias"] < 0.4  # type: ignore[operator]
    assert by["penalties", "history"]["a_rejected_token_would_move"] > 0.01  # type: ignore[operator]
    assert by["greedy", "draft"]["equal"] is True
    assert (proof.target, proof.draft, proof.wrong) == ("target.gguf", "draft.gguf", 0)


def test_a_cancel_ends_it_with_what_there_is(make: MakeEngine) -> None:
    engine = make("target", "draft")

    def progress(fraction: float) -> None:
        if len(engine._loaded.target.tokens) > 100:
            engine.cancel()

    proof = engine.measure(ProofJob(SECONDS, TEXTS), progress)
    assert isinstance(proof, Proof)
    assert not proof.complete
    assert engine._loaded.target.tokens == []
    assert engine.measure(ProofJob(SECONDS, TEXTS), lambda _: None).complete  # type: ignore[union-attr]
