"""Putting models on the menu by what a person names them: paths, keys, hub repositories. P3, T11."""

from pathlib import Path

import pytest

from localspec.models import adding, catalog, store
from localspec.models.errors import ModelError, NotGGUF
from tests.models import ggufs
from tests.models.stored import menu, put


def test_files_keys_and_fetched_repositories_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    menu('[files.small]\nname = "small.gguf"\n')
    draft, target = put("small", "small.gguf"), put("Some/Repo", "m-Q8_0.gguf", width=64)
    assert adding.add("mine", "Some/Repo:Q8_0", "small") == ()
    found = store.resolve("mine")
    assert (found.target, found.draft) == (target, draft)
    other = ggufs.model(tmp_path / "x.gguf")
    assert adding.add("single", str(other)) == ()
    assert catalog.load().pairs["single"].draft is None


def test_what_has_to_be_fetched_first_is_answered_and_nothing_written(tmp_path: Path) -> None:
    target = ggufs.model(tmp_path / "x.gguf")
    assert adding.add("mine", str(target), "Some/Small") == ("Some/Small",)
    assert adding.add("mine", "Some/Big:Q4_K_M", "Some/Small") == ("Some/Big:Q4_K_M", "Some/Small")
    assert not catalog.own_file().exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen3-8b", "is on the menu already: choose another name"),
        ("../x", "cannot be a name"),
        ("", "cannot be a name"),
    ],
)
def test_a_name_that_is_taken_or_none_is_said_before_anything_is_looked_for(name: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        adding.add(name, "Some/Big")


def test_what_is_no_model_or_no_pair_is_not_added(tmp_path: Path) -> None:
    target = ggufs.model(tmp_path / "x.gguf", width=64)
    page = tmp_path / "page.gguf"
    page.write_bytes(b"<!doctype html>")
    stranger = ggufs.model(tmp_path / "s.gguf", tokens=[f"x{i}" for i in range(256)])
    with pytest.raises(NotGGUF, match="web page"):
        adding.add("mine", str(page))
    with pytest.raises(adding.NoPair, match=r"x\.gguf and s\.gguf are no pair: token 5 is"):
        adding.add("mine", str(target), str(stranger))
    with pytest.raises(ModelError, match="there is no such file"):
        adding.add("mine", str(tmp_path / "gone.gguf"))
    assert not catalog.own_file().exists()
