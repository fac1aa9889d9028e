"""Drafts for a target that came without one: on this disk by vocabulary, on the menu by family."""

from pathlib import Path

import pytest

from localspec.models import catalog, drafts
from localspec.models.settings import Settings
from tests.models import ggufs
from tests.models.stored import menu, put


def test_files_here_are_compared_and_files_of_the_menu_proposed_by_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    target = ggufs.model(tmp_path / "big.gguf", width=512)
    menu(
        "".join(
            f'[files.{key}]\nname = "{key}.gguf"\nsize = {size}\narchitecture = "{arch}"\nvocab_size = {vocabulary}\n'
            for key, size, arch, vocabulary in (
                ("tenth", target.stat().st_size // 10, "llama", 256 + 128),
                ("half", target.stat().st_size // 2, "llama", 256),
                ("whole", target.stat().st_size, "llama", 256),
                ("foreign", target.stat().st_size // 10, "qwen2", 256),
                ("larger", target.stat().st_size // 10, "llama", 256 + 129),
            )
        )
        + '[files.here]\nname = "here.gguf"\n'
    )
    here = put("here", "here.gguf")
    folder = tmp_path / "models"
    elsewhere = ggufs.model(folder / "elsewhere.gguf", width=48)
    ggufs.model(folder / "stranger.gguf", tokens=[f"x{i}" for i in range(256)])
    found = drafts.propose(target, Settings(folders=(folder,)))
    assert set(found.here) == {here, elsewhere}
    assert [file.key for file in found.menu] == ["tenth", "half"]
    assert set(catalog.load().files) > {"whole", "foreign", "larger"}
