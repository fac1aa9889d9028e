"""Servers that end with their test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localspec.server.embedded import Embedded
from tests.fake_engine import FakeEngine
from tests.server.serving import Server, embed, serve
from tests.tiny import write_llama


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture
def serving() -> Iterator[Any]:
    started: list[Server] = []

    def start(*arguments: Any, **more: Any) -> Server:
        server = serve(*arguments, **more)
        started.append(server)
        return server

    yield start
    for server in started:
        server.engine.close()
        server.listener.stop()


@pytest.fixture
def embedding() -> Iterator[Any]:
    started: list[tuple[FakeEngine, Embedded]] = []

    def start(*arguments: Any, **more: Any) -> FakeEngine:
        started.append(embed(*arguments, **more))
        return started[-1][0]

    yield start
    for engine, shared in started:
        engine.close()
        shared.close()
