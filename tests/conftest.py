"""Every test runs in a home of its own: nothing of the person's settings, models or verdicts is seen or changed."""

from pathlib import Path

import pytest

from localspec.paths import HOME_VARIABLE


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path_factory.mktemp("home")
    monkeypatch.setenv(HOME_VARIABLE, str(root))
    return root


@pytest.fixture(scope="session")
def bytes_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that has bytes, so that any prompt can be read."""
    from tests.tiny import vocabulary, write_llama

    file = tmp_path_factory.mktemp("models") / "tiny.gguf"
    return write_llama(file, tokens=vocabulary(with_bytes=True), context=8192)
