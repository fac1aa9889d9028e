"""Prompt segments to tokens."""

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
