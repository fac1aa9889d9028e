"""Tiny models, written once a session, and engines over them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Spinning OpenMP threads make tiny decodes a thousand times slower on a busy machine; read when the library loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

from localspec.engine.engine import Engine
from localspec.engine.requests import EngineConfig
from tests import tiny, tiny_t5


@pytest.fixture(scope="session")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models by name: `target` and `draft` share a vocabulary; `twin` is the target again; `bytes` has byte tokens;
    `end` ends often; `padded` has 8 rows more than the target; `sliding` and `hybrid` are hard to cut back; the `t5`
    ones have an encoder."""
    root = tmp_path_factory.mktemp("tiny")
    bytes_vocabulary = tiny.vocabulary(26, with_bytes=True)
    padded = tiny.vocabulary() + [(f"<pad{i}>", tiny.UNUSED) for i in range(8)]
    t5_padded = tiny_t5.vocabulary() + padded[-8:]
    return {
        "target": tiny.write_llama(root / "target.gguf", seed=1),
        "draft": tiny.write_llama(root / "draft.gguf", layers=1, seed=2),
        "twin": tiny.write_llama(root / "twin.gguf", seed=1),
        "begin": tiny.write_llama(root / "begin.gguf", tokens=bytes_vocabulary, add_bos=True),
        "bytes": tiny.write_llama(root / "bytes.gguf", tokens=bytes_vocabulary, seed=3, scale=1.0),
        "padded": tiny.write_llama(root / "padded.gguf", tokens=padded, layers=1, seed=4),
        "sliding": tiny.write_sliding(root / "sliding.gguf"),
        "hybrid": tiny.write_hybrid(root / "hybrid.gguf"),
        "t5": tiny_t5.write_t5(root / "t5.gguf"),
        "t5-draft": tiny_t5.write_t5(root / "t5-draft.gguf", layers=1),
        "t5-twin": tiny_t5.write_t5(root / "t5-twin.gguf"),
        "t5-padded": tiny_t5.write_t5(root / "t5-padded.gguf", tokens=t5_padded, layers=1),
    }


MakeEngine = Callable[..., Engine]


@pytest.fixture
def make_engine(tiny_files: dict[str, Path]) -> Iterator[MakeEngine]:
    """`make_engine("target", "draft", context=..., ...)`: an engine over tiny models, closed after the test."""
    made: list[Engine] = []

    def make(target: str = "target", draft: str | None = None, **options: object) -> Engine:
        settings: dict[str, object] = {"context": 512, "threads": 1, "flash_attn": "on"} | options
        files = tiny_files
        engine = Engine(
            EngineConfig(target=str(files[target]), draft=None if draft is None else str(files[draft]), **settings)  # type: ignore[arg-type]
        )
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()
