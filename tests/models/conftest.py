"""Fixtures for the model side: a hub of one's own, and nothing of the person's environment."""

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localspec import paths
from localspec.models import download
from tests.models.hubserver import HubServer, serving
from tests.models.stored import menu, put

REPO = "Someone/Model-GGUF"
NAME = "model-q4_k_m.gguf"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No token, cache, proxy or offline switch of the person's; pauses between tries too short to notice."""
    for name in (
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE",
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(download, "BACKOFF_S", 0.01)


@pytest.fixture
def hub() -> Iterator[HubServer]:
    """A hub that holds one file of 3 MB."""
    with serving() as server:
        server.repos[REPO] = {NAME: random.Random(1).randbytes(3_000_000)}
        yield server


Writer = Callable[..., None]


@pytest.fixture
def write_menu() -> Writer:
    """Write the person's own models.toml: file `thing` as the hub has it, or with other facts."""

    def write(data: bytes, **changes: str) -> None:
        facts = {
            "name": f'"{NAME}"', "size": str(len(data)), "sha256": f'"{hashlib.sha256(data).hexdigest()}"',
            "hub": f'{{ repo = "{REPO}", revision = "{"a" * 40}" }}', **changes,
        }  # fmt: skip
        lines = "\n".join(f"{key} = {value}" for key, value in facts.items())
        file = paths.config_dir() / "models.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[files.thing]\n{lines}\n", encoding="utf-8")

    return write


@pytest.fixture
def two() -> tuple[Path, Path]:
    """A pair `duo` on the menu, both files here; `big` and `other` use the same draft."""
    menu(
        '[files.big]\nname = "big.gguf"\n[files.small]\nname = "small.gguf"\n[files.other]\nname = "other.gguf"\n'
        '[pairs.duo]\ntarget = "big"\ndraft = "small"\n[pairs.trio]\ntarget = "other"\ndraft = "small"\n'
    )
    return put("big", "big.gguf", width=64), put("small", "small.gguf")
