"""The draft's copy in another number format: made once, tried once, used where it pays, and never needed."""

import shutil
from pathlib import Path

import pytest

from localspec.engine import fast_draft
from localspec.engine.engine import Engine
from localspec.engine.errors import DecodeError, LoadError
from localspec.engine.fast_draft import file_to_load
from localspec.engine.llama import AbortFlag, Model
from localspec.engine.requests import EngineConfig
from tests.engine.answers import ask


class Trial:
    """Says what it is told to, and counts how often it was asked."""

    def __init__(self, says: bool | BaseException) -> None:
        self.says, self.asked = says, 0

    def __call__(self, source: str, copy: str, threads: int, abort: AbortFlag) -> bool:
        self.asked += 1
        assert Path(copy).stat().st_size < Path(source).stat().st_size, "four bits for each number instead of 32"
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says


@pytest.fixture(autouse=True)
def tiny_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_draft, "SMALLEST", 1)


@pytest.fixture
def config(tiny_files: dict[str, Path], tmp_path: Path) -> EngineConfig:
    return EngineConfig(
        str(tiny_files["target"]), str(tiny_files["draft"]), context=256, threads=1, flash_attn="on",
        cache_dir=str(tmp_path),
    )  # fmt: skip


def chosen(config: EngineConfig, trial: Trial) -> str:
    return file_to_load(config, 1, AbortFlag(), trial)


def test_a_copy_that_pays_is_made_once_and_used(config: EngineConfig, tmp_path: Path) -> None:
    trial = Trial(says=True)
    copy = Path(chosen(config, trial))
    assert copy.parent == tmp_path / "drafts"
    assert chosen(config, trial) == str(copy)
    assert trial.asked == 1
    model = Model(str(copy))
    assert "Q4_0" in model.description
    model.close()
    assert [file.name for file in copy.parent.iterdir()] == [copy.name], "nothing half done is left"


def test_one_that_does_not_is_deleted_and_not_made_again(config: EngineConfig, tmp_path: Path) -> None:
    trial = Trial(says=False)
    assert chosen(config, trial) == config.draft
    assert chosen(config, trial) == config.draft
    assert trial.asked == 1
    assert list((tmp_path / "drafts").iterdir()) == []


def test_a_trial_that_failed_says_nothing(config: EngineConfig, tmp_path: Path) -> None:
    broken, whole = Trial(says=DecodeError("no room")), Trial(says=True)
    assert chosen(config, broken) == config.draft
    assert list((tmp_path / "drafts").iterdir()) == []
    assert chosen(config, whole) != config.draft, "the next load tries again"


def test_a_file_the_library_cannot_copy_is_loaded_as_it_is(config: EngineConfig, tmp_path: Path) -> None:
    broken = tmp_path / "cut.gguf"
    broken.write_bytes(Path(config.draft or "").read_bytes()[:2000])
    trial = Trial(says=True)
    cut = EngineConfig(config.target, str(broken), cache_dir=config.cache_dir)
    assert chosen(cut, trial) == str(broken)
    assert trial.asked == 0


def test_a_full_disk_is_left_alone(config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(config.cache_dir or "")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100))
    trial = Trial(says=True)
    assert chosen(config, trial) == config.draft
    assert trial.asked == 0


@pytest.mark.parametrize("changes", [{"draft_copy": False}, {"extra_bufts": False}, {"cache_dir": None}])
def test_nothing_is_copied_where_it_is_not_wanted(config: EngineConfig, changes: dict[str, object]) -> None:
    trial = Trial(says=True)
    settings = {name: getattr(config, name) for name in EngineConfig.__dataclass_fields__} | changes
    assert chosen(EngineConfig(**settings), trial) == config.draft
    assert trial.asked == 0


def test_a_disk_that_fills_up_meanwhile_says_nothing_of_the_model(
    config: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    free = iter([usage.free, 100, usage.free])

    def full(source: str, copy: str, threads: int) -> None:
        Path(copy).write_bytes(b"GGUF")
        raise LoadError("basic_ios::clear: iostream error")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=next(free)))
        patch.setattr(fast_draft, "requantize", full)
        assert chosen(config, Trial(says=True)) == config.draft
        assert list((tmp_path / "drafts").iterdir()) == []
    assert chosen(config, Trial(says=True)) != config.draft


def test_what_an_ended_process_left_half_done_is_deleted(config: EngineConfig, tmp_path: Path) -> None:
    left = tmp_path / "drafts" / "0123.part"
    left.parent.mkdir()
    left.write_bytes(b"half")
    copy = Path(chosen(config, Trial(says=True)))
    assert list(left.parent.iterdir()) == [copy]


def test_a_trial_that_never_ends_is_given_up(config: EngineConfig) -> None:
    """A native assertion or a kill leaves no verdict, and would meet every load."""

    class Killed(BaseException):
        pass

    trial = Trial(says=Killed())
    for _ in range(fast_draft.TRIES):
        with pytest.raises(Killed):
            chosen(config, trial)
    whole = Trial(says=True)
    assert chosen(config, whole) == config.draft
    assert (trial.asked, whole.asked) == (fast_draft.TRIES, 0)


def test_two_processes_make_one_copy(config: EngineConfig, tmp_path: Path) -> None:
    """The second goes on with the file as it came, and leaves what the first has begun."""
    second = Trial(says=True)

    class First(Trial):
        def __call__(self, source: str, copy: str, threads: int, abort: AbortFlag) -> bool:
            assert chosen(config, second) == config.draft
            assert Path(copy).is_file()
            return super().__call__(source, copy, threads, abort)

    assert chosen(config, First(says=True)) != config.draft
    assert second.asked == 0


@pytest.mark.parametrize("left", [0, 2000], ids=["empty", "cut"])
def test_a_damaged_copy_is_replaced_by_the_file_itself(config: EngineConfig, left: int) -> None:
    copy = Path(chosen(config, Trial(says=True)))
    copy.write_bytes(copy.read_bytes()[:left])
    engine = Engine(config)
    try:
        draft = engine._loaded.draft
        assert draft is not None
        assert draft.model.path == config.draft
    finally:
        engine.close()
    assert not copy.exists()
    again = Trial(says=True)
    assert chosen(config, again) == str(copy)
    assert again.asked == 1, "the next load makes another"


def test_a_draft_that_cannot_be_loaded_is_an_error_of_its_own(config: EngineConfig, tmp_path: Path) -> None:
    broken = tmp_path / "cut.gguf"
    broken.write_bytes(Path(config.draft or "").read_bytes()[:2000])
    with pytest.raises(LoadError, match=r"cut\.gguf"):
        Engine(EngineConfig(config.target, str(broken), context=256, threads=1, cache_dir=config.cache_dir))


def test_using_a_copy_changes_nothing_of_what_is_known_of_it(
    config: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs and saved caches are filed under the file's name, size and time."""
    monkeypatch.setattr(fast_draft, "by_the_clock", Trial(says=True))
    saved = str(tmp_path / "chat")
    known = []
    for turn in range(2):
        engine = Engine(config)
        try:
            assert engine._loaded.draft is not None
            if turn:
                engine.restore(saved)
                assert len(engine._loaded.draft.tokens) > 20
                assert engine._costs.rows()["draft"]
            else:
                ask(engine, "abcabcab" * 4, speculate="draft", draft_length=3)
                engine.save(saved)
        finally:
            engine.close()
        known.append(sorted(file.name for file in (tmp_path / "costs").iterdir()))
        known.append(sorted((tmp_path / "rollback.json").read_text().split()))
    assert known[:2] == known[2:]


def test_another_version_of_the_file_gets_a_copy_of_its_own(config: EngineConfig, tmp_path: Path) -> None:
    draft = tmp_path / "own.gguf"
    shutil.copy(config.draft or "", draft)
    first = chosen(EngineConfig(config.target, str(draft), cache_dir=config.cache_dir), Trial(says=True))
    with draft.open("ab") as file:
        file.write(b"\0")
    assert chosen(EngineConfig(config.target, str(draft), cache_dir=config.cache_dir), Trial(says=True)) != first


def test_only_the_latest_copies_are_kept(config: EngineConfig, tmp_path: Path) -> None:
    for number in range(fast_draft.KEPT + 2):
        draft = tmp_path / f"draft{number}.gguf"
        shutil.copy(config.draft or "", draft)
        latest = chosen(EngineConfig(config.target, str(draft), cache_dir=config.cache_dir), Trial(says=True))
    left = list((tmp_path / "drafts").iterdir())
    assert len(left) == fast_draft.KEPT
    assert Path(latest) in left


def test_an_engine_drafts_with_the_copy_and_says_the_same(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_draft, "by_the_clock", Trial(says=True))
    engine = Engine(config)
    try:
        draft = engine._loaded.draft
        assert draft is not None
        assert Path(draft.model.path).parent.name == "drafts"
        assert engine.info.draft == "draft.gguf", "a person knows it by its own name"
        drafted = ask(engine, speculate="draft", draft_length=3)
        plain = ask(engine)
    finally:
        engine.close()
    assert drafted.ids == plain.ids
    assert drafted.end.stats.judged > 0


def test_the_clock_refuses_a_copy_that_says_something_else(
    config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast: the target is no copy of the draft."""
    monkeypatch.setattr(fast_draft, "FASTER", 0.0)
    monkeypatch.setattr(fast_draft, "SAMPLE", "abcabdabcaacbadbcabdcbabcbadcbab")
    assert config.draft is not None
    assert fast_draft.by_the_clock(config.draft, config.draft, 1, AbortFlag())
    assert not fast_draft.by_the_clock(config.draft, config.target, 1, AbortFlag())


def test_a_draft_with_an_encoder_is_tried_beside_a_text(
    tiny_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its decoder alone ends the process."""
    monkeypatch.setattr(fast_draft, "FASTER", 0.0)
    monkeypatch.setattr(fast_draft, "SAMPLE", "abcabdabcaacbadbcabdcbabcbadcbab")
    draft, other = str(tiny_files["t5-draft"]), str(tiny_files["t5-padded"])
    assert fast_draft.by_the_clock(draft, draft, 1, AbortFlag())
    assert not fast_draft.by_the_clock(draft, other, 1, AbortFlag())
