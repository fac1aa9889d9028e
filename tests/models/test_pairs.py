"""Target and draft: llama.cpp's rules on headers, the verdict kept on disk, proposed drafts."""

import os
import re
from pathlib import Path

import pytest

from localspec.models import pairs
from localspec.models.errors import ModelError
from localspec.models.gguf import Header, read_header
from localspec.models.gguf_split import read_model
from localspec.models.pairs import PairVerdict, check_pair, compare, plausible, propose_drafts
from tests.models import ggufs
from tests.models.ggufs import VOCABULARY, model

PADDED = [*VOCABULARY, *(f"[PAD{i}]" for i in range(128))]


def changed(index: int, word: str | bytes) -> list[str | bytes]:
    return [*VOCABULARY[:index], word, *VOCABULARY[index + 1 :]]


def verdict(folder: Path, target: dict[str, object], draft: dict[str, object]) -> PairVerdict:
    ours, theirs = model(folder / "t.gguf", **target), model(folder / "d.gguf", **draft)
    return compare(read_header(ours, tokens=True), read_header(theirs, tokens=True))


@pytest.mark.parametrize(
    ("target", "draft", "rule", "said"),
    [
        ({}, {}, None, "the vocabularies agree: SPM, 256 tokens"),
        ({}, {"tokens": PADDED}, None, r"agree: SPM, 256 tokens, .* \(128 padding tokens ignored\)"),
        ({"tokens": PADDED}, {}, None, r"\(128 padding tokens ignored\)"),
        ({"tokens": [*PADDED, "x"]}, {}, "size", "the target has 385 tokens and the draft 256, .* more than 128 apart"),
        (
            {},
            {"tokens": changed(139, "other")},
            "text",
            "token 139 is “word134” in the target and “other” in the draft",
        ),
        ({}, {"tokens": changed(255, "last")}, "text", "token 255"),
        ({}, {"tokens": changed(5, "fifth")}, "text", "token 5 is"),
        ({}, {"tokens": changed(4, "fourth")}, None, "agree"),
        ({"arch": "t5"}, {}, "encoder", "the target reads its text with an encoder and the draft has none"),
        ({}, {"arch": "t5"}, "encoder", "the draft reads its text with an encoder and the target has none"),
        ({"arch": "t5"}, {"arch": "t5"}, None, "both have an encoder; the vocabularies agree"),
        ({}, {"model": "gpt2"}, "tokenizer", "the target's tokenizer is SPM and the draft's BPE"),
        (
            {},
            {"add_bos_token": False},
            "begin token",
            "the target adds a begin token to prompts and the draft does not",
        ),
        (
            {"add_bos_token": False},
            {},
            "begin token",
            "the draft adds a begin token to prompts and the target does not",
        ),
        ({}, {"add_bos_token": None}, None, "agree"),
        ({}, {"bos_token_id": 3}, "begin token", "the begin token is 1 in the target and 3 in the draft"),
        ({}, {"bos_token_id": None}, None, "agree"),
        ({"add_bos_token": False}, {"add_bos_token": False, "bos_token_id": 3}, None, "agree"),
        ({}, {"tokenizer__ggml__add_eos_token": True}, "end token", "the draft adds an end token to prompts"),
        (
            {"tokenizer__ggml__add_eos_token": True},
            {"tokenizer__ggml__add_eos_token": True, "eos_token_id": 4},
            "end token",
            "the end token is 2 in the target and 4 in the draft",
        ),
    ],
)
def test_the_rules(
    tmp_path: Path, target: dict[str, object], draft: dict[str, object], rule: str | None, said: str
) -> None:
    """V1: compared by type, special ids, flags and bytes; padding ignored; the first differing token named."""
    found = verdict(tmp_path, target, draft)
    assert (found.compatible, found.rule) == (rule is None, rule)
    assert re.search(said, found.reason), found.reason


def test_the_first_differing_token_is_named_whatever_rule_broke(tmp_path: Path) -> None:
    """V1: two tokenizers of one size and kind, and two of different sizes."""
    found = verdict(tmp_path, {}, {"tokens": [*changed(7, b"\xff\x1b"), *map(str, range(200))]})
    assert found.rule == "size"
    assert (found.token_id, found.target_text, found.draft_text) == (7, "word2", "\\xff\\x1b")
    assert "token 7 is “word2” in the target and “\\xff\\x1b” in the draft" in found.reason


def test_texts_are_compared_as_bytes(tmp_path: Path) -> None:
    """V1: two spellings that look the same are different tokens."""
    assert verdict(tmp_path, {"tokens": changed(9, "\u00e9")}, {"tokens": changed(9, "e\u0301")}).token_id == 9


def test_padding_is_counted_for_whoever_drafts(tmp_path: Path) -> None:
    assert verdict(tmp_path, {"tokens": PADDED}, {}).padding == 128
    assert verdict(tmp_path, {}, {}).padding == 0


def test_another_end_token_that_prompts_do_not_get_is_only_noted(tmp_path: Path) -> None:
    """V1: the target alone decides where an answer ends, so llama.cpp takes the pair."""
    found = verdict(tmp_path, {}, {"eos_token_id": 4})
    assert found.compatible
    assert found.note == "the end token is 2 in the target and 4 in the draft: guesses miss at the end of an answer"
    assert verdict(tmp_path, {}, {}).note == ""


def test_headers_without_tokens_decide_what_they_can(tmp_path: Path) -> None:
    target, draft = model(tmp_path / "t.gguf"), model(tmp_path / "d.gguf")
    other = read_header(model(tmp_path / "o.gguf", model="gpt2"))
    assert compare(read_header(target), other).rule == "tokenizer"
    assert not plausible(read_header(target), other)
    assert plausible(read_header(target), read_header(draft))
    with pytest.raises(ValueError, match="tokens=True"):
        compare(read_header(target), read_header(draft))


def test_the_verdict_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft, cache = model(tmp_path / "t.gguf"), model(tmp_path / "d.gguf"), tmp_path / "cache"
    reads: list[Path] = []

    def counting(path: Path, *, tokens: bool = False) -> Header:
        reads.append(path)
        return read_header(path, tokens=tokens)

    monkeypatch.setattr(pairs, "read_header", counting)
    first = check_pair(target, draft, cache)
    assert reads == [target, draft]
    assert check_pair(target, draft, cache) == first
    assert len(reads) == 2
    assert check_pair(draft, target, cache).compatible
    assert len(reads) == 4

    model(draft, tokens=changed(139, "word_34"))  # of the same length: only the time tells
    os.utime(draft, ns=(1, 1))
    assert check_pair(target, draft, cache).token_id == 139
    [record, *_] = (cache / "pairs").iterdir()
    for damage in (b"", b"{", b"[]", b'{"compatible": true}', b'{"x": 1}', b"\xff"):
        for record in (cache / "pairs").iterdir():
            record.write_bytes(damage)
        assert check_pair(target, draft, cache).token_id == 139
    assert not [p for p in (cache / "pairs").iterdir() if p.suffix != ".json"]


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    target, draft = model(tmp_path / "t.gguf"), model(tmp_path / "d.gguf")
    assert check_pair(target, draft, tmp_path / "cache").compatible
    assert check_pair(target, draft).compatible
    with pytest.raises(ModelError, match="does not exist"):
        check_pair(target, tmp_path / "gone.gguf", tmp_path / "cache")


def test_proposed_drafts_are_compatible_smaller_and_best_first(tmp_path: Path) -> None:
    target = read_model(model(tmp_path / "target.gguf", width=1024))
    paths = [
        model(tmp_path / "half.gguf", width=600),
        model(tmp_path / "tenth.gguf", width=256),
        model(tmp_path / "fifth.gguf", width=320),
        model(tmp_path / "cousin.gguf", "qwen2", width=200),
        model(tmp_path / "large.gguf", width=1000),
        model(tmp_path / "stranger.gguf", width=200, tokens=changed(99, "x")),
        model(tmp_path / "recurrent.gguf", "mamba", width=200),
    ]
    for with_tokens in (False, True):
        headers = [read_header(path, tokens=with_tokens) for path in [*paths, target.path]]
        proposed = propose_drafts(read_header(target.path, tokens=with_tokens), headers)
        assert [p.draft.path.stem for p in proposed] == ["tenth", "fifth", "half", "cousin"]
        assert all(p.verdict.compatible and 0 < p.share <= 0.6 for p in proposed)


def test_a_mixture_is_weighed_by_the_experts_in_use(tmp_path: Path) -> None:
    """A mixture of experts reads little per token: a draft half its active size is no help."""
    rows = [*ggufs.weights(width=64), ggufs.Row("blk.0.ffn_up_exps.weight", (64, 4000, 8))]
    path = tmp_path / "moe.gguf"
    path.write_bytes(ggufs.pack(ggufs.facts(llama__expert_count=8, llama__expert_used_count=1), rows))
    draft = read_model(model(tmp_path / "draft.gguf", width=200))
    assert draft.tensor_bytes < 0.3 * read_model(path).tensor_bytes
    assert propose_drafts(read_model(path), [draft]) == []
