"""A command line whose engine is scripted, and tiny model files for it to find."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Start, starting
from tests.cli.streams import CommandLine
from tests.tiny import vocabulary, write_llama


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in ("NO_COLOR", "TERM", "HF_HUB_OFFLINE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    line = CommandLine(monkeypatch)
    line.use()
    return line


@pytest.fixture
def own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the person's model folders is seen."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has bytes, so that any prompt can be read, and room for a long answer."""
    tokens = vocabulary(with_bytes=True)
    return write_llama(tmp_path_factory.mktemp("models") / "long.gguf", tokens=tokens, context=30_000)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts commands as processes; a scripted one touches `ready` of the test's folder."""
    with starting(tmp_path / "ready") as started:
        yield started


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft for `model`: the same vocabulary."""
    return write_llama(tmp_path_factory.mktemp("models") / "twin.gguf", seed=2)


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No draft for `model`: one token's text differs."""
    tokens = vocabulary()
    tokens[7] = ("z", tokens[7][1])
    return write_llama(tmp_path_factory.mktemp("models") / "stranger.gguf", tokens=tokens)
