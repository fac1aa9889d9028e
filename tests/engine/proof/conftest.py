"""Engines over tiny models that the checks can say something of: letters alone, a draft that agrees often."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localspec.engine.engine import Engine
from localspec.engine.proof.ground import Ground
from localspec.engine.proof.report import Finding
from localspec.engine.requests import EngineConfig
from tests import tiny, tiny_t5

WORD = "".join(f"b{letter}ed" for letter in "acdefghijkl") + "b"
TEXTS = (WORD * 3, WORD + WORD[::-1] + WORD)
SECONDS = 600.0
"""Far more than is used: tiny models make every pass there is to make."""

LENGTH = 48
"""Tokens of an answer."""

MakeEngine = Callable[..., Engine]
Check = Callable[[Ground], Iterator[Finding]]


@pytest.fixture(scope="package")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`target` and `draft` point the same way, the draft less sharply."""
    root = tmp_path_factory.mktemp("proof")
    padded = tiny.vocabulary() + [(f"<pad{i}>", tiny.UNUSED) for i in range(8)]
    return {
        "target": tiny.write_llama(root / "target.gguf", seed=11, scale=1.2),
        "draft": tiny.write_llama(root / "draft.gguf", seed=11, scale=0.6),
        "padded": tiny.write_llama(root / "padded.gguf", tokens=padded, seed=11, scale=0.6),
        "sliding": tiny.write_sliding(root / "sliding.gguf"),
        "hybrid": tiny.write_hybrid(root / "hybrid.gguf", scale=1.2),
        "single": tiny.write_hybrid(root / "single.gguf", seed=11, scale=1.2, heads=1, agreeing=2.0),
        "chained": tiny.write_step(root / "chained.gguf", seed=11, scale=1.2, agreeing=2.0),
        "encoder": tiny_t5.write_t5(root / "encoder.gguf"),
    }


@pytest.fixture
def make(files: dict[str, Path]) -> Iterator[MakeEngine]:
    """`make("target", "draft", ...)`: an engine, closed after the test."""
    made: list[Engine] = []

    def engine(target: str = "target", draft: str | None = "draft", **options: object) -> Engine:
        settings: dict[str, object] = {"context": 512, "threads": 1, "flash_attn": "on"} | options
        config = EngineConfig(str(files[target]), None if draft is None else str(files[draft]), **settings)  # type: ignore[arg-type]
        made.append(Engine(config))
        return made[-1]

    yield engine
    for one in made:
        one.close()


def found(engine: Engine, check: Check) -> dict[tuple[str, str], Finding]:
    """What one check says of an engine, by check and subject."""
    ground = Ground(engine, TEXTS, SECONDS, lambda _: None)
    ground.length = LENGTH
    return {(each.check, each.subject): each for each in check(ground)}


def states(findings: dict[tuple[str, str], Finding]) -> dict[tuple[str, str], str]:
    return {key: finding.state for key, finding in findings.items()}
