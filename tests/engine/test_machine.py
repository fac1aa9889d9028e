"""What `auto` means: threads, context, GPU layers."""

import json
from pathlib import Path

import pytest

from localspec.engine import machine
from localspec.engine.llama import Device, gpus
from localspec.engine.load import _record_devices
from localspec.engine.memo import Memo
from localspec.engine.requests import EngineConfig
from localspec.models.hardware import read_gpus

GB = 1 << 30


def test_threads_are_within_what_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_performance_cores", lambda: 6)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(machine, "_quota", lambda: None)
    assert machine.default_threads() == 4
    monkeypatch.setattr(machine, "_quota", lambda: 2)
    assert machine.default_threads() == 2
    monkeypatch.setattr(machine, "_performance_cores", lambda: 1)
    assert machine.default_threads() == 1


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8\n", [0, 1, 2, 3, 8]), ("5", [5]), ("0,2-3", [0, 2, 3])])
def test_kernel_cpu_lists(text: str, cpus: list[int]) -> None:
    assert machine.parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    ("train", "kv", "free", "context"),
    [
        (32768, 40_000, 16 * GB, 8192),
        (2048, 40_000, 16 * GB, 2048),
        (32768, 200_000, 1 * GB, 2560),
        (32768, 2_000_000, 100 << 20, 512),
        (0, 40_000, 16 * GB, 8192),
        (128, 40_000, 16 * GB, 128),
    ],
)
def test_the_context_is_what_model_and_memory_allow(train: int, kv: int, free: int, context: int) -> None:
    assert machine.choose_context(train, kv, free) == context


def test_the_draft_goes_to_the_gpu_first() -> None:
    reserve = machine.GPU_RESERVE
    draft, target = (1 * GB, 24), (8 * GB, 32)
    assert machine.share_gpu(0, [draft, target]) == [0, 0]
    assert machine.share_gpu(9 * GB + reserve, [draft, target]) == [-1, -1]
    assert machine.share_gpu(5 * GB + reserve, [draft, target]) == [-1, 16]
    assert machine.share_gpu(GB // 2 + reserve, [draft, target]) == [12, 0]


def test_the_menu_reads_the_devices_the_engine_records(tmp_path: Path) -> None:
    """One process asks the native library, the other shows what fits."""
    devices = [Device("CUDA0", "NVIDIA T4", 14 * GB, 16 * GB, "gpu"), Device("Vulkan1", "Iris", GB, 4 * GB, "igpu")]
    _record_devices(EngineConfig("x", cache_dir=str(tmp_path / "cache")), devices)
    read = read_gpus(tmp_path / "cache")
    assert [(g.name, g.free, g.total, g.shared) for g in read] == [
        ("CUDA0", 14 * GB, 16 * GB, False),
        ("Vulkan1", GB, 4 * GB, True),
    ]
    assert all(device.total > 0 for device in gpus())


def test_a_memo_survives_damage_and_other_writers(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "memo.json"
    memo, other = Memo(file), Memo(file)
    memo.put("a", 1)
    other.put("b", [2])
    assert (memo.get("a"), memo.get("b"), memo.get("c")) == (1, [2], None)
    file.write_text("{broken")
    assert memo.get("a") is None
    memo.put("a", 3)
    assert json.loads(file.read_text()) == {"a": 3}
    nowhere = Memo(None)
    nowhere.put("a", 1)
    assert nowhere.get("a") is None


def test_a_memo_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    Memo(tmp_path / "file" / "memo.json").put("a", 1)


def test_a_memo_that_fails_half_way_leaves_nothing_behind(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "memo.json")
    memo.put("a", 1)
    with pytest.raises(TypeError):
        memo.put("b", object())
    assert [file.name for file in tmp_path.iterdir()] == ["memo.json"]
    assert memo.get("a") == 1
