"""MTP heads on the real library: hidden rows, the heads' cache, and which files have heads that can run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from localspec import nextn
from localspec.engine.context import Aborted, Context, ContextOptions
from localspec.engine.errors import DecodeError
from localspec.engine.head import HeadContext, runnable_heads
from localspec.engine.llama import AbortFlag, Model
from tests import tiny

TEXT = tiny.ids("abcabcdefabcghijabklacbd")
OPTIONS = ContextOptions(context=256, batch=64, outputs=17, rollback=8)

Make = Callable[..., tuple[Context, HeadContext]]


@pytest.fixture(scope="module")
def head_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("heads")
    return {
        "chained": tiny.write_step(root / "chained.gguf"),
        "single": tiny.write_hybrid(root / "single.gguf", heads=1),
    }


@pytest.fixture
def make(head_files: dict[str, Path]) -> Iterator[Make]:
    """`make("chained")`: a target that keeps hidden rows, and its heads."""
    made: list[Context] = []

    def contexts(name: str, abort: AbortFlag | None = None) -> tuple[Context, HeadContext]:
        model = Model(str(head_files[name]), heads=True)
        target = Context(model, ContextOptions(context=256, batch=64, outputs=17, rollback=8, hidden=True), abort)
        heads = HeadContext(model, OPTIONS, abort)
        made.extend([heads, target])
        return target, heads

    yield contexts
    for context in made:
        context.close()
    for context in made:
        context.model.close()


def rows_before(target: Context, start: int, end: int) -> np.ndarray:
    assert target.hidden is not None
    shifted = np.vstack([np.zeros((1, target.hidden_width), np.float32), target.hidden[: len(target.tokens)]])
    return shifted[start:end]


BOTH = pytest.mark.parametrize("name", ["chained", "single"])


@BOTH
def test_hidden_rows_follow_the_tokens(make: Make, name: str) -> None:
    """The row of a token is the same whether it came in a wide pass or alone, and after tokens were taken back."""
    target, _ = make(name)
    for token in TEXT:
        target.decode([token])
    assert target.hidden is not None
    alone = target.hidden[: len(TEXT)].copy()
    target.clear()
    target.decode(TEXT[:10], 0)
    target.decode([*TEXT[10:13], 5, 5, 5], 6)
    assert target.truncate(13) == 13
    target.decode(TEXT[13:], 1)
    assert np.allclose(target.hidden[: len(TEXT)], alone, rtol=1e-3, atol=1e-3)
    assert np.ptp(alone, axis=0).min() > 0


@BOTH
def test_asking_for_hidden_rows_changes_no_logit(make: Make, head_files: dict[str, Path], name: str) -> None:
    target, _ = make(name)
    plain = Context(Model(str(head_files[name])), OPTIONS)
    try:
        for tokens, rows in ((TEXT[:16], 1), (TEXT[16:20], 4), (TEXT[20:21], 1)):
            assert np.array_equal(target.decode(tokens, rows), plain.decode(tokens, rows))
    finally:
        plain.close()
        plain.model.close()


@BOTH
def test_how_the_heads_read_does_not_matter(make: Make, name: str) -> None:
    """All at once, token by token, in batches, and again after a cut to nothing or to the middle: the same guess to
    the last bit, by each head."""
    target, heads = make(name)
    target.decode(TEXT, 1)
    n = len(TEXT) - 1

    def guesses() -> list[np.ndarray]:
        found, tokens, rows = [], [TEXT[n]], rows_before(target, n, n + 1)
        for _ in range(heads.heads):
            logits, row = heads.guess(n, tokens, rows)
            found.append(logits.copy())
            tokens, rows = [*tokens, int(logits.argmax())], np.vstack([rows, row])
        return found

    heads.read(TEXT[:n], rows_before(target, 0, n))
    first = guesses()
    assert all(np.isfinite(row).all() and np.ptp(row) > 0 for row in first)
    ways: list[list[tuple[int, int]]] = [
        [(0, n)],
        [(i, i + 1) for i in range(n)],
        [(0, 7), (7, 11), (11, n)],
        [(0, n), (5, n)],
    ]
    for way in ways:
        heads.truncate(0)
        for start, end in way:
            assert heads.truncate(start) == start
            heads.read(TEXT[start:end], rows_before(target, start, end))
        assert heads.tokens == TEXT[:n]
        assert all(map(np.array_equal, guesses(), first))


@BOTH
def test_a_guess_depends_on_the_hidden_row_and_on_what_was_read(make: Make, name: str) -> None:
    target, heads = make(name)
    target.decode(TEXT, 1)
    n = len(TEXT) - 1
    heads.read(TEXT[:n], rows_before(target, 0, n))
    right = heads.guess(n, [TEXT[n]], rows_before(target, n, n + 1))[0].copy()
    assert not np.array_equal(heads.guess(n, [TEXT[n]], rows_before(target, n - 1, n))[0], right)
    heads.truncate(n - 1)
    heads.read(TEXT[n - 1 : n], rows_before(target, 3, 4))
    assert not np.array_equal(heads.guess(n, [TEXT[n]], rows_before(target, n, n + 1))[0], right)


@BOTH
def test_a_head_may_start_in_the_middle(make: Make, name: str) -> None:
    target, heads = make(name)
    target.decode(TEXT, 1)
    n = len(TEXT) - 1
    heads.start_at(TEXT[:6])
    assert heads.tokens == TEXT[:6]
    heads.read(TEXT[6:n], rows_before(target, 6, n))
    logits, _ = heads.guess(n, [TEXT[n]], rows_before(target, n, n + 1))
    assert np.isfinite(logits).all()
    assert heads.truncate(8) == 8
    assert heads.truncate(6) == 0, "nothing that was never read can be kept"
    heads.read(TEXT[:n], rows_before(target, 0, n))
    assert heads.first == 0


def test_a_single_head_takes_one_token_at_a_time(make: Make) -> None:
    """The library would hand out another token's row without a word."""
    target, heads = make("single")
    target.decode(TEXT[:3], 1)
    with pytest.raises(DecodeError, match="one token"):
        heads.guess(0, TEXT[:2], rows_before(target, 0, 2))


@BOTH
def test_an_aborted_pass_leaves_what_was_there(make: Make, name: str) -> None:
    abort = AbortFlag()
    target, heads = make(name, abort)
    target.decode(TEXT, 1)
    assert target.hidden is not None
    before = target.hidden[: len(TEXT)].copy()
    heads.read(TEXT[:8], rows_before(target, 0, 8))
    abort.is_set = True
    with pytest.raises(Aborted):
        heads.read(TEXT[8:20], rows_before(target, 8, 20))
    target.truncate(len(TEXT) - 1)
    with pytest.raises(Aborted):
        target.decode([5], 1)
    abort.is_set = False
    assert heads.tokens == TEXT[:8]
    assert np.array_equal(target.hidden[: len(TEXT)], before)


def test_which_files_have_heads_that_run(
    head_files: dict[str, Path], tiny_files: dict[str, Path], tmp_path: Path
) -> None:
    """A file may name heads and not hold them; the library may have no graph for them, or for one of them only."""

    def heads(path: Path) -> int:
        model = Model(str(path), heads=True)
        try:
            return runnable_heads(model)
        finally:
            model.close()

    assert heads(head_files["chained"]) == 3
    assert heads(head_files["single"]) == 1
    assert heads(tiny_files["target"]) == heads(tiny_files["hybrid"]) == 0
    assert heads(tiny.write_hybrid(tmp_path / "two.gguf", heads=2)) == 0
    assert heads(_copy(head_files["chained"], tmp_path / "without.gguf", leave_out="nextn.")) == 0
    [first, *others] = sorted(_copy(head_files["chained"], tmp_path / "parts.gguf", split=20).parent.glob("parts-*"))
    assert len(others) > 1
    assert heads(first) == 3, "the heads stand in the last part"
    assert not nextn.can_run("llama", 1)


@BOTH
def test_a_rehearsal_makes_the_passes_of_a_draft(make: Make, name: str) -> None:
    """What it takes is measured with it, so it must not be cheaper; and it is priced by the sizes before."""
    target, heads = make(name)
    target.decode(TEXT, 1)
    heads.read(TEXT[:8], rows_before(target, 0, 8))
    assert heads.rehearse(TEXT[8:12]) == (3 if name == "chained" else 4)
    assert heads.truncate(8) == 8
    assert 1 / heads.model.layers < heads.share_of(target) < 1


def _copy(source: Path, to: Path, *, leave_out: str = "?", split: int = 0) -> Path:
    """A copy of a GGUF file without the tensors whose name contains `leave_out`, or in parts of `split` tensors."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(to, "step35", split_max_tensors=split)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind, *inner = field.types
        writer.add_key_value(field.name, field.contents(), kind, inner[0] if inner else None)
    for tensor in reader.tensors:
        if leave_out not in tensor.name:
            writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return to
