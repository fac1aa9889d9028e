"""What is said of a file's MTP heads, and which draft without being asked for."""

from pathlib import Path

import pytest

from localspec.models import heads
from localspec.models.fit import fit
from localspec.models.gguf import Header, read_header
from localspec.models.hardware import Machine
from localspec.models.memory import PROCESS, estimate
from tests import tiny
from tests.models.ggufs import Row
from tests.models.test_memory import header


def claims(arch: str, named: int, *held: int) -> Header:
    rows = [Row(f"blk.{block}.nextn.eh_proj.weight") for block in held]
    return header(arch, rows, block_count=8, **{f"{arch}__nextn_predict_layers": named})


@pytest.mark.parametrize(
    ("found", "unasked", "words"),
    [
        (claims("qwen35", 1, 7), True, "carries 1 MTP head: it drafts for itself"),
        (claims("step35", 3, 5, 6, 7), True, "carries 3 MTP heads: it drafts for itself"),
        (claims("qwen35moe", 1, 7), False, "only `--speculate mtp` uses them, for qwen35moe was not tried here"),
        (claims("qwen35", 2, 6, 7), False, "names 2 MTP heads, which llama.cpp cannot run for qwen35"),
        (claims("llama", 1, 7), False, "names 1 MTP head, which llama.cpp cannot run for llama"),
        (claims("step35", 3, 5, 6), False, "names 3 MTP heads and does not hold them all"),
        (claims("step35", 9, 7), False, "names 9 MTP heads and does not hold them all"),
        (claims("llama", 0), False, None),
    ],
)
def test_what_is_said_of_a_file(found: Header, unasked: bool, words: str | None) -> None:
    assert heads.draft_unasked(found) == unasked
    said = heads.describe(found)
    assert said is None if words is None else words in (said or "")


def test_heads_of_a_file(tmp_path: Path) -> None:
    with_heads = tiny.write_step(tmp_path / "step.gguf")
    found = heads.of_file(with_heads)
    assert found is not None
    assert found.mtp_heads == 3
    assert heads.of_file(tiny.write_llama(tmp_path / "llama.gguf")) is None
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(with_heads.read_bytes()[:900])
    assert heads.of_file(broken) is None


def test_heads_count_where_no_draft_model_does(tmp_path: Path) -> None:
    model = read_header(tiny.write_step(tmp_path / "step.gguf"))
    machine = Machine(32 << 30, 32 << 30)
    alone, paired = fit(model, None, 2048, "f16", machine), fit(model, model, 2048, "f16", machine)
    assert alone.target == estimate(model, 2048, mtp=True)
    assert alone.needed == PROCESS + alone.target.total
    assert paired.target == estimate(model, 2048)
    assert paired.target.total < alone.target.total
