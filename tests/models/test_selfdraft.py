"""Drafts made of a model's own layers, as files: written whole or not at all, found again, listed, removed."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest

from localspec import paths
from localspec.models import gguf_write, pull, removal, selfdraft, store
from localspec.models.errors import ModelError
from localspec.models.gguf_split import read_model
from localspec.models.layers import NoSelfDraft
from localspec.models.partial import DiskFull, lock_of
from localspec.models.pull import NoSpace
from localspec.models.selfdraft import Findings
from tests import tiny
from tests.models.stored import menu, put

FOUND = Findings(0.8, {"chat": 0.7}, 0.85, 1, 0.9, 2, 0.8, False)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A person's own file, outside the store."""
    return tiny.write_llama(tmp_path / "mine.gguf", layers=8)


def everything(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")}


def test_it_lies_in_the_store_and_says_what_it_is(target: Path) -> None:
    told: list[tuple[int, int]] = []
    made = selfdraft.make(target, progress=lambda *step: told.append(step))
    assert paths.models_dir() in made.path.parents
    assert made.path.name == "mine.gguf.self-draft"
    assert (made.target, made.layers, made.kept, made.left_out) == (target, 8, 7, (4,))
    header = read_model(made.path)
    assert header.block_count == 7
    assert header.name == "mine without layers 4"
    assert selfdraft.made_of(header) == "mine.gguf"
    assert made.size == made.path.stat().st_size == header.file_bytes
    assert told == sorted(told)
    done, total = told[-1]
    assert made.size * 0.9 < done <= made.size <= total <= made.size * 1.1
    assert selfdraft.find(target) == made
    assert selfdraft.here() == [selfdraft.SelfDraft(made.path.with_name("mine.gguf"), *[
        getattr(made, name) for name in ("path", "size", "layers", "left_out")])]  # fmt: skip
    assert everything(paths.models_dir()) == {"mine.gguf.self-draft"}


def test_of_a_stored_model_it_lies_beside_it(tmp_path: Path) -> None:
    path = paths.models_dir() / "Someone" / "Model-GGUF" / "model-q4_k_m.gguf"
    path.parent.mkdir(parents=True)
    tiny.write_llama(path, layers=8)
    made = selfdraft.make(path)
    assert made.path.parent == path.parent
    assert selfdraft.here() == [made]
    found = store.resolve("Someone/Model-GGUF")
    assert found.target == path, "nobody takes it for the model"


def test_two_files_of_one_name_have_one_each(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    one, other = (tiny.write_llama(tmp_path / folder / "m.gguf", layers=8, seed=ord(folder)) for folder in "ab")
    assert selfdraft.make(one).path != selfdraft.make(other).path


def test_after_the_model_was_replaced_it_is_not_its_draft(target: Path) -> None:
    selfdraft.make(target)
    tiny.write_llama(target, layers=9)
    assert selfdraft.find(target) is None
    assert selfdraft.make(target).layers == 9
    found = selfdraft.find(target)
    assert found is not None
    assert found.layers == 9


def test_what_was_measured_is_kept_until_it_is_made_again(target: Path) -> None:
    made = selfdraft.make(target)
    assert made.measured is None
    selfdraft.remember(made, FOUND)
    found = selfdraft.find(target)
    assert found is not None
    assert found.measured == FOUND
    assert selfdraft.here()[0].measured == FOUND
    selfdraft.make(target, keep=5)
    assert selfdraft.here()[0].measured is None


@pytest.mark.parametrize("note", ["", "[]", "{", '{"agreement": 1}'])
def test_a_damaged_note_is_none(target: Path, note: str) -> None:
    made = selfdraft.make(target)
    made.path.with_name(made.path.name + ".json").write_text(note)
    found = selfdraft.find(target)
    assert found is not None
    assert found.measured is None


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def stopped(*_: Any) -> None:
    raise KeyboardInterrupt


def no_right(*_: Any) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [(full, DiskFull, "the disk is full: .* nothing was kept"), (stopped, KeyboardInterrupt, None),
     (no_right, ModelError, "cannot write .*Permission denied")],
)  # fmt: skip
@pytest.mark.parametrize("before", [False, True])
def test_what_breaks_half_way_leaves_what_was_there(
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[..., None],
    error: type[BaseException],
    words: str | None,
    before: bool,
) -> None:
    """After some of the data is written; one that was there stays whole, with what is known of it."""
    if before:
        selfdraft.remember(selfdraft.make(target, keep=6), FOUND)
    kept = {path: path.read_bytes() for path in selfdraft.files_of(target)}
    copy = gguf_write._Writer.copy
    copied: list[int] = []

    def breaking(self: Any, *arguments: Any) -> None:
        copied.append(self.done)
        if len(copied) > 40:
            fault()
        copy(self, *arguments)

    monkeypatch.setattr(gguf_write._Writer, "copy", breaking)
    with pytest.raises(error, match=words):
        selfdraft.make(target)
    assert copied[-1] > 10_000
    assert {path: path.read_bytes() for path in selfdraft.files_of(target)} == kept
    assert (selfdraft.find(target) is not None) is before


def test_what_a_killed_one_left_is_no_draft_and_is_overwritten(target: Path) -> None:
    whole = selfdraft.make(target)
    data = whole.path.read_bytes()
    part = whole.path.with_name(whole.path.name + ".part")
    part.write_bytes(data[: len(data) // 2])
    whole.path.unlink()
    assert selfdraft.find(target) is None
    assert selfdraft.here() == []
    assert selfdraft.make(target).path.read_bytes() == data
    assert not part.exists()


def test_a_file_cut_short_is_no_draft(target: Path) -> None:
    """Not even one that has its name: another program may have been there."""
    made = selfdraft.make(target)
    made.path.write_bytes(made.path.read_bytes()[:-1])
    with pytest.raises(ModelError, match="incomplete"):
        store.require_whole(made.path)


def test_without_room_it_is_not_begun(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "free_bytes", lambda folder: 1000)
    with pytest.raises(NoSpace, match=r"kB to write .* only 1 kB are free"):
        selfdraft.make(target)
    assert everything(paths.models_dir()) == set()


def test_two_at_once_are_refused(target: Path) -> None:
    path = selfdraft.path_of(target)
    path.parent.mkdir(parents=True)
    with filelock.FileLock(lock_of(path)), pytest.raises(ModelError, match="another localspec is making"):
        selfdraft.make(target)


def test_of_a_self_draft_none_is_made(target: Path) -> None:
    with pytest.raises(NoSelfDraft, match=r"is itself a draft made of mine\.gguf"):
        selfdraft.make(selfdraft.make(target).path)


def test_memory_does_not_grow_with_the_model(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No read and no write is longer than a chunk, whatever the tensors."""
    monkeypatch.setattr(gguf_write, "CHUNK", 512)
    longest: list[int] = []
    put_ = gguf_write._Writer.put

    def watching(self: Any, data: bytes) -> None:
        longest.append(len(data))
        put_(self, data)

    monkeypatch.setattr(gguf_write._Writer, "put", watching)
    made = selfdraft.make(target)
    assert max(longest) == 512
    assert read_model(made.path).block_count == 7


# -- taking it away ----------------------------------------------------------------------------------------------------


def test_removing_a_model_removes_its_self_draft() -> None:
    menu('[files.thing]\nname = "thing.gguf"\n[files.other]\nname = "other.gguf"\n')
    for key in ("thing", "other"):
        path = put(key, f"{key}.gguf")
        tiny.write_llama(path, layers=8)
        selfdraft.remember(selfdraft.make(path), FOUND)
    plan = removal.plan("thing")
    names = ["thing.gguf", "thing.gguf.self-draft", "thing.gguf.self-draft.json"]
    assert sorted(path.name for path in plan.delete) == names
    assert removal.carry_out(plan) == plan.frees > 0
    left = everything(paths.models_dir())
    assert left == {"other.gguf", "other.gguf.fetched.json", "other.gguf.self-draft", "other.gguf.self-draft.json"}
    assert not (paths.models_dir() / "thing").exists()


def test_only_the_self_draft_goes_when_that_is_asked(target: Path) -> None:
    """Also that of a person's own file, which stays."""
    menu(f"[files.mine]\npath = '{target}'\n")
    selfdraft.remember(selfdraft.make(target), FOUND)
    plan = removal.plan("mine", only_self_draft=True)
    assert {path.name for path in plan.delete} == {"mine.gguf.self-draft", "mine.gguf.self-draft.json"}
    assert not plan.own_entry
    removal.carry_out(plan)
    assert target.is_file()
    assert everything(paths.models_dir()) == set()
    with pytest.raises(ModelError, match="no draft made of the layers of mine"):
        removal.plan("mine", only_self_draft=True)


def test_with_a_menus_entry_of_a_persons_own_its_self_draft_goes(target: Path) -> None:
    menu(f"[files.mine]\npath = '{target}'\n[pairs.mine]\ntarget = 'mine'\n")
    selfdraft.make(target)
    plan = removal.plan("mine")
    assert [path.name for path in plan.delete] == ["mine.gguf.self-draft"]
    removal.carry_out(plan)
    assert target.is_file()
    assert selfdraft.find(target) is None


def test_the_note_is_json_that_scripts_can_read(target: Path) -> None:
    made = selfdraft.make(target)
    selfdraft.remember(made, FOUND)
    assert json.loads(made.path.with_name(made.path.name + ".json").read_text())["worth"] is False


def test_what_was_measured_of_other_layers_says_nothing(target: Path) -> None:
    """Two commands at once: the second has put its draft there before the first writes down what it found."""
    first = selfdraft.make(target, keep=6)
    selfdraft.make(target, keep=5)
    selfdraft.remember(first, FOUND)
    there = selfdraft.find(target)
    assert there is not None
    assert (there.kept, there.measured) == (5, None)
    again = selfdraft.make(target, keep=6)
    selfdraft.remember(again, FOUND)
    assert getattr(selfdraft.find(target), "measured", None) == FOUND
