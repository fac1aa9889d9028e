"""Fits, tight, no: against main memory and GPUs, with the largest context and the layers for the GPU, draft first."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.models import hardware
from localspec.models.fit import SYSTEM, fit, gigabytes, headroom
from localspec.models.hardware import Gpu, Machine, container_memory, read_gpus, read_kernels, read_machine
from localspec.models.memory import PROCESS, Shape, estimate, shape_from_facts

GIB = 1 << 30
TARGET = shape_from_facts(
    1_117_320_768, layers=28, kv_heads=2, head_size=128, vocabulary=151_936, context_length=32_768
)
DRAFT = shape_from_facts(491_400_064, layers=24, kv_heads=2, head_size=64, vocabulary=151_936, context_length=32_768)


def machine(free: float, total: float = 64, *gpus: Gpu) -> Machine:
    return Machine(int(total * GIB), int(free * GIB), gpus)


def gpu(free: float, *, shared: bool = False) -> Gpu:
    return Gpu("CUDA0", "a card", int(free * GIB), int(free * GIB), shared)


def test_the_sum_is_weights_caches_buffers_of_both_and_the_process() -> None:
    found = fit(TARGET, DRAFT, 4096, "f16", machine(32))
    assert found.draft is not None
    assert found.needed == found.target.total + found.draft.total + PROCESS
    assert found.target == estimate(TARGET, 4096)
    assert fit(TARGET, None, 4096, "f16", machine(32)).needed == found.target.total + PROCESS


def test_the_verdict_by_free_and_total_memory() -> None:
    needed = fit(TARGET, DRAFT, 4096, "f16", machine(64)).needed

    def verdict(free: int, total: int) -> str:
        return fit(TARGET, DRAFT, 4096, "f16", Machine(total, free)).verdict

    room = headroom(Machine(8 * GIB, 0))
    assert verdict(needed + room, 8 * GIB) == "fits"
    assert verdict(needed + room - 1, 8 * GIB) == "tight"
    assert verdict(needed // 2, needed + SYSTEM) == "tight"
    assert verdict(needed // 2, needed + SYSTEM - 1) == "no"
    assert verdict(needed, needed) == "tight"


def test_the_sentence_has_the_numbers() -> None:
    found = fit(TARGET, None, 4096, "f16", machine(7, 8))
    assert found.sentence == f"needs {gigabytes(found.needed)}; 7.5 GB of 8.6 GB are free"
    rough = fit(shape_from_facts(1 << 30), None, 4096, "f16", machine(7, 8))
    assert rough.rough
    assert rough.sentence.startswith("needs about ")
    assert " of GPU memory" in fit(TARGET, None, 4096, "f16", machine(7, 8, gpu(4))).sentence


@given(st.floats(0.5, 12), st.integers(0, 3), st.sampled_from(["f16", "q8_0"]))
@settings(max_examples=150, deadline=None)
def test_the_largest_context_fits_and_the_next_does_not(free: float, cards: int, kv_type: str) -> None:
    here = machine(free, 16, *(gpu(0.4 * (i + 1)) for i in range(cards)))
    largest = fit(TARGET, DRAFT, 4096, kv_type, here).largest_context
    assert largest % 256 == 0
    assert 0 <= largest <= 32_768
    if largest:
        assert fit(TARGET, DRAFT, largest, kv_type, here).verdict == "fits"
    if largest < 32_768:
        assert fit(TARGET, DRAFT, largest + 256, kv_type, here).verdict != "fits"


def test_the_largest_context_ends_where_training_did() -> None:
    short = dataclasses.replace(DRAFT, context_length=5000)
    assert fit(TARGET, short, 4096, "f16", machine(60)).largest_context == 5000
    unknown = dataclasses.replace(TARGET, context_length=0)
    assert fit(unknown, None, 4096, "f16", machine(60)).largest_context == 131_072


def layers(free: float) -> tuple[int, int]:
    found = fit(TARGET, DRAFT, 4096, "f16", machine(32, 64, gpu(free)))
    return found.gpu_layers, found.draft_gpu_layers


def test_the_draft_goes_to_the_gpu_first() -> None:
    """Layers count the output matrix as one more, as llama.cpp does; the target gets what the draft leaves."""
    assert layers(0) == (0, 0)
    assert layers(0.4) == (0, 0)
    some = layers(0.9)
    assert some[0] == 0
    assert 0 < some[1] < 25
    half = layers(2)
    assert half[1] == 25
    assert 0 < half[0] < 29
    assert layers(8) == (29, 25)
    by_size = [layers(size / 10) for size in range(40)]
    assert by_size == sorted(by_size, key=lambda pair: (pair[1], pair[0]))


def test_what_is_on_the_gpu_needs_no_main_memory() -> None:
    without = fit(TARGET, DRAFT, 4096, "f16", machine(32))
    with_card = fit(TARGET, DRAFT, 4096, "f16", machine(32, 64, gpu(8)))
    assert with_card.needed + with_card.gpu_needed == without.needed
    assert with_card.gpu_needed < 8 * GIB
    two = fit(TARGET, DRAFT, 4096, "f16", machine(32, 64, gpu(1.2), gpu(1.2)))
    assert two.gpu_layers > layers(1.2)[0]


def test_shared_gpu_memory_is_main_memory() -> None:
    shared = fit(TARGET, DRAFT, 4096, "f16", machine(32, 64, gpu(8, shared=True)))
    assert (shared.gpu_layers, shared.draft_gpu_layers) == (29, 25)
    assert shared.needed == fit(TARGET, DRAFT, 4096, "f16", machine(32)).needed
    both = fit(TARGET, DRAFT, 4096, "f16", machine(32, 64, gpu(30, shared=True), gpu(0.1)))
    assert (both.gpu_layers, both.draft_gpu_layers) == (0, 0)


def test_a_model_without_layers_is_summed_too() -> None:
    odd = dataclasses.replace(TARGET, layer_bytes=(), kv=())
    assert isinstance(odd, Shape)
    assert fit(odd, None, 4096, "f16", machine(4, 8, gpu(4))).gpu_layers == 1


# -- what the machine has ---------------------------------------------------------------------------------------------


def test_this_machine() -> None:
    here = read_machine()
    assert 0 < here.ram_free <= here.ram_total
    assert here.gpus == ()


def test_gpus_from_the_engines_record(tmp_path: Path) -> None:
    assert read_gpus(tmp_path) == ()
    good = {"name": "CUDA0", "description": "RTX\x1b[2J", "free": 5, "total": 8, "kind": "gpu"}
    entries = [
        good,
        {**good, "name": "MTL0"},
        {**good, "kind": "igpu"},
        {**good, "kind": "cpu"},
        {**good, "free": -1},
        {**good, "free": 9},
        {**good, "total": "8"},
        {},
        3,
        None,
    ]
    (tmp_path / hardware.RECORD).write_text(json.dumps(entries))
    found = read_gpus(tmp_path)
    assert [(one.name, one.shared) for one in found] == [("CUDA0", False), ("MTL0", True), ("CUDA0", True)]
    assert found[0].description == "RTX\\x1b[2J"
    assert read_machine(tmp_path).gpus == found
    for damage in ("", "{", "{}", "3", '"text"'):
        (tmp_path / hardware.RECORD).write_text(damage)
        assert read_gpus(tmp_path) == ()
    (tmp_path / hardware.RECORD).write_bytes(b"\xff")
    assert read_gpus(tmp_path) == ()


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_containers_limit_of_version_2(tmp_path: Path) -> None:
    """The tightest group counts, from the process's own up to the root; inactive file pages can be had back."""
    root, proc = tmp_path / "cgroup", tmp_path / "self"
    proc.write_text("0::/outer/inner\n")
    assert container_memory(root, proc) is None
    write(root / "outer/inner", memory__max="max\n", memory__current="400\n", memory__stat="inactive_file 0\n")
    assert container_memory(root, proc) is None
    write(root / "outer", memory__max="1000\n", memory__current="700\n", memory__stat="anon 5\ninactive_file 300\n")
    assert container_memory(root, proc) == (1000, 600)
    write(root / "outer/inner", memory__max="900\n")
    assert container_memory(root, proc) == (900, 500)


def test_a_containers_limit_seen_from_inside_and_of_version_1(tmp_path: Path) -> None:
    root, proc = tmp_path / "cgroup", tmp_path / "self"
    proc.write_text("0::/\n")
    write(root, memory__max="1000", memory__current="100", memory__stat="")
    assert container_memory(root, proc) == (1000, 900)
    proc.write_text("5:cpu:/x\n4:memory:/box\nnonsense\n")
    v1 = {"memory__usage_in_bytes": "500", "memory__stat": "total_inactive_file 100"}
    write(root / "memory/box", memory__limit_in_bytes="2000", **v1)
    assert container_memory(root, proc) == (2000, 1600)
    write(root / "memory/box", memory__limit_in_bytes="9223372036854771712")
    assert container_memory(root, proc) is None
    assert container_memory(root, tmp_path / "missing") is None


def test_a_containers_limit_bounds_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "container_memory", lambda: (1 << 20, 1 << 19))
    monkeypatch.setattr(hardware.sys, "platform", "linux")
    here = read_machine()
    assert (here.ram_total, here.ram_free) == (1 << 20, 1 << 19)


@pytest.mark.parametrize(
    ("architecture", "flags", "kernels"),
    [
        ("x86_64", "sse avx avx2", "avx2"),
        ("AMD64", "sse avx avx2 avx512f avx512_vnni", "avx512"),
        ("x86_64", "avx2 avx512f avx512_vnni amx_tile amx_int8", "amx"),
        ("x86_64", "sse", "none"),
        ("x86_64", None, "avx2"),
        ("arm64", None, "neon"),
        ("aarch64", "", "neon"),
        ("riscv64", "", "none"),
    ],
)
def test_kernels_by_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, flags: str | None, kernels: str
) -> None:
    monkeypatch.setattr(hardware.platform, "machine", lambda: architecture)
    info = tmp_path / "cpuinfo"
    if flags is not None:
        info.write_text(f"processor : 0\nflags\t\t: {flags}\n\nprocessor : 1\n")
    assert read_kernels(info) == kernels
