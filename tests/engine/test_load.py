"""Loading: what is refused, and progress."""

from pathlib import Path

import pytest

from localspec.engine.engine import Engine
from localspec.engine.errors import LoadError
from localspec.engine.requests import EngineConfig
from tests.engine.answers import ask


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path, tiny_files: dict[str, Path]) -> None:
    """P3: the reason, in one line."""
    (tmp_path / "page.gguf").write_text("<html>not here</html>")
    (tmp_path / "empty.gguf").touch()
    for target, message in (
        (tmp_path / "none.gguf", "does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "page.gguf", "not a GGUF"),
        (tmp_path / "empty.gguf", "not a GGUF"),
    ):
        with pytest.raises(LoadError, match=message) as caught:
            Engine(EngineConfig(str(target), threads=1))
        assert "\n" not in str(caught.value)
    with pytest.raises(LoadError, match="share a vocabulary"):
        Engine(EngineConfig(str(tiny_files["target"]), str(tiny_files["bytes"]), threads=1, context=64))


def test_loading_reports_progress(tiny_files: dict[str, Path]) -> None:
    seen: list[float] = []
    config = EngineConfig(str(tiny_files["target"]), str(tiny_files["draft"]), threads=1, context=64)
    Engine(config, seen.append).close()
    assert seen == sorted(seen)
    assert 0.0 <= seen[0] <= seen[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("context", range(2, 13))
def test_a_recurrent_model_answers_in_the_smallest_context(tiny_files: dict[str, Path], context: int) -> None:
    """The library makes no batch longer than the context, and ends the process when snapshots fill one."""
    engine = Engine(EngineConfig(str(tiny_files["hybrid"]), context=context, threads=1, flash_attn="on"))
    for length in range(1, context + 1):
        answer = ask(engine, "abcabcabcabc"[:length], speculate="lookup", max_tokens=None)
        assert answer.end.reason == "context_full"
    engine.close()
