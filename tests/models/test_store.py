"""Finding files on this disk, adding one's own. D4, P3 and T11 of the known faults."""

import os
from pathlib import Path

import pytest

from localspec.models import catalog, own, reference, removal, store
from localspec.models.catalog import ModelFile
from localspec.models.errors import ModelError
from localspec.models.reference import Reference
from localspec.models.settings import Settings
from tests.models import ggufs
from tests.models.stored import menu, put


def test_a_pair_is_found_by_name(two: tuple[Path, Path]) -> None:
    found = store.resolve("duo")
    assert (found.target, found.draft) == two
    assert found.pair is not None
    assert found.pair.key == "duo"
    assert found.notes == ()


def test_a_missing_draft_is_a_note_and_a_missing_target_an_error(two: tuple[Path, Path]) -> None:
    two[1].unlink()
    found = store.resolve("duo")
    assert (found.target, found.draft) == (two[0], None)
    assert found.notes == ("the draft small is not on this disk: fetch it with `localspec models pull duo`",)
    two[0].unlink()
    with pytest.raises(ModelError, match="big is not on this disk: fetch it with `localspec models pull duo`"):
        store.resolve("duo")
    two[0].with_name("big.gguf.hub.part").write_bytes(b"half")
    with pytest.raises(ModelError, match="only partly on this disk"):
        store.resolve("duo")


def test_a_key_a_path_or_a_name_in_ones_own_folder_is_a_target_without_draft(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    mine = ggufs.model(tmp_path / "folder" / "mine.gguf")
    assert store.resolve("big").target == two[0]
    assert store.resolve(str(mine)).target == mine
    assert store.resolve("mine.gguf", settings=Settings(folders=(mine.parent,))).target == mine
    assert store.resolve("duo").pair
    assert store.resolve(str(mine)).pair is None


def test_an_explicit_draft_wins_over_the_pairs_own(two: tuple[Path, Path], tmp_path: Path) -> None:
    mine = ggufs.model(tmp_path / "mine.gguf")
    assert store.resolve("duo", draft=str(mine)).draft == mine
    assert store.resolve(str(mine), draft="small").draft == two[1]
    assert store.resolve(str(mine), draft="duo").draft == two[0], "a pair stands for its target"
    with pytest.raises(ModelError, match=r"nowhere\.gguf: there is no such file"):
        store.resolve("duo", draft="nowhere.gguf")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no-such-pair", r"'no-such-pair' is not on the menu: `localspec models list` shows what is"),
        ("Some/Repo", r"Some/Repo is not on this disk: fetch it with `localspec models pull Some/Repo`"),
        ("Some/Repo:Q8_0", r"fetch it with `localspec models pull Some/Repo:Q8_0`"),
        ("/nowhere/x.gguf", r"/nowhere/x\.gguf: there is no such file"),
        ("[bold]x[/]\x1b[2J", r"is not on the menu|there is no such file"),
        ("", r"folder"),
    ],
)
def test_what_is_not_here_is_one_line_with_the_next_step(spec: str, said: str) -> None:
    """P3, T2"""
    with pytest.raises(ModelError, match=said) as caught:
        store.resolve(spec)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("damage", ["0", "3", "100", "half", "html", "pointer", "folder", "locked"])
def test_a_file_that_is_no_whole_model_is_refused_before_the_loader_sees_it(tmp_path: Path, damage: str) -> None:
    """D4"""
    path = ggufs.model(tmp_path / "x.gguf")
    whole = path.read_bytes()
    if damage.isdigit():
        path.write_bytes(whole[: int(damage)])
    elif damage == "half":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "html":
        path.write_bytes(b"<!doctype html><title>Sign in</title>")
    elif damage == "pointer":
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    elif os.geteuid() == 0:
        pytest.skip("everything may be read by this user")
    else:
        path.chmod(0)
    with pytest.raises(ModelError, match=r"x\.gguf") as caught:
        store.resolve(str(path))
    assert "\n" not in str(caught.value)


def test_a_split_model_needs_all_its_parts(tmp_path: Path) -> None:
    for n in (1, 2):
        ggufs.model(
            tmp_path / f"m-0000{n}-of-00002.gguf", split__no=ggufs.number(2, n - 1), split__count=ggufs.number(2, 2)
        )
    first = tmp_path / "m-00001-of-00002.gguf"
    assert store.resolve(str(first)).target == first
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ModelError, match="part 2 of 2"):
        store.resolve(str(first))


def test_a_fetched_repository_is_found_by_its_reference() -> None:
    q4, q8 = put("Some/Repo", "m-Q4_K_M.gguf"), put("Some/Repo", "m-Q8_0.gguf")
    assert store.resolve("Some/Repo").target == q4
    assert store.resolve("Some/Repo:q8_0").target == q8
    assert store.resolve("Some/Repo:m-Q8_0.gguf").target == q8
    with pytest.raises(ModelError, match="not on this disk"):
        store.resolve("Some/Repo:Q5_0")


def test_a_file_of_another_size_than_the_menu_says_is_not_taken() -> None:
    put("thing", "x.gguf")
    file = ModelFile("thing", "x.gguf", size=5)
    assert store.find(file) is None
    assert store.find(ModelFile("thing", "x.gguf")) is not None


def test_a_file_fetched_when_the_menu_named_another_hash_is_not_taken() -> None:
    path = put("thing", "x.gguf")
    assert store.find(ModelFile("thing", "x.gguf", sha256="0" * 64)) == path
    assert store.find(ModelFile("thing", "x.gguf", sha256="1" * 64)) is None


def test_the_menu_is_asked_before_the_hub() -> None:
    known = catalog.load()
    repo = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
    for which, key in (
        (None, "qwen2.5-coder-0.5b"),
        ("Q8_0", "qwen2.5-coder-0.5b-q8"),
        ("q4_k_m", "qwen2.5-coder-0.5b"),
    ):
        found = store.on_menu(known, Reference(repo, which))
        assert found is not None
        assert found.key == key
    assert store.on_menu(known, Reference(repo, "Q2_K")) is None
    assert store.on_menu(known, Reference("Some/Repo")) is None


# --- references -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b", Reference("a/b")),
        ("a/b:Q4_K_M", Reference("a/b", "Q4_K_M")),
        ("a/b:", None),
        ("a", None),
        ("a/b/c", None),
        ("/a/b", None),
        ("../b", None),
        ("a/..", None),
        ("a/b c", None),
    ],
)
def test_the_form_of_a_reference(text: str, expected: Reference | None) -> None:
    assert reference.parse(text) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("model-IQ4_XS.gguf", "IQ4_XS"),
        ("Model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("model-bf16.gguf", "BF16"),
        ("model.fp16.gguf", "F16"),
        ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
        ("Q8_0/model-Q8_0-00001-of-00002.gguf", "Q8_0"),
        ("q2-model.gguf", None),
        ("model.gguf", None),
    ],
)
def test_the_quantisation_in_a_name(name: str, expected: str | None) -> None:
    assert reference.quantisation(name) == expected


def test_the_choice_among_a_repositorys_files() -> None:
    names = ["README.md", "m-Q8_0.gguf", "m-Q5_K_M.gguf", "mmproj-m-f16.gguf", "m-lora-Q4_K_M.gguf", "m-F16.gguf"]
    assert reference.choose(names, Reference("a/b")) == ["m-Q5_K_M.gguf"]
    assert reference.choose(names, Reference("a/b", "f16")) == ["m-F16.gguf"]
    split = [f"m-Q4_K_M-0000{n}-of-00002.gguf" for n in (2, 1)]
    assert reference.choose([*names, *split], Reference("a/b")) == split[::-1]
    with pytest.raises(ModelError, match=r"its part m-Q4_K_M-00002-of-00002\.gguf is missing there"):
        reference.choose([*names, split[1]], Reference("a/b"))
    with pytest.raises(ModelError, match="holds no GGUF model file"):
        reference.choose(["README.md", "mmproj-f16.gguf"], Reference("a/b"))
    assert reference.choose(["strange.gguf"], Reference("a/b")) == ["strange.gguf"]


# --- one's own entries ------------------------------------------------------------------------------------------------


def test_adding_keeps_what_the_file_says_and_removing_takes_only_the_entry(tmp_path: Path) -> None:
    menu('# my own models\n[files.old]\npath = "/old.gguf"  # precious\n')
    target, draft = ggufs.model(tmp_path / "a b.gguf", width=64), ggufs.model(tmp_path / "d.gguf")
    own.add("mine", target, draft)
    text = catalog.own_file().read_text()
    assert "# my own models" in text
    assert "# precious" in text
    known = catalog.load()
    assert known.problems == ()
    assert (store.resolve("mine").target, store.resolve("mine").draft) == (target, draft)
    with pytest.raises(ModelError, match="mine is on the menu already"):
        own.add("mine", target)
    with pytest.raises(ModelError, match=r"qwen2\.5-coder-1\.5b is on the menu already"):
        own.add("qwen2.5-coder-1.5b", target)
    plan = removal.plan("mine")
    assert plan.delete == ()
    assert len(plan.stays) == 2
    assert removal.carry_out(plan) == 0
    assert target.exists()
    assert draft.exists()
    known = catalog.load()
    assert "mine" not in known.pairs
    assert set(known.files) >= {"old"}
    assert "mine-draft" not in known.files
    assert "# precious" in catalog.own_file().read_text()


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "-x", ".x", "x."])
def test_a_name_must_do_as_a_folders_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="cannot be a name"):
        own.add(name, tmp_path / "x.gguf")


def test_a_broken_own_file_is_not_overwritten(tmp_path: Path) -> None:
    """T11"""
    menu("[files.x\n")
    with pytest.raises(ModelError, match="cannot be changed before it is correct"):
        own.add("mine", tmp_path / "x.gguf")
    assert catalog.own_file().read_text() == "[files.x\n"
    catalog.own_file().write_bytes(b"\xff")
    with pytest.raises(ModelError, match="before it is correct: it is not UTF-8"):
        own.add("mine", tmp_path / "x.gguf")
