"""Prompt segments to tokens."""

from pathlib import Path

from localspec.engine.llama import Model
from localspec.engine.prompt import PromptEncoder
from localspec.engine.requests import Segment
from tests import tiny
from tests.engine.conftest import MakeEngine


def test_user_text_is_never_a_special_token(make_engine: MakeEngine) -> None:
    """V2: only trusted text spells special tokens, and the begin token stands once."""
    engine = make_engine("begin")
    encode = engine._encoder.encode
    assert encode((Segment("<s>", trusted=True), Segment("ab"))) == [tiny.BOS, *tiny.ids("ab")]
    assert encode((Segment("ab"),)) == [tiny.BOS, *tiny.ids("ab")]
    assert encode((Segment("<|role|>a", trusted=True), Segment("b"))) == [tiny.BOS, 3, *tiny.ids("ab")]
    typed = encode((Segment("a<|role|></s>b"),))
    assert typed.count(tiny.BOS) == 1
    assert not {2, 3} & set(typed)
    assert engine.count((Segment("ab"),)) == 3


def test_a_control_token_that_takes_the_white_space_behind_it_along(tmp_path: Path) -> None:
    """V2: llama.cpp gives Phi-3's control tokens that property by the model's name."""
    tokens = tiny.vocabulary(26, with_bytes=True, extra=("<|endoftext|>",))
    file = tiny.write_llama(tmp_path / "phi.gguf", tokens=tokens, name="Phi-3 of our own")
    model = Model(str(file), vocab_only=True)
    role = model.special_tokens["<|role|>"]
    assert model.strips(role) == (False, True)
    for text in ("<|role|>\n ab <|role|>\n", "a\n<|role|> \t", "<|role|>\n\n<|role|>b\n"):
        assert PromptEncoder(model).encode((Segment(text, trusted=True),)) == model.tokenize(text, parse_special=True)
    asked = (Segment("<|role|>\n", trusted=True), Segment("\n ab "), Segment("<|role|>\n", trusted=True))
    assert PromptEncoder(model).encode(asked) == model.tokenize("<|role|>\n\n ab <|role|>\n", parse_special=True)
