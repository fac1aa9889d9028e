"""Drafts made of a model's own layers, in the native library: the model without those layers, and nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from localspec.engine.context import Context, ContextOptions
from localspec.engine.engine import Engine
from localspec.engine.llama import Model
from localspec.engine.requests import EngineConfig
from localspec.models import selfdraft
from tests import rewriting, tiny
from tests.engine.answers import PLAIN_SAMPLING, REPETITIVE, ask, check_sums
from tests.engine.engine_law import ACCEPTED_P, FREE, draw, exact_law, p_value

LAYERS = 9
TEXT = tiny.ids("abcdefghijklabcdefgh" * 2)


def logits(path: Path) -> NDArray[np.float32]:
    model = Model(str(path))
    context = Context(model, ContextOptions(128, outputs=len(TEXT), threads=1, flash_attn="on"))
    rows = context.decode(TEXT, len(TEXT)).copy()
    context.close()
    model.close()
    return rows


Make = Callable[[Path, Path], Path]


def plain(root: Path, source: Path) -> Path:
    return rewriting.rewrite(source, root / "target.gguf")


def quantised(root: Path, source: Path) -> Path:
    return rewriting.rewrite(source, root / "target.gguf", edit=rewriting.quantised)


def tied(root: Path, source: Path) -> Path:
    return rewriting.rewrite(source, root / "target.gguf", edit=rewriting.tied)


def uneven(root: Path, source: Path) -> Path:
    change = rewriting.uneven_facts(LAYERS)
    return rewriting.rewrite(source, root / "target.gguf", change=change, edit=rewriting.uneven, architecture="deci")


def split(root: Path, source: Path) -> Path:
    return rewriting.rewrite(source, root / "target.gguf", split=9)


def sliding(root: Path, source: Path) -> Path:
    return tiny.write_sliding(root / "target.gguf", window=8, layers=LAYERS)


@pytest.mark.parametrize("make", [plain, quantised, tied, uneven, split, sliding], ids=lambda make: make.__name__)
def test_it_is_the_model_without_those_layers(tmp_path: Path, make: Make) -> None:
    """To the bit the logits of the file that another writer makes without them, and not those of the whole model."""
    target = make(tmp_path, tiny.write_llama(tmp_path / "source.gguf", layers=LAYERS, seed=5))
    made = selfdraft.make(target, keep=6)
    kept = [i for i in range(LAYERS) if i not in made.left_out]
    assert {i % 2 for i in kept} == {0, 1}, "kinds that alternate are both there, and not in turn"
    whole = target if make is not split else plain(tmp_path, tmp_path / "source.gguf")
    reference = rewriting.rewrite(whole, tmp_path / "reference.gguf", kept)
    ours = logits(made.path)
    assert np.array_equal(ours, logits(reference))
    assert not np.allclose(ours, logits(target), atol=1e-2)


def test_tensors_are_copied_as_they_are(tmp_path: Path) -> None:
    target = quantised(tmp_path, tiny.write_llama(tmp_path / "source.gguf", layers=LAYERS))
    made = selfdraft.make(target, keep=7)
    _, before = rewriting.read(target)
    _, after = rewriting.read(made.path)
    places = {number: place for place, number in enumerate(i for i in range(LAYERS) if i not in made.left_out)}
    expected = {}
    for name, (data, type_) in before.items():
        if not name.startswith("blk."):
            expected[name] = data, type_
        elif (number := int(name.split(".")[1])) in places:
            expected[name.replace(f"blk.{number}.", f"blk.{places[number]}.")] = data, type_
    assert after.keys() == expected.keys()
    for name, (data, type_) in expected.items():
        assert after[name][1] == type_
        assert np.array_equal(after[name][0], data), name


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    target = tiny.write_llama(tmp_path / "target.gguf", layers=LAYERS, seed=5)
    made = selfdraft.make(target, keep=8)
    engine = Engine(EngineConfig(str(target), str(made.path), drafter="self", context=512, threads=1, flash_attn="on"))
    yield engine
    engine.close()


@pytest.mark.parametrize("length", [None, 1, 3, 8])
def test_greedy_text_is_the_targets(engine: Engine, length: int | None) -> None:
    plainly = ask(engine, REPETITIVE, max_tokens=80)
    drafted = ask(engine, REPETITIVE, max_tokens=80, speculate="self", draft_length=length)
    assert drafted.ids == plainly.ids
    assert drafted.end.stats.proposed > 0
    assert {cycle.drafter for cycle in drafted.cycles if cycle.proposed} == {"self"}
    assert drafted.started.draft == "target.gguf.self-draft"
    check_sums(drafted)


@pytest.mark.parametrize("length", [None, 1, 4])
def test_a_seed_gives_the_same_text_with_it_and_without(engine: Engine, length: int | None) -> None:
    for seed in range(8):
        asked = {"sampling": PLAIN_SAMPLING, "seed": seed, "verify": "coupled", "max_tokens": 30}
        drafted = ask(engine, speculate="self", draft_length=length, **asked)
        assert drafted.ids == ask(engine, **asked).ids
        assert drafted.end.stats.accepted > 0


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_engine_keeps_the_targets_law(tmp_path: Path, rule: str) -> None:
    target = tiny.write_llama(tmp_path / "target.gguf", layers=4, seed=11, scale=1.2)
    files = {"target": target, "draft": selfdraft.make(target).path}
    counts, acceptance = draw(files, FREE, "self", samples=3_000, verify=rule)
    assert 0.05 < acceptance < 0.95, "the rule must be seen both ways"
    assert p_value(counts, exact_law(target, FREE)) > ACCEPTED_P
