"""A JSON schema on the starter pair: what comes fits, whoever drafts."""

import json

import pytest

from localspec.engine.engine import Engine
from localspec.engine.events import Cycle, Finished
from localspec.engine.requests import Request, SamplerSettings
from tests.real.conftest import prompt_for

pytestmark = pytest.mark.real

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer"},
        "languages": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
        "level": {"enum": ["junior", "senior"]},
    },
    "required": ["name", "age", "languages", "level"],
}


@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_what_comes_fits_the_schema(engine: Engine, mode: str, temperature: float) -> None:
    request = Request(
        prompt_for(engine.info, "Describe a programmer of your own invention as JSON."),
        SamplerSettings(temperature=temperature), speculate=mode, draft_length=None if mode == "off" else 4,
        max_tokens=120, seed=1, json_schema=json.dumps(SCHEMA),
    )  # type: ignore[arg-type]  # fmt: skip
    *events, end = engine.generate(request)
    assert isinstance(end, Finished)
    value = json.loads(end.text)
    assert list(value) == ["name", "age", "languages", "level"]
    assert value["level"] in ("junior", "senior")
    assert 1 <= len(value["languages"]) <= 3
    assert end.reason == "end_of_text"
    drafted = [event for event in events if isinstance(event, Cycle) and event.drafter == "grammar"]
    assert bool(drafted) == (mode != "off")
