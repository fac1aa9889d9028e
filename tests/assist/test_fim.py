"""Fill-in-the-middle prompts, through the real tokenizer of tiny models. V2."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.assist.fim import NoFim, fim_prompt, fim_stops, has_fim
from localspec.engine.engine import Engine
from localspec.engine.requests import EngineConfig, EngineInfo, Segment
from tests.fake_engine import INFO
from tests.tiny import CONTROL, vocabulary, write_llama

TEXTS = {
    "pre": "<|fim_prefix|>", "suf": "<|fim_suffix|>", "mid": "<|fim_middle|>", "rep": "<|repo_name|>",
    "sep": "<|file_sep|>",
}  # fmt: skip
QWEN = replace(INFO, fim_texts=TEXTS)
CODE_LLAMA = replace(INFO, fim_texts={role: TEXTS[role] for role in ("pre", "suf", "mid")})


def fim_model(path: Path, *roles: str) -> Path:
    """A tiny model whose vocabulary has these fill-in-the-middle tokens and no metadata that names them."""
    texts = [(TEXTS[role], CONTROL) for role in roles]
    return write_llama(path, tokens=[*vocabulary(26, with_bytes=True), *texts])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = fim_model(tmp_path_factory.mktemp("fim") / "fim.gguf", *TEXTS)
    made = Engine(EngineConfig(str(path), context=128, threads=1))
    yield made
    made.close()


def spelled(prompt: tuple[Segment, ...]) -> str:
    return "".join(segment.text for segment in prompt)


def test_the_middle_is_asked_for_between_prefix_and_suffix() -> None:
    assert spelled(fim_prompt(QWEN, "a = ", "\nb\n")) == "<|fim_prefix|>a = <|fim_suffix|>\nb\n<|fim_middle|>"


def test_other_files_come_first_under_their_names_as_the_model_learnt_it() -> None:
    prompt = fim_prompt(QWEN, "a", "b", [("lib/x.py", "x = 1\n"), ("y.py", "y = 2")], name="main.py", repo="shop")
    assert spelled(prompt) == (
        "<|repo_name|>shop\n<|file_sep|>lib/x.py\nx = 1\n<|file_sep|>y.py\ny = 2\n<|file_sep|>main.py\n"
        "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"
    )


def test_a_model_without_file_tokens_gets_the_files_as_text() -> None:
    prompt = fim_prompt(CODE_LLAMA, "a", "b", [("x.py", "x = 1\n")], name="main.py", repo="shop")
    assert spelled(prompt) == "x.py\nx = 1\n<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"


def test_a_name_with_a_line_end_cannot_begin_the_files_text() -> None:
    assert "x y.py\nz" in spelled(fim_prompt(QWEN, "a", "b", [("x\ny.py", "z")]))


@pytest.mark.parametrize("missing", ["pre", "suf", "mid"])
def test_a_missing_token_is_no_fim(missing: str) -> None:
    info = replace(INFO, target="chat.gguf", fim_texts={r: t for r, t in TEXTS.items() if r != missing})
    assert not has_fim(info)
    with pytest.raises(NoFim, match=r"chat\.gguf has no fill-in-the-middle tokens"):
        fim_prompt(info, "a", "b")


def test_the_tokens_are_found_in_the_file(engine: Engine) -> None:
    assert engine.info.fim_texts == TEXTS
    assert has_fim(engine.info)


def test_a_file_without_them_has_none(tmp_path: Path) -> None:
    path = fim_model(tmp_path / "half.gguf", "pre", "suf")
    made = Engine(EngineConfig(str(path), context=64, threads=1))
    try:
        assert set(made.info.fim_texts) == {"pre", "suf"}
        assert not has_fim(made.info)
    finally:
        made.close()


def test_each_token_of_the_prompt_is_one_and_the_texts_are_none(engine: Engine) -> None:
    """V2: a file that spells the tokens (this test, say) stays text; one token a letter makes it countable."""
    info: EngineInfo = engine.info
    prompt = fim_prompt(info, "ab", "cde")
    assert engine.count(prompt) == 3 + 5
    typed = fim_prompt(info, "ab<|fim_middle|>", "cde", [("<|file_sep|>", "<|repo_name|>\n")], repo="r")
    ids = engine._encoder.encode(typed)
    tokens = info.fim_tokens
    assert [ids.count(tokens[role]) for role in ("rep", "sep", "pre", "suf", "mid")] == [1, 2, 1, 1, 1]
    assert ids[-1] == tokens["mid"]


def test_a_middle_stops_where_another_file_or_gap_begins() -> None:
    assert set(fim_stops(QWEN)) == set(TEXTS.values())
    assert fim_stops(INFO) == ()
