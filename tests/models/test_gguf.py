"""The header reader on right files: what it says, held against the gguf package and llama.cpp."""

import io
import os
import random
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localspec.models import gguf_bytes
from localspec.models.errors import DamagedGGUF, NotAModel, UnreadableFile
from localspec.models.gguf import Header, check_file, check_model, parse_header, read_header
from localspec.models.gguf_bytes import Cursor
from localspec.models.gguf_split import part_name, read_model
from tests import tiny
from tests.models import ggufs
from tests.models.ggufs import Row, facts, model, pack


def parsed(metadata: dict[str, object], rows: list[Row] | None = None, *, tokens: bool = False) -> Header:
    data = pack(metadata, rows or [])
    return parse_header(io.BytesIO(data), len(data), Path("some.gguf"), tokens=tokens)


def test_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    path = tiny.write_llama(tmp_path / "m.gguf", tokens=tiny.vocabulary(with_bytes=True), template="{{ messages }}")
    header = read_header(path, tokens=True)
    other = gguf.GGUFReader(path)
    field = other.fields["tokenizer.ggml.tokens"]
    assert header.tokens == [bytes(field.parts[i]) for i in field.data]
    kinds = other.fields["tokenizer.ggml.token_type"]
    assert header.token_types == tuple(int(kinds.parts[i][0]) for i in kinds.data)
    assert header.data_offset == other.data_offset
    assert [(t.name, t.offset + header.data_offset, t.size, t.elements) for t in header.tensors] == [
        (t.name, t.data_offset, t.n_bytes, t.n_elements) for t in other.tensors
    ]
    assert header.expected_bytes == header.file_bytes == path.stat().st_size
    assert (header.architecture, header.block_count, header.context_length) == ("llama", 2, 2048)
    assert header.chat_template == "{{ messages }}"
    check_file(header)
    check_model(header)


@pytest.mark.parametrize("changes", [{}, {"add_bos_token": None}, {"add_bos_token": False, "bos_token_id": None}])
def test_special_tokens_are_those_llama_cpp_makes_of_them(tmp_path: Path, changes: dict[str, object]) -> None:
    """V1: defaults and explicit values give what the library itself answers."""
    import llama_cpp

    path = model(tmp_path / "m.gguf", **changes, tokens=[*ggufs.VOCABULARY[:-1], "\n"])
    header = read_header(path)
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    loaded = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert loaded
    vocab = llama_cpp.llama_model_get_vocab(loaded)
    try:
        assert header.bos_id == llama_cpp.llama_vocab_bos(vocab)
        assert header.eos_id == llama_cpp.llama_vocab_eos(vocab)
        assert header.add_bos == llama_cpp.llama_vocab_get_add_bos(vocab)
        assert header.add_eos == llama_cpp.llama_vocab_get_add_eos(vocab)
        assert header.vocab_size == llama_cpp.llama_vocab_n_tokens(vocab)
    finally:
        llama_cpp.llama_model_free(loaded)


@pytest.mark.parametrize(
    ("model_name", "pre", "begin", "adds_begin", "adds_end"),
    [
        ("llama", "default", 1, True, False),
        ("gpt2", "qwen2", 11, False, False),
        ("gpt2", "llama-bpe", 11, True, False),
        ("gpt2", "glm4", None, False, False),
        ("gemma4", "gemma4", None, True, False),
        ("t5", "default", None, False, True),
    ],
)
def test_defaults_by_tokenizer(model_name: str, pre: str, begin: int | None, adds_begin: bool, adds_end: bool) -> None:
    header = parsed(facts(model=model_name, pre=pre, bos_token_id=None, add_bos_token=None))
    assert (header.bos_id, header.add_bos, header.add_eos) == (begin, adds_begin, adds_end)


def test_a_special_token_outside_the_vocabulary_is_ignored() -> None:
    assert parsed(facts(eos_token_id=9999)).eos_id == 2


def test_fim_tokens_by_key_and_by_spelling() -> None:
    words = [*ggufs.VOCABULARY, "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
    assert parsed(facts(tokens=words)).fim == {}
    assert parsed(facts(tokens=words), tokens=True).fim == {"prefix": 256, "suffix": 257, "middle": 258}
    by_key = facts(tokens=words, tokenizer__ggml__fim_pre_token_id=7, tokenizer__ggml__suffix_token_id=8)
    assert parsed(by_key, tokens=True).fim == {"prefix": 7, "suffix": 8, "middle": 258}


def test_facts_of_less_usual_models() -> None:
    header = parsed(
        facts(
            "lfm2moe",
            head_count_kv=[0, 2],
            general__file_type=1024 + 7,
            lfm2moe__nextn_predict_layers=1,
            lfm2moe__attention__sliding_window=512,
            lfm2moe__expert_count=8,
            lfm2moe__expert_used_count=2,
            lfm2moe__ssm__state_size=16,
            tokenizer__chat_template__tool_use="{{ tools }}",
        )
    )
    assert header.head_count == (4, 4)
    assert header.head_count_kv == (0, 2)
    assert header.key_length == header.value_length == 8
    assert header.quantisation == "Q8_0"
    assert (header.mtp_layers, header.sliding_window, header.expert_count, header.expert_used_count) == (1, 512, 8, 2)
    assert header.ssm == {"state_size": 16}
    assert header.hybrid
    assert not header.recurrent
    assert header.chat_templates == {"tool_use": "{{ tools }}"}
    assert header.chat_template is None


def test_quantisation_from_the_tensors_where_the_file_is_silent() -> None:
    rows = [Row("a", (32,)), Row("b", (256, 64), "Q6_K"), Row("c", (256, 8), "Q4_K")]
    assert parsed(facts(file_type=None), rows).quantisation == "Q6_K"


def test_version_2_is_read() -> None:
    data = pack(facts(), ggufs.weights(), version=2)
    assert parse_header(io.BytesIO(data), len(data), Path("m.gguf")).version == 2


def test_metadata_keeps_short_lists_and_counts_long_ones() -> None:
    header = parsed(facts(general__tags=["a", "b"], general__ids=list(range(5000))))
    assert header.metadata["general.tags"] == ("a", "b")
    assert "general.ids" not in header.metadata
    assert header.lengths["general.ids"] == 5000
    assert header.tokens is None


def walked(data: bytes, count: int) -> list[bytes]:
    """The list read the plain way."""
    found, at = [], 0
    for _ in range(count):
        length = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    return found


def odd_text(rng: random.Random) -> bytes:
    """What a token list rarely holds: nothing, zeros, long texts, something like another entry."""
    kind = rng.randrange(6)
    if kind == 0:
        return b""
    if kind == 1:
        return bytes(rng.choice([1, 3, 7, 8, 9, 16, 250, 256, 300]))
    if kind == 2:
        return rng.randbytes(rng.randrange(5)) + bytes(rng.randrange(12))
    if kind == 3:
        return b"x" * rng.choice([255, 256, 257, 700, 5000, 70_000])
    if kind == 4:
        return ggufs.text(rng.randbytes(5)) + bytes(7)
    return rng.randbytes(20)


@given(st.integers(0, 1 << 48))
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_lists_of_texts_are_walked_exactly(seed: int) -> None:
    """The fast path takes what a plain walk takes, whatever the texts and wherever windows end."""
    rng = random.Random(seed)
    strange = rng.choice([0, 0, 0.01, 0.2])
    texts = [
        odd_text(rng) if rng.random() < strange else rng.randbytes(rng.randrange(1, 14))
        for _ in range(rng.choice([3, 70, 300, 2000]))
    ]
    shift = rng.randrange(9)
    body = b"".join(ggufs.text(t) for t in texts)
    data = bytes(shift) + body + b"end"
    before = gguf_bytes._LIST_WINDOW
    gguf_bytes._LIST_WINDOW = rng.choice([64, 100, 999, 5001, before])
    try:
        cursor = Cursor(io.BytesIO(data), len(data))
        cursor.skip(shift, "shift")
        found: list[bytes] = []
        cursor.texts(len(texts), "texts", found)
        position = cursor.position
        passing = Cursor(io.BytesIO(data), len(data))
        passing.skip(shift, "shift")
        passing.texts(len(texts), "texts")
    finally:
        gguf_bytes._LIST_WINDOW = before
    assert found == texts == walked(body, len(texts))
    assert position == passing.position == shift + len(body)
    assert cursor.take(3, "end") == b"end"


@pytest.mark.parametrize("byte", range(1, 8))
@pytest.mark.parametrize("shift", range(4))
def test_a_length_is_read_with_all_its_bytes(byte: int, shift: int) -> None:
    """A length with one high byte set looks like a short one to the fast path's first look."""
    entries = [ggufs.text(b"token%d" % i) for i in range(300)]
    wrong = bytearray(entries[150])
    wrong[byte] = 1
    data = bytes(shift) + b"".join([*entries[:150], bytes(wrong), *entries[151:]])
    cursor = Cursor(io.BytesIO(data), len(data))
    cursor.skip(shift, "shift")
    found: list[bytes] = []
    with pytest.raises(DamagedGGUF):
        cursor.texts(300, "texts", found)
    assert found[:150] == [b"token%d" % i for i in range(150)]


def test_a_list_that_looks_like_another_chain_is_not_mistaken() -> None:
    """Texts that contain whole length-prefixed lists themselves: only the outer chain counts."""
    inner = b"".join(ggufs.text(b"trap%d" % i) for i in range(20))
    texts = [inner[: 40 + i] for i in range(200)] + [b"t%d" % i for i in range(500)]
    data = b"".join(ggufs.text(t) for t in texts)
    found: list[bytes] = []
    Cursor(io.BytesIO(data), len(data)).texts(len(texts), "texts", found)
    assert found == texts


def test_missing_folder_pipe_and_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: a folder, no permission, nothing there: cause and next step, and a pipe does not block."""
    with pytest.raises(UnreadableFile, match="does not exist: check the path"):
        read_header(tmp_path / "gone.gguf")
    with pytest.raises(UnreadableFile, match=r"is a folder: name the \.gguf file"):
        read_header(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.gguf")
        with pytest.raises(UnreadableFile, match="not a plain file"):
            read_header(tmp_path / "pipe.gguf")
    path = model(tmp_path / "m.gguf")

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableFile, match="may not be read: check its permissions"):
        read_header(path)


def test_control_characters_in_names_stay_on_one_line(tmp_path: Path) -> None:
    """T2, S5: a path and a key from a file are shown with escapes."""
    with pytest.raises(UnreadableFile) as caught:
        read_header(tmp_path / "a\n\x1b[2J.gguf")
    assert str(caught.value).isprintable()
    with pytest.raises(DamagedGGUF) as damaged:
        parsed({"general.architecture": "llama", "evil\x1b]52\n": ggufs.Typed(99, b"")})
    assert str(damaged.value).isprintable()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"general__type": "mmproj"}, "no language model .mmproj."),
        ({"general__type": "adapter"}, "no language model .adapter."),
        ({"general__architecture": "clip"}, "no language model"),
        ({"general__architecture": "bert"}, "embeddings and no text"),
        ({"split__no": 1, "split__count": 3}, "part 2 of 3: name the first part"),
    ],
)
def test_files_that_are_no_models(changes: dict[str, object], said: str) -> None:
    with pytest.raises(NotAModel, match=said):
        check_model(parsed(facts(**changes), ggufs.weights()))


def test_a_vocabulary_without_weights_is_no_model() -> None:
    with pytest.raises(NotAModel, match="vocabulary and no weights"):
        check_model(parsed(facts()))


def split(folder: Path, count: int = 3, stem: str = "big") -> list[Path]:
    """A model in `count` parts as llama.cpp's gguf-split writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        own = {"split.no": number, "split.count": count, "split.tensors.count": 2 * count}
        metadata = {**facts(), **own} if number == 0 else own
        rows = [Row(f"blk.{number}.attn_q.weight", (32, 64)), Row(f"blk.{number}.attn_k.weight", (32, 64))]
        path = folder / f"{stem}-{number + 1:05d}-of-{count:05d}.gguf"
        path.write_bytes(pack(metadata, rows))
        paths.append(path)
    return paths


def test_a_split_model_is_read_as_one(tmp_path: Path) -> None:
    paths = split(tmp_path)
    header = read_model(paths[0])
    assert len(header.tensors) == 6
    assert header.file_bytes == sum(path.stat().st_size for path in paths)
    assert header.tensor_bytes == 6 * 32 * 64 * 4
    assert part_name(paths[1].name) == ("big", 2, 3)


def test_a_split_model_with_a_part_missing_short_or_foreign(tmp_path: Path) -> None:
    paths = split(tmp_path)
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[:-100])
    with pytest.raises(DamagedGGUF, match=r"00002-of-00003\.gguf is incomplete"):
        read_model(paths[0])
    paths[1].write_bytes(paths[2].read_bytes())
    with pytest.raises(DamagedGGUF, match="is not part 2 of 3"):
        read_model(paths[0])
    paths[1].unlink()
    with pytest.raises(UnreadableFile, match=r"part 2 of 3: .* does not exist"):
        read_model(paths[0])
    renamed = paths[0].rename(tmp_path / "other.gguf")
    with pytest.raises(DamagedGGUF, match=r"-00001-of-00003\.gguf"):
        read_model(renamed)
