"""Headers, pair rules and memory sums on the real files, the sums held against a process that loads them."""

import subprocess
import sys
from pathlib import Path

import pytest

from localspec.models.gguf import read_header
from localspec.models.gguf_split import read_model
from localspec.models.hardware import read_kernels
from localspec.models.memory import PROCESS, estimate
from localspec.models.pairs import check_pair
from tests.real.conftest import Pair

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

CONTEXT = 4096


def test_the_starter_pairs_headers(starter: Pair) -> None:
    header = read_model(starter.target)
    assert (header.architecture, header.quantisation, header.vocab_size) == ("qwen2", "Q4_K_M", 151_936)
    assert (header.block_count, header.context_length, header.head_count_kv[0]) == (28, 32_768, 2)
    assert (header.bos_id, header.eos_id, header.add_bos) == (151_643, 151_645, False)
    assert header.chat_template is not None
    assert header.expected_bytes == header.file_bytes == starter.target.stat().st_size
    tokens = read_header(starter.target, tokens=True)
    assert tokens.fim == {
        "prefix": 151_659, "suffix": 151_661, "middle": 151_660, "pad": 151_662, "repository": 151_663,
        "separator": 151_664,
    }  # fmt: skip
    assert tokens.tokens is not None
    assert tokens.tokens[151_645] == b"<|im_end|>"


def test_the_starter_pair_is_one_and_qwen_with_smollm_is_none(starter: Pair, smollm: Path) -> None:
    """V1 on real files: why, and why not, with the rule and the token."""
    verdict = check_pair(starter.target, starter.draft)
    assert verdict.compatible
    assert verdict.reason.startswith("the vocabularies agree: BPE, 151,936 tokens")
    other = check_pair(starter.target, smollm)
    assert (other.rule, other.token_id) == ("size", 5)
    assert "the target has 151,936 tokens and the draft 49,152" in other.reason
    assert "token 5 is “&” in the target and “<file_sep>” in the draft" in other.reason


LOAD = """
import sys
import llama_cpp as L
L.llama_backend_init()
context, prompt, mapped, files = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "mapped", sys.argv[4:]
kept = []
for file in files:
    params = L.llama_model_default_params()
    params.n_gpu_layers, params.load_mode = 0, L.LLAMA_LOAD_MODE_MMAP if mapped else L.LLAMA_LOAD_MODE_NONE
    model = L.llama_model_load_from_file(file.encode(), params)
    own = L.llama_context_default_params()
    own.n_ctx, own.n_batch, own.n_ubatch, own.n_outputs_max = context, 512, 512, 33
    own.n_threads = own.n_threads_batch = 1
    own.flash_attn_type, own.swa_full = 0, True
    made = L.llama_init_from_model(model, own)
    kept.append((model, made))
    for start in range(0, prompt, 512):
        tokens = [(i * 7919) % 400 for i in range(start, min(start + 512, prompt))]
        array = (L.llama_token * len(tokens))(*tokens)
        assert L.llama_decode(made, L.llama_batch_get_one(array, len(tokens))) == 0
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("RssAnon")))
"""


def anonymous(files: list[Path], context: int, prompt: int, *, mapped: bool = True) -> int:
    """Anonymous memory, bytes, of a process that holds `files` after a prompt of that many tokens each."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(context), str(prompt), "mapped" if mapped else "read", *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
@pytest.mark.parametrize("which", ["pair", "smollm", "smollm, full context"])
def test_the_sum_is_within_15_percent_of_what_a_process_holds(which: str, starter: Pair, smollm: Path) -> None:
    """Weights copied at load, KV caches, compute buffers and vocabularies, against RssAnon."""
    files = list(starter) if which == "pair" else [smollm]
    context, prompt = (2048, 2048) if "full" in which else (CONTEXT, 600)
    sums = [estimate(read_model(file), context, kernels=read_kernels(), filled=prompt) for file in files]
    expected = PROCESS + sum(one.anonymous for one in sums)
    measured = anonymous(files, context, prompt)
    print(f"{which}: {expected / 2**20:.0f} MiB expected, {measured / 2**20:.0f} MiB measured")
    assert expected == pytest.approx(measured, rel=0.15)


@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
def test_the_total_is_within_15_percent_when_nothing_is_mapped(starter: Pair, smollm: Path) -> None:
    """`total` counts the weights that are pages of the file: without mapping they are anonymous too."""
    files = [starter.draft, smollm]
    sums = [estimate(read_model(file), CONTEXT, kernels=read_kernels(), filled=600) for file in files]
    expected = PROCESS + sum(one.total for one in sums)
    measured = anonymous(files, CONTEXT, 600, mapped=False)
    print(f"not mapped: {expected / 2**20:.0f} MiB expected, {measured / 2**20:.0f} MiB measured")
    assert expected == pytest.approx(measured, rel=0.15)
