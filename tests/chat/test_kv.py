"""Caches of chats within their budget. D3."""

import os
import stat
import sys
import time
from pathlib import Path

import pytest

from localspec import paths
from localspec.chat.kv import STALE_S, WORTH_TOKENS, KvStore
from localspec.engine.client import EngineClient
from localspec.engine.errors import Busy, EngineError
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Segment
from tests import tiny

MANY = WORTH_TOKENS * 4


class Client:
    """Saves `size` bytes, and says what it restored."""

    def __init__(self, size: int = 1000, fails: Exception | None = None, fits: bool = True) -> None:
        self.size, self.fails, self.fits = size, fails, fits
        self.saved: list[str] = []

    def save(self, path: Path) -> int:
        self.saved.append(path.name)
        if self.fails:
            raise self.fails
        path.write_bytes(b"x" * self.size)
        path.with_name(path.name + ".json").write_bytes(b"{}")
        return self.size

    def restore(self, path: Path) -> int:
        if self.fails:
            raise self.fails
        return MANY if self.fits and path.exists() else 0


def ages(store: KvStore, *chats: int) -> None:
    """The first one given was used longest ago."""
    for place, chat in enumerate(chats):
        file = paths.cache_dir() / "kv" / f"{chat}.bin"
        when = time.time() - 1000 + place
        os.utime(file, (when, when))


def test_what_is_kept_is_taken_up_again() -> None:
    store, client = KvStore(10_000), Client()
    assert store.restore(client, 1) == 0
    assert store.save(client, 1, MANY)
    assert store.restore(client, 1) == MANY
    assert store.size() == 1002
    store.forget(1)
    assert store.restore(client, 1) == 0
    assert store.size() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions there")
def test_nobody_else_may_read_them() -> None:
    KvStore(10_000).save(Client(), 1, MANY)
    assert stat.S_IMODE((paths.cache_dir() / "kv").stat().st_mode) & 0o077 == 0


def test_the_least_recently_used_goes_first() -> None:
    store, client = KvStore(3_500), Client()
    for chat in (1, 2, 3):
        assert store.save(client, chat, MANY)
    ages(store, 1, 2, 3)
    assert store.restore(client, 1)
    assert store.save(client, 4, MANY)
    assert [bool(store.restore(client, chat)) for chat in (1, 2, 3, 4)] == [True, False, True, True]
    assert store.size() <= 3_500


def test_one_that_is_larger_than_the_budget_is_not_kept() -> None:
    store = KvStore(3_500)
    assert store.save(Client(), 1, MANY)
    assert not store.save(Client(5_000), 2, MANY)
    assert store.restore(Client(), 2) == 0
    assert store.restore(Client(), 1) == MANY


@pytest.mark.parametrize(("budget", "tokens"), [(0, MANY), (10_000, WORTH_TOKENS - 1)])
def test_nothing_is_written_when_it_is_not_wanted_or_not_worth_it(budget: int, tokens: int) -> None:
    client = Client()
    assert not KvStore(budget).save(client, 1, tokens)
    assert client.saved == []


def test_a_nearly_full_disk_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localspec.chat.kv.KEEP_FREE", 1 << 62)
    client = Client()
    assert not KvStore(10_000).save(client, 1, MANY)
    assert client.saved == []


@pytest.mark.parametrize("error", [EngineError("the disk is full"), Busy("later"), OSError(28, "No space left")])
def test_failing_is_silent(error: Exception) -> None:
    store = KvStore(10_000)
    assert store.save(Client(), 1, MANY)
    if isinstance(error, EngineError):
        assert store.restore(Client(fails=error), 1) == 0
    assert not store.save(Client(fails=error), 1, MANY)
    # A busy engine has touched nothing; after any other failure what is there is not trusted.
    assert store.restore(Client(), 1) == (MANY if isinstance(error, Busy) else 0)


def test_one_that_does_not_fit_stays_for_the_model_it_fits() -> None:
    store = KvStore(10_000)
    store.save(Client(), 1, MANY)
    assert store.restore(Client(fits=False), 1) == 0
    assert store.restore(Client(), 1) == MANY


def test_a_place_that_cannot_be_made_is_silent(home: Path) -> None:
    (home / "cache").write_text("in the way")
    store = KvStore(10_000)
    assert not store.save(Client(), 1, MANY)
    assert store.restore(Client(), 1) == 0


def test_what_a_killed_process_left_goes() -> None:
    store = KvStore(10_000)
    folder = paths.cache_dir() / "kv"
    folder.mkdir(parents=True)
    old, young = folder / "3.bin.77.part", folder / "4.bin.78.part"
    for file in (old, young):
        file.write_bytes(b"half")
    when = time.time() - STALE_S - 60
    os.utime(old, (when, when))
    store.save(Client(), 1, MANY)
    assert not old.exists()
    assert young.exists()


def test_with_the_real_engine(tmp_path: Path) -> None:
    file = tiny.write_llama(tmp_path / "tiny.gguf")
    config = EngineConfig(str(file), context=512, threads=1, flash_attn="on")
    sampling = SamplerSettings(temperature=0.0, logit_bias={token: float("-inf") for token in range(tiny.FIRST_LETTER)})
    prompt = "abcdefghijkl" * 25
    request = Request((Segment(prompt),), sampling=sampling, max_tokens=20)
    store = KvStore(1e9)
    with EngineClient(config) as client:
        text = list(client.generate(request))[-1].text  # type: ignore[union-attr]
        assert store.save(client, 5, len(prompt) + 20)
    with EngineClient(config) as client:
        assert store.restore(client, 5) == len(prompt) + 19
        finished = list(client.generate(request))[-1]
        assert finished.text == text  # type: ignore[union-attr]
        assert finished.stats.prompt_reused == len(prompt) - 1  # type: ignore[union-attr]
