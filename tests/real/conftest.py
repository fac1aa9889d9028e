"""The starter pair, found in the person's own store or fetched into it; engines and clients over it."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

# Read when the native library loads, which the imports below may do.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

from localspec.chat.conversation import Conversation
from localspec.chat.templates import ChatTemplate
from localspec.engine.client import EngineClient
from localspec.engine.engine import Engine
from localspec.engine.requests import EngineConfig, EngineInfo, Segment
from localspec.models import catalog, store
from localspec.paths import HOME_VARIABLE
from tests.real.fetching import Unavailable, fetch

PERSONS_HOME = os.environ.get(HOME_VARIABLE)
"""Read on import: the tests themselves run in homes of their own."""

STARTER = "qwen2.5-coder-1.5b"
SMOLLM = "smollm2-135m-q4_1"
CONTEXT = 4608
"""Tokens: room for the 4,000-token prompt."""


class Pair(NamedTuple):
    target: Path
    draft: Path


Ask = Callable[[str], tuple[Segment, ...]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real models take their time on a busy machine, and fetching them is no part of a test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600, func_only=True))


@pytest.fixture(scope="session")
def here(pytestconfig: pytest.Config) -> Callable[[str], list[Path]]:
    """`here(NAME)`: the files of a pair or file of the menu, fetched when absent, which is told on the terminal; the
    test is skipped, with the reason, when no source answers."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None

    def find(name: str) -> list[Path]:
        with pytest.MonkeyPatch.context() as patch, capture.global_and_fixture_disabled():
            if PERSONS_HOME is None:
                patch.delenv(HOME_VARIABLE, raising=False)
            else:
                patch.setenv(HOME_VARIABLE, PERSONS_HOME)
            try:
                return fetch([name])
            except Unavailable as reason:
                pytest.skip(str(reason))

    return find


@pytest.fixture(scope="session")
def starter(here: Callable[[str], list[Path]]) -> Pair:
    return Pair(*here(STARTER))


@pytest.fixture(scope="session")
def smollm(here: Callable[[str], list[Path]]) -> Path:
    return here(SMOLLM)[0]


@pytest.fixture
def starter_on_menu(starter: Pair, home: Path) -> Pair:
    """The test's own home knows where the pair lies, so that `--pair` finds it."""
    known = catalog.load()
    pair = known.pairs[STARTER]
    assert pair.draft is not None
    store.remember(known.files[pair.target], starter.target)
    store.remember(known.files[pair.draft], starter.draft)
    return starter


@pytest.fixture(scope="session")
def engine(starter: Pair) -> Iterator[Engine]:
    """The pair in this process, so that a test can plant a fault in it."""
    made = Engine(EngineConfig(str(starter.target), str(starter.draft), context=2048))
    yield made
    made.close()


@pytest.fixture(scope="session")
def client(starter: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    """The pair in a process of its own."""
    config = EngineConfig(str(starter.target), str(starter.draft), context=CONTEXT)
    with EngineClient(config, state_dir=tmp_path_factory.mktemp("state")) as running:
        yield running


def prompt_for(info: EngineInfo, *turns: str) -> tuple[Segment, ...]:
    """The prompt after `turns`: the person's and the model's in alternation, the person's last."""
    talk = Conversation()
    for number, text in enumerate(turns):
        if number % 2:
            talk.answered(text)
        else:
            talk.ask(text)
    return talk.prompt(ChatTemplate.of(info))


def total_bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)
