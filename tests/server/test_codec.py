"""Values of the engine as JSON and back: equal, checked, and understood by another version."""

import json
import math
from typing import Any

import pytest

from localspec.engine.events import Cycle, Finished, Prefill, Source, Started, Token
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Segment, SourceText
from localspec.server.codec import CodecError, from_json, to_json
from localspec.server.flow import NOTHING
from tests.fake_engine import INFO

REQUEST = Request(
    prompt=(Segment("<s>", True), Segment("é\udc80\n", False)),
    sampling=SamplerSettings(temperature=0.0, logit_bias={3: -math.inf, 7: 1.5}),
    speculate="lookup",
    max_tokens=7,
    stop=("a", "b"),
    seed=2**64 - 1,
    keep_control=("<think>",),
    sources=(SourceText("a.py", "x = 1\n", 3),),
    predictions=("x = 2\n",),
    grammar='root ::= "a"',
)
VALUES: list[Any] = [
    REQUEST,
    INFO,
    EngineConfig("t.gguf", "d.gguf", context=5),
    Started("t", None, "auto", "rejection", False, 5, 1, 2, 3),
    Prefill(1, 2, 0),
    Token(1, "x", "accepted", "lookup", 1, 0.5, False, Source("a.py", 4)),
    Cycle(1, "draft", 3, "abc", 2, 1, 2, 0.5, 1.5, expected=2.0, gain=1.25),
    Finished("stop", "x", NOTHING),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_equal(value: Any) -> None:
    back = from_json(type(value), json.loads(json.dumps(to_json(value))))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"prompt": "text"}, "prompt"),
        ({"prompt": [{"text": 1}]}, "text"),
        ({"speculate": "always"}, "speculate"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"sampling": {"temperature": None}}, "temperature"),
        ({"sampling": {"logit_bias": {"x": 1}}}, "logit_bias"),
        ({"stop": [None]}, "stop"),
    ],
)
def test_a_wrong_type_is_refused_and_named(change: dict[str, Any], names: str) -> None:
    with pytest.raises(CodecError, match=names):
        from_json(Request, to_json(REQUEST) | change)


def test_what_another_version_sends_or_leaves_out_is_no_error() -> None:
    data = to_json(REQUEST) | {"something_new": 1}
    del data["grammar"]
    assert from_json(Request, data).grammar is None
    del data["prompt"]
    with pytest.raises(CodecError, match="prompt is missing"):
        from_json(Request, data)
