"""The KV cache and its record: decoding, truncation judged by behaviour, saving, the vocabulary's edges."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from localspec.engine.context import Aborted, Context, ContextOptions, RollbackDepth
from localspec.engine.errors import DecodeError, EngineError, LoadError
from localspec.engine.llama import AbortFlag, Model
from localspec.engine.probe import probe_rollback
from tests import tiny

MakeContext = Callable[..., Context]


@pytest.fixture
def make_context(tiny_files: dict[str, Path]) -> Iterator[MakeContext]:
    made: list[Context] = []

    def make(name: str = "target", abort: AbortFlag | None = None, **options: object) -> Context:
        settings: dict[str, object] = {"context": 256, "outputs": 17, "batch": 64} | options
        context = Context(Model(str(tiny_files[name])), ContextOptions(**settings), abort)  # type: ignore[arg-type]
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()
        context.model.close()


def test_rows_are_the_last_tokens_logits(make_context: MakeContext) -> None:
    context = make_context()
    rows = context.decode(tiny.ids("abcdef"), 3).copy()
    assert rows.shape == (3, context.model.vocab_size)
    again = make_context()
    again.decode(tiny.ids("abc"), 0)
    assert np.allclose(again.decode(tiny.ids("def"), 3), rows, atol=1e-4)


def test_no_row_is_copied(make_context: MakeContext) -> None:
    """P7: the logits are a view of native memory, one row a token asked for."""
    context = make_context()
    rows = context.decode(tiny.ids("abcdef"), 2)
    assert rows.base is not None
    assert rows.nbytes == 2 * context.model.vocab_size * 4


@pytest.mark.parametrize(("tokens", "rows"), [(0, 0), (65, 1), (18, 18), (3, 4)])
def test_what_does_not_fit_is_refused_before_the_library_aborts(
    make_context: MakeContext, tokens: int, rows: int
) -> None:
    context = make_context()
    with pytest.raises(DecodeError, match="do not fit"):
        context.decode([5] * tokens, rows)
    assert context.tokens == []


def test_a_full_context_refuses(make_context: MakeContext) -> None:
    context = make_context(context=10)
    assert context.size == 10
    context.decode([5] * 8, 1)
    assert context.room == 2
    with pytest.raises(DecodeError):
        context.decode([5] * 3, 1)
    context.decode([5] * 2, 1)
    assert context.room == 0


def test_plain_attention_is_cut_anywhere(make_context: MakeContext) -> None:
    context = make_context()
    assert probe_rollback(context) == RollbackDepth("unlimited")
    assert context.tokens == []


def test_a_sliding_window_with_its_whole_cache_is_cut_anywhere(make_context: MakeContext) -> None:
    assert probe_rollback(make_context("sliding", swa_full=True)) == RollbackDepth("unlimited")


def test_a_short_sliding_window_is_watched(make_context: MakeContext) -> None:
    """K1: the library says yes to every removal; the oldest kept position tells when it was wrong."""
    context = make_context("sliding", swa_full=False, batch=16, outputs=16, context=1024)
    context.depth = probe_rollback(context)
    assert context.depth == RollbackDepth("window", 16)
    tokens = [tiny.FIRST_LETTER + i * 5 % 11 for i in range(600)]
    for start in range(0, 600, 8):
        context.decode(tokens[start : start + 8], 0)
    assert context.truncate(596) == 596
    assert context.truncate(10) == 0
    assert context.tokens == []


def test_after_a_cut_within_the_window_the_logits_are_right(make_context: MakeContext) -> None:
    """K1: the same shapes with and without a removed tail give the same bits."""
    context = make_context("sliding", swa_full=False, batch=16, outputs=16)
    context.depth = RollbackDepth("window", 16)
    tokens = [tiny.FIRST_LETTER + i * 5 % 11 for i in range(64)]

    def rows_after(tail: str) -> np.ndarray:
        context.clear()
        for start in range(0, 64, 8):
            context.decode(tokens[start : start + 8], 0)
        context.decode(tiny.ids("ab" + tail), 6)
        assert context.truncate(66) == 66
        return context.decode(tiny.ids("cdef"), 4).copy()

    assert np.array_equal(rows_after("ghij"), rows_after("kaab"))


@pytest.mark.parametrize(("slots", "depth"), [(0, RollbackDepth("none")), (8, RollbackDepth("last_pass", 8))])
def test_a_hybrid_is_cut_inside_its_last_pass_only(make_context: MakeContext, slots: int, depth: RollbackDepth) -> None:
    """K1, K4: removing a whole pass answers yes and leaves the state behind; the probe sees it."""
    context = make_context("hybrid", rollback=slots)
    assert context.rollback_slots == slots
    assert probe_rollback(context) == depth


def test_a_hybrids_longer_cut_clears(make_context: MakeContext) -> None:
    """K1: past the depth nothing is trusted: the cache is emptied and its owner decodes again."""
    context = make_context("hybrid", rollback=8)
    context.depth = probe_rollback(context)
    context.decode(tiny.ids("abcd"), 0)
    context.decode(tiny.ids("efghi"), 5)
    assert context.truncate(7) == 7
    assert context.truncate(6) == 0
    assert context.tokens == []


@pytest.mark.parametrize("kind", ["does nothing", "says no"])
def test_a_removal_that_lies_is_found_out(
    make_context: MakeContext, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """K4: judged by behaviour, whatever the library answers."""
    from localspec.engine import context as module

    context = make_context()
    if kind == "does nothing":
        # The real removal of another sequence: nothing happens, and the answer is yes.
        real = module.native.llama_memory_seq_rm
        monkeypatch.setattr(
            module.native, "llama_memory_seq_rm", lambda memory, _seq, p0, p1: bool(real(memory, 0, 200, 201)) or True
        )
    else:
        monkeypatch.setattr(module.native, "llama_memory_seq_rm", lambda *_: False)
    assert probe_rollback(context) == RollbackDepth("none")


def test_an_aborted_decode_leaves_what_was_there(make_context: MakeContext) -> None:
    flag = AbortFlag()
    context = make_context(abort=flag)
    before = context.decode(tiny.ids("abc"), 1).copy()
    flag.is_set = True
    with pytest.raises(Aborted):
        context.decode(tiny.ids("defghi"), 1)
    flag.is_set = False
    assert context.tokens == tiny.ids("abc")
    again = make_context()
    again.decode(tiny.ids("abc"), 1)
    assert np.array_equal(context.decode(tiny.ids("de"), 1), again.decode(tiny.ids("de"), 1))
    assert before.shape == (1, context.model.vocab_size)


def test_a_saved_sequence_comes_back(make_context: MakeContext, tmp_path: Path) -> None:
    context = make_context()
    context.decode(tiny.ids("abcde"), 1)
    context.save(str(tmp_path / "state"))
    expected = context.decode(tiny.ids("fg"), 2).copy()
    other = make_context()
    assert other.load(str(tmp_path / "state")) == 5
    assert other.tokens == tiny.ids("abcde")
    assert np.array_equal(other.decode(tiny.ids("fg"), 2), expected)


def test_a_damaged_saved_sequence_is_an_error(make_context: MakeContext, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"nonsense")
    context = make_context()
    with pytest.raises(EngineError, match="cannot read"):
        context.load(str(tmp_path / "state"))
    assert context.tokens == []


def test_an_unknown_architecture_is_named(tmp_path: Path, tiny_files: dict[str, Path]) -> None:
    file = tmp_path / "strange.gguf"
    file.write_bytes(tiny_files["target"].read_bytes().replace(b"llama", b"lemma"))
    with pytest.raises(LoadError, match="lemma"):
        Model(str(file))


def test_a_cut_file_is_named_damaged(tmp_path: Path, tiny_files: dict[str, Path]) -> None:
    whole = tiny_files["target"].read_bytes()
    file = tmp_path / "half.gguf"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LoadError, match=r"within the file bounds|corrupted|incomplete"):
        Model(str(file))


def test_pieces_joined_are_the_text(tiny_files: dict[str, Path]) -> None:
    """V4: indents, tabs, CRLF and leading blanks survive token by token."""
    model = Model(str(tiny_files["bytes"]), vocab_only=True)
    text = " " * 40 + "if x:\r\n\t\treturn 'é한😀'\n\n  "
    tokens = model.tokenize(text)
    pieces = b"".join(model.piece(t) for t in tokens)
    assert pieces == model.detokenize(tokens) == text.encode()
    model.close()


def test_control_tokens_have_no_bytes_unless_asked(tiny_files: dict[str, Path]) -> None:
    model = Model(str(tiny_files["target"]), vocab_only=True)
    assert model.piece(tiny.BOS) == b""
    assert model.piece(tiny.BOS, special=True) == b"<s>"
    assert model.special_tokens == {"<s>": 1, "</s>": 2, "<|role|>": 3}
    assert model.end_tokens == {tiny.EOS}
    model.close()
