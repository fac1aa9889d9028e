"""Memory by formula, held against what llama.cpp itself reports: numbers noted from real models, and tiny ones now."""

import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.models.gguf import Header, parse_header, read_header
from localspec.models.hardware import Kernels
from localspec.models.memory import BATCH, ROLLBACK, compute_bytes, estimate, kv_bytes, shape_from_facts, shape_of
from tests import tiny, tiny_t5
from tests.models import ggufs
from tests.models.ggufs import Row, facts, pack

MIB = 1 << 20


def header(arch: str, rows: list[Row], **changes: object) -> Header:
    """A header whose tensors exist on paper only."""
    data = pack(facts(arch, tokens=["a", "b"], **changes), rows, data=b"")
    return parse_header(io.BytesIO(data), len(data), Path("paper.gguf"))


def of_size(arch: str, layers: int, heads: int, kv_heads: int, width: int, ff: int, **more: object) -> Header:
    return header(
        arch, [], block_count=layers, head_count=heads, head_count_kv=kv_heads, embedding_length=width,
        feed_forward_length=ff, **more,
    )  # fmt: skip


SMOLLM = of_size("llama", 30, 9, 3, 576, 1536)
QWEN_05 = of_size("qwen2", 24, 14, 2, 896, 4864)
QWEN_15 = of_size("qwen2", 28, 12, 2, 1536, 8960)
GEMMA = of_size(
    "gemma3", 18, 4, 1, 640, 2048,
    gemma3__attention__key_length=256, gemma3__attention__value_length=256, gemma3__attention__sliding_window=512,
)  # fmt: skip


def graph(model: Header, context: int, flash_attn: bool) -> float:
    """MiB of the compute buffer alone: the sum without the scratch memory beside it (logits of two tokens are none)."""
    shape = shape_of(model)
    scores = 0 if flash_attn else BATCH * 2 * shape.heads * context
    return (
        compute_bytes(shape, context, flash_attn) - max(scores, int(BATCH * shape.feed_forward * 1.0625))
    ) / MIB  # fmt: skip


@pytest.mark.parametrize(
    ("model", "context", "off", "on", "kv"),
    [
        (SMOLLM, 512, 16.38, 14.01, 11.25),
        (SMOLLM, 4096, 86.38, 17.51, 90.0),
        (SMOLLM, 16384, 326.38, 29.51, 360.0),
        (QWEN_05, 512, 35.26, 36.01, 6.0),
        (QWEN_05, 4096, 129.26, 39.51, 48.0),
        (QWEN_05, 16384, 489.26, 51.51, 192.0),
        (QWEN_15, 512, 63.51, 65.01, 14.0),
        (QWEN_15, 1024, 64.51, 65.51, 28.0),
        (QWEN_15, 8192, 224.01, 72.51, 224.0),
        (GEMMA, 4096, 57.76, None, 72.0),
        (GEMMA, 16384, 201.76, None, 288.0),
    ],
)
def test_what_llama_cpp_reported_for_real_models(
    model: Header, context: int, off: float, on: float | None, kv: float
) -> None:
    """Compute buffer (MiB, batch 512, flash attention off and on) and KV cache (f16, swa_full) of four real models."""
    assert graph(model, context, False) == pytest.approx(off, rel=0.03)
    if on is not None:
        assert graph(model, context, True) == pytest.approx(on, rel=0.03)
    assert kv_bytes(shape_of(model), context, "f16") / MIB == pytest.approx(kv, abs=0.01)


REPORT = r"""
import ctypes, sys
import llama_cpp as L
lines = []
@L.llama_log_callback
def log(level, text, data):
    lines.append(text.decode("utf-8", "replace"))
L.llama_log_set(log, ctypes.c_void_p(0))
L.llama_backend_init()
params = L.llama_model_default_params()
params.load_mtp = bool(int(sys.argv[5]))
model = L.llama_model_load_from_file(sys.argv[1].encode(), params)
context = L.llama_context_default_params()
context.n_ctx, context.n_batch, context.n_ubatch, context.n_threads = int(sys.argv[2]), 512, 512, 1
context.ctx_type = int(sys.argv[5])
context.flash_attn_type, context.swa_full, context.n_rs_seq = 0, bool(int(sys.argv[3])), int(sys.argv[4])
made = L.llama_init_from_model(model, context)
assert made
print("".join(lines))
"""


def reported(path: Path, context: int, swa_full: bool = True, states: int = 0, mtp: bool = False) -> float:
    """MiB of KV cache and recurrent state as llama.cpp reports them for a file, or of its MTP heads."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(path), str(context), str(int(swa_full)), str(states), str(int(mtp))],
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_WAIT_POLICY": "passive", "GGML_NO_BACKTRACE": "1", "PATH": ""},
    )
    sizes = re.findall(r"(?:KV|RS) buffer size\s*=\s*([\d.]+) MiB", done.stdout)
    assert sizes, done.stdout
    return sum(map(float, sizes))


@pytest.mark.parametrize("context", [512, 2048, 5000])
def test_the_cache_of_a_plain_model(tmp_path: Path, context: int) -> None:
    path = tiny.write_llama(tmp_path / "m.gguf", layers=3, width=256)
    own = estimate(read_header(path), context)
    assert own.kv / MIB == pytest.approx(reported(path, context), abs=0.02)


@pytest.mark.parametrize("swa_full", [True, False])
def test_the_cache_of_a_sliding_window_model(tmp_path: Path, swa_full: bool) -> None:
    path = tiny.write_sliding(tmp_path / "m.gguf", layers=4, width=256)
    own = estimate(read_header(path), 8192, swa_full=swa_full)
    assert own.kv / MIB == pytest.approx(reported(path, 8192, swa_full), abs=0.02)


def test_the_cache_and_states_of_a_hybrid(tmp_path: Path) -> None:
    path = tiny.write_hybrid(tmp_path / "m.gguf", width=128)
    own = estimate(read_header(path), 2048)
    assert own.kv / MIB == pytest.approx(reported(path, 2048, states=ROLLBACK), abs=0.02)


def test_the_cache_of_an_encoder_decoder_model(tmp_path: Path) -> None:
    """The decoder's; both sides' weights count for their layer."""
    path = tiny_t5.write_t5(tmp_path / "m.gguf", layers=3, width=128)
    model = read_header(path)
    assert estimate(model, 1024).kv / MIB == pytest.approx(reported(path, 1024), abs=0.02)
    sides = [tensor.size for tensor in model.tensors if ".blk.1." in tensor.name]
    assert shape_of(model).layer_bytes[1] == sum(sides)


@pytest.mark.parametrize(
    ("context", "graph", "rows"), [(256, 32.38, 31.4), (1024, 131.5, 125.5), (2048, 263.01, 251.0)]
)
def test_an_encoder_reads_in_one_pass_and_keeps_a_row_a_token(context: int, graph: float, rows: float) -> None:
    """MiB that llama.cpp reported for two heads, width 512 and 32,128 tokens, and the rows it makes room for."""
    model = of_size("t5", 2, 2, 2, 512, 1024)
    shape = replace(shape_of(model), vocabulary=32_128)
    assert compute_bytes(shape, context) / MIB == pytest.approx(graph + rows, rel=0.05)
    assert compute_bytes(replace(shape, encodes=False), 2048) / MIB < 40


def test_which_layers_have_a_cache() -> None:
    assert len(shape_of(header("lfm2", [], block_count=4, head_count_kv=[0, 2, 0, 2])).kv) == 2
    assert len(shape_of(header("qwen35", [], block_count=8, qwen35__full_attention_interval=4)).kv) == 2
    assert len(shape_of(header("gemma3n", [], block_count=30)).kv) == 20
    assert len(shape_of(header("glm4moe", [], block_count=5, glm4moe__nextn_predict_layers=1)).kv) == 4
    assert shape_of(header("mamba", [], block_count=4)).kv == ()
    [first, *_] = shape_of(header("deepseek2", [], deepseek2__attention__key_length_mla=192)).kv
    assert first[1] == 0


@pytest.mark.parametrize("name", ["chained", "single"])
def test_the_heads_of_a_model(tmp_path: Path, name: str) -> None:
    """Counted only where they are loaded: weights, their layers' cache as llama.cpp reports it, the hidden rows."""
    path = tmp_path / "m.gguf"
    if name == "chained":
        tiny.write_step(path, width=256)
    else:
        tiny.write_hybrid(path, width=256, heads=1)
    model, context = read_header(path), 2048
    heads = model.mtp_heads
    without, with_heads = estimate(model, context), estimate(model, context, mtp=True)
    bare = tiny.write_step if name == "chained" else tiny.write_hybrid
    assert without == estimate(read_header(bare(tmp_path / "bare.gguf", width=256, heads=0)), context)
    assert without.mtp == 0
    assert without.kv / MIB == pytest.approx(reported(path, context, states=ROLLBACK), abs=0.02)
    own = tuple(f"blk.{i}." for i in range(model.block_count - heads, model.block_count))
    weights = sum(tensor.size for tensor in model.tensors if tensor.name.startswith(own))
    cache = reported(path, context, mtp=True)
    rows = 4 * 256 * (context + BATCH) / MIB
    left = with_heads.mtp / MIB - weights / MIB - cache - rows
    compute = compute_bytes(replace(shape_of(model), kv=shape_of(model).mtp.kv), context, outputs=1) / MIB
    assert left == pytest.approx(compute, abs=0.02)
    assert with_heads.total == without.total + with_heads.mtp
    assert with_heads.anonymous - without.anonymous == pytest.approx(with_heads.mtp - weights, abs=MIB / 50)


def test_heads_that_are_not_used_unasked_take_nothing(tmp_path: Path) -> None:
    two = read_header(tiny.write_hybrid(tmp_path / "two.gguf", heads=2))
    assert (two.mtp_layers, two.mtp_heads) == (2, 0)
    assert estimate(two, 2048, mtp=True) == estimate(two, 2048)
    named = header("glm4moe", [], block_count=5, glm4moe__nextn_predict_layers=1)
    assert (named.mtp_layers, named.mtp_heads) == (1, 0), "the file names a head and has no tensors of it"
    held = header("glm4moe", [Row("blk.4.nextn.eh_proj.weight")], block_count=5, glm4moe__nextn_predict_layers=1)
    assert held.mtp_heads == 1
    assert estimate(held, 2048, mtp=True).mtp == 0, "not tried here, so only a person loads it"


def test_the_state_of_a_recurrent_model() -> None:
    """Mamba: (conv - 1) x inner + state x inner numbers a layer, one copy, whatever the context."""
    sizes = {"conv_kernel": 4, "inner_size": 64, "state_size": 16}
    shape = shape_of(header("mamba", [], **{f"mamba__ssm__{key}": value for key, value in sizes.items()}))
    assert shape.state_bytes == 2 * (3 * 64 + 16 * 64) * 4
    assert kv_bytes(shape, 512, "f16") == kv_bytes(shape, 65536, "f16") == shape.state_bytes


def test_a_smaller_cache_type_takes_less() -> None:
    sizes = [kv_bytes(shape_of(QWEN_15), 4096, kind) for kind in ("f32", "f16", "q8_0", "q5_1", "q4_0")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] / sizes[1] == pytest.approx(34 / 64)


@pytest.mark.parametrize(
    ("kernels", "copied"),
    [("none", 0), ("avx2", 1), ("avx512", 2), ("neon", 3), ("amx", 4)],
)
def test_weights_copied_at_load_by_processor(kernels: Kernels, copied: int) -> None:
    """Matrices of the kernels' types are copied; norms, the embedding table and odd shapes are not."""
    sizes = {"Q4_K": 144 * 8, "Q2_K": 84 * 8, "Q8_0": 34 * 8 * 8, "F32": 4 * 256 * 8}
    rows = [Row(f"blk.0.{kind}.weight", (256, 8), kind) for kind in sizes]
    rows += [Row("token_embd.weight", (256, 8), "Q4_K"), Row("output.weight", (256, 8), "F32")]
    rows += [Row("blk.0.norm.weight", (256,), "Q4_K"), Row("blk.0.odd.weight", (256, 7), "Q4_K")]
    expected = {
        0: 0,
        1: sizes["Q4_K"],
        2: sizes["Q4_K"] + sizes["Q2_K"],
        3: sizes["Q4_K"] + sizes["Q8_0"],
        4: sizes["Q4_K"] + sizes["Q2_K"] + sizes["Q8_0"],
    }[copied]
    shape = shape_of(header("llama", rows), kernels)
    assert shape.repacked == expected
    assert shape.weights == sum(t.size for t in header("llama", rows).tensors)


def test_a_table_that_is_also_the_output_is_kept_twice_when_it_is_copied() -> None:
    rows = [Row("token_embd.weight", (256, 8), "Q4_K"), Row("blk.0.attn_q.weight", (256, 8), "Q4_K")]
    plain, copied = shape_of(header("llama", rows)), shape_of(header("llama", rows), "avx2")
    assert plain.output_bytes == 144 * 8
    assert copied.weights - plain.weights == 144 * 8
    assert copied.repacked == 2 * 144 * 8


def test_a_partly_filled_context_has_touched_less() -> None:
    full, some = estimate(SMOLLM, 4096), estimate(SMOLLM, 4096, filled=600)
    assert some.kv == full.kv
    assert some.compute < full.compute / 3
    assert estimate(SMOLLM, 4096, filled=9999) == full


@pytest.mark.parametrize("filled", [0, 1, 300, 512, 513])
def test_short_prompts_need_narrow_passes(filled: int) -> None:
    assert 0 < estimate(SMOLLM, 4096, filled=filled).compute <= estimate(SMOLLM, 4096, filled=1024).compute


def test_a_model_known_from_the_menu_is_guessed_near_its_header() -> None:
    """With layers, heads and vocabulary the guess is near; with the size alone it is on the side of too much."""
    size = 1_117_320_768
    known = shape_from_facts(size, layers=28, kv_heads=2, head_size=128, vocabulary=151_936)
    alone = shape_from_facts(size)
    assert (known.rough, alone.rough) == (False, True)
    assert kv_bytes(known, 4096, "f16") == kv_bytes(shape_of(QWEN_15), 4096, "f16")
    real = size + kv_bytes(shape_of(QWEN_15), 4096, "f16") + compute_bytes(shape_of(QWEN_15), 4096)
    for guess in (known, alone):
        own = estimate(guess, 4096)
        assert 0.95 * real < own.weights + own.kv + own.compute < 1.5 * real


def test_odd_headers_do_not_break_the_sum() -> None:
    """A header without the usual keys gives a sum, not an exception: scans show what they find."""
    empty = ggufs.pack({"general.architecture": "unheard-of"}, [Row("blk.99999999999.w"), Row("blk.x.w"), Row("blk.")])
    shape = shape_of(parse_header(io.BytesIO(empty), len(empty), Path("m.gguf")))
    assert estimate(shape, 4096).total >= 3 * 32 * 4 * 4
