"""What other programs have on the disk: their layouts built from links to real small files."""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from localspec.models import scan_places
from localspec.models.scan import Scan, scan
from localspec.models.scan_places import System, jan_places, llama_cpp_places, lm_studio_places
from tests.models import ggufs
from tests.models.ggufs import VOCABULARY, facts, model, pack

OTHER = [*VOCABULARY[:9], "something else", *VOCABULARY[10:]]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Real files outside every place: a target and a draft that belong together, a stranger, and what is left out."""
    folder = tmp_path / "real"
    made = {
        "target": model(folder / "target.gguf", width=512),
        "draft": model(folder / "draft.gguf", width=128),
        "stranger": model(folder / "stranger.gguf", width=128, tokens=OTHER),
        "mmproj": model(folder / "mmproj.gguf", "clip", general__type="mmproj"),
        "adapter": model(folder / "adapter.gguf", general__type="adapter"),
        "cut": folder / "cut.gguf",
    }
    made["cut"].write_bytes(made["draft"].read_bytes()[:2000])
    return made


def link(place: Path, file: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(file)
    return place


def system(tmp_path: Path, platform: str = "linux", **environ: str) -> System:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return System(home, environ, platform)


def names(found: Scan) -> list[tuple[str, str]]:
    return [(one.program, one.name) for one in found.files]


def state(folder: Path) -> dict[str, object]:
    """Everything below a folder, so that a change would show."""
    return {
        str(path): (path.readlink() if path.is_symlink() else path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in sorted(folder.rglob("*"))
    }


def hub(root: Path, repository: str, name: str, file: Path) -> Path:
    """A file as huggingface_hub keeps it: the snapshot's name is a link to a blob."""
    base = root / f"models--{repository.replace('/', '--')}"
    blob = base / "blobs" / hashlib.sha256(name.encode()).hexdigest()
    link(blob, file)
    place = base / "snapshots" / ("a" * 40) / name
    return link(place, Path(os.path.relpath(blob, place.parent)))


def ollama(root: Path, model_path: str, file: Path, *, older: bool = False, **extra: object) -> Path:
    digest = "sha256:" + hashlib.sha256(model_path.encode()).hexdigest()
    link(root / "blobs" / (digest if older else digest.replace(":", "-")), file)
    manifest = root / "manifests" / model_path
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": 1},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers, **extra}))
    return manifest


def test_the_five_programs_and_a_folder(tmp_path: Path, files: dict[str, Path]) -> None:
    """Each layout is found under the name its program shows, pairs are proposed, and nothing is touched."""
    here = system(tmp_path)
    home = here.home
    hub(home / ".cache/huggingface/hub", "Qwen/Big-GGUF", "big-q4_k_m.gguf", files["target"])
    link(home / ".lmstudio/models/publisher/Small-GGUF/small.gguf", files["draft"])
    ollama(home / ".ollama/models", "registry.ollama.ai/library/odd/1b", files["stranger"])
    link(home / ".local/share/Jan/data/llamacpp/models/owner/thing/model.gguf", model(tmp_path / "real/jan.gguf"))
    link(home / ".cache/llama.cpp/owner_repo_file.gguf", model(tmp_path / "real/cpp.gguf"))
    link(tmp_path / "mine/deep/own.gguf", model(tmp_path / "real/own.gguf"))
    before = state(tmp_path)

    found = scan([tmp_path / "mine"], system=here, cache_dir=tmp_path / "cache")

    assert names(found) == [
        ("Hugging Face cache", "Qwen/Big-GGUF/big-q4_k_m.gguf"),
        ("Jan", "owner/thing"),
        ("LM Studio", "publisher/Small-GGUF/small.gguf"),
        ("Ollama", "odd:1b"),
        ("folder", "deep/own.gguf"),
        ("llama.cpp", "owner_repo_file.gguf"),
    ]
    assert found.broken == ()
    assert all(one.size == one.path.stat().st_size for one in found.files)
    big = next(pair for pair in found.pairs if pair.draft.program == "LM Studio")
    assert big.target.name == "Qwen/Big-GGUF/big-q4_k_m.gguf"
    assert big.verdict.compatible
    assert 0 < big.share < 0.6
    assert "odd:1b" not in {pair.draft.name for pair in found.pairs}
    assert {path: was for path, was in state(tmp_path).items() if path in before} == before


def test_the_same_file_twice_is_one(tmp_path: Path, files: dict[str, Path]) -> None:
    """Links from two programs, two revisions of one repository, a hard link and a linked folder lead to one file."""
    here = system(tmp_path)
    hub(here.home / ".cache/huggingface/hub", "A/B", "m.gguf", files["draft"])
    link(here.home / ".lmstudio/models/a/b/m.gguf", files["draft"])
    (tmp_path / "mine").mkdir()
    os.link(files["draft"], tmp_path / "mine/hard.gguf")
    link(tmp_path / "mine/again", tmp_path / "mine")
    [one] = scan([tmp_path / "mine"], system=here).files
    assert one.program == "Hugging Face cache"
    assert one.also == ("LM Studio", "folder")


def test_broken_files_are_reported_and_stop_nothing(tmp_path: Path, files: dict[str, Path]) -> None:
    """D4: a cut file, a web page, a dangling link, a manifest that is no JSON, a blob that is gone."""
    here = system(tmp_path)
    studio = here.home / ".lmstudio/models/p/r"
    link(studio / "good.gguf", files["draft"])
    link(studio / "cut.gguf", files["cut"])
    link(studio / "gone.gguf", tmp_path / "nowhere")
    (studio / "page.gguf").write_text("<html>")
    manifest = ollama(here.home / ".ollama/models", "registry.ollama.ai/library/lost/latest", tmp_path / "nowhere")
    manifest.with_name("bad").write_text("{")
    manifest.with_name("list").write_text("[1]")
    manifest.with_name("evil").write_text(
        json.dumps({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]})
    )
    found = scan([tmp_path / "no-such-folder"], system=here)
    assert names(found) == [("LM Studio", "p/r/good.gguf")]
    reasons = {Path(one.path).name: one.reason for one in found.broken}
    assert "damaged" in reasons["cut.gguf"]
    assert "does not exist" in reasons["gone.gguf"]
    assert "web page" in reasons["page.gguf"]
    assert "pull the model again" in reasons["bad"]
    assert "pull the model again" in reasons["list"]
    assert "not understood" in reasons["evil"]
    assert "is not a folder" in reasons["no-such-folder"]
    assert len(found.broken) == 8  # and the lost blob
    assert all(one.reason.isprintable() for one in found.broken)


def test_projectors_adapters_and_embeddings_are_left_out(tmp_path: Path, files: dict[str, Path]) -> None:
    here = system(tmp_path)
    studio = here.home / ".lmstudio/models/p/r"
    for name in ("mmproj", "adapter", "draft"):
        link(studio / f"{name}.gguf", files[name])
    link(studio / "embed.gguf", model(tmp_path / "real/embed.gguf", "bert"))
    found = scan(system=here)
    assert names(found) == [("LM Studio", "p/r/draft.gguf")]
    assert (found.left_out, found.broken) == (3, ())


def parts(folder: Path, count: int = 3) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        own = {"split.no": number, "split.count": count}
        path = folder / f"big-{number + 1:05d}-of-{count:05d}.gguf"
        path.write_bytes(pack({**facts(), **own} if not number else own, [ggufs.Row(f"blk.{number}.w", (32, 1000))]))
        paths.append(path)
    return paths


def test_a_split_model_is_one_by_its_first_part(tmp_path: Path) -> None:
    here = system(tmp_path)
    paths = parts(here.home / ".lmstudio/models/p/r")
    [one] = scan(system=here).files
    assert one.path == paths[0]
    assert one.size == sum(path.stat().st_size for path in paths)
    paths[2].unlink()
    missing = scan(system=here)
    assert missing.files == ()
    assert "part 3 of 3" in missing.broken[0].reason
    paths[0].unlink()
    [orphan] = scan(system=here).broken
    assert orphan.path == paths[1]
    assert "the first part, big-00001-of-00003.gguf, is not beside it" in orphan.reason


def test_ollama_names_older_blobs_and_another_folder(tmp_path: Path, files: dict[str, Path]) -> None:
    root = tmp_path / "elsewhere"
    ollama(root, "registry.ollama.ai/library/qwen/0.5b", files["draft"], older=sys.platform != "win32")
    ollama(root, "registry.ollama.ai/someone/tuned/latest", files["stranger"])
    ollama(root, "hf.co/owner/repo/Q4_K_M", files["target"])
    found = scan(system=system(tmp_path, OLLAMA_MODELS=str(root)))
    assert {name for _, name in names(found)} == {"qwen:0.5b", "someone/tuned:latest", "hf.co/owner/repo:Q4_K_M"}
    assert {one.path.parent for one in found.files} == {root / "blobs"}


def test_the_hubs_variables(tmp_path: Path, files: dict[str, Path]) -> None:
    hub(tmp_path / "x/hub", "A/B", "sub/m.gguf", files["draft"])
    for environ in ({"HF_HUB_CACHE": str(tmp_path / "x/hub")}, {"HF_HOME": str(tmp_path / "x")}):
        assert names(scan(system=system(tmp_path, **environ))) == [("Hugging Face cache", "A/B/sub/m.gguf")]
    assert names(scan(system=system(tmp_path))) == []


def test_jans_older_folders_and_imported_files(tmp_path: Path, files: dict[str, Path]) -> None:
    here = system(tmp_path)
    data = here.home / ".local/share/Jan/data"
    link(here.home / "jan/models/old/weights.gguf", files["stranger"])
    link(data / "llamacpp/models/inside/model.gguf", files["draft"])
    (data / "llamacpp/models/inside/model.yml").write_text("model_path: llamacpp/models/inside/model.gguf\nsize: 1\n")
    (data / "llamacpp/models/imported").mkdir()
    (data / "llamacpp/models/imported/model.yml").write_text(f'name: x\nmodel_path: "{files["target"]}"\n')
    assert {name for _, name in names(scan(system=here))} == {"inside", "imported", "old/weights.gguf"}


def test_lm_studios_pointer_and_downloads_folder(tmp_path: Path, files: dict[str, Path]) -> None:
    here = system(tmp_path)
    (here.home / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'studio'}\n")
    (tmp_path / "studio").mkdir()
    (tmp_path / "studio/settings.json").write_text(json.dumps({"downloadsFolder": str(tmp_path / "big disk")}))
    link(tmp_path / "big disk/p/r/m.gguf", files["draft"])
    link(here.home / ".cache/lm-studio/models/old/r/o.gguf", files["stranger"])
    assert {name for _, name in names(scan(system=here))} == {"p/r/m.gguf", "old/r/o.gguf"}
    (tmp_path / "studio/settings.json").write_text("{" * 100_000)
    assert tmp_path / "studio/models" in lm_studio_places(here)


@pytest.mark.parametrize(
    ("platform", "environ", "jan", "llama"),
    [
        ("linux", {}, ".local/share/Jan/data", ".cache/llama.cpp"),
        ("darwin", {}, "Library/Application Support/Jan/data", "Library/Caches/llama.cpp"),
        ("win32", {}, "AppData/Roaming/Jan/data", "AppData/Local/llama.cpp"),
    ],
)
def test_places_by_platform(tmp_path: Path, platform: str, environ: dict[str, str], jan: str, llama: str) -> None:
    here = system(tmp_path, platform, **environ)
    assert jan_places(here)[0] == here.home / jan
    assert llama_cpp_places(here) == [here.home / llama]
    assert llama_cpp_places(system(tmp_path, platform, LLAMA_CACHE="/somewhere")) == [Path("/somewhere")]


def test_a_folder_without_end_is_left_in_words(
    tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named folder may be a whole disk, or hold a link to itself."""
    monkeypatch.setattr(scan_places, "MAX_FOLDERS", 20)
    link(tmp_path / "disk/a.gguf", files["draft"])
    for number in range(40):
        (tmp_path / f"disk/{number:02d}").mkdir()
        link(tmp_path / f"disk/{number:02d}/up", tmp_path / "disk")
    found = scan([tmp_path / "disk"], system=system(tmp_path))
    assert names(found) == [("folder", "a.gguf")]
    assert "more than 20 folders: name a smaller one" in found.broken[0].reason


def test_many_models_read_each_vocabulary_once(
    tmp_path: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from localspec.models import scan as module

    here, reads = system(tmp_path), []
    real = module.read_header
    monkeypatch.setattr(module, "read_header", lambda path, **how: (reads.append(path), real(path, **how))[1])
    for number in range(6):
        model(here.home / f".lmstudio/models/p/r/m{number}.gguf", width=64 * 2**number)
    model(here.home / ".lmstudio/models/p/r/alone.gguf", "qwen2", model="gpt2", width=512)
    found = scan(system=here)
    assert reads == []
    assert len(found.pairs) == 3 * 3 + 2 + 1
    assert len(reads) == 6
    assert found.pairs[0].target.name == "p/r/m5.gguf"
