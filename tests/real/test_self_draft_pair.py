"""Drafts made of real models' own layers: quantised tensors copied, metadata renumbered, the target's text kept."""

from pathlib import Path

import pytest

from localspec.engine.engine import Engine
from localspec.engine.events import Cycle, Token
from localspec.engine.proof.oracle import GAP, Oracle
from localspec.engine.requests import EngineConfig, Request, SamplerSettings
from localspec.models import selfdraft
from localspec.models.gguf_split import read_model
from tests.real.conftest import Pair, prompt_for
from tests.real.texts import CHAT

pytestmark = pytest.mark.real

GREEDY = SamplerSettings(temperature=0.0)
TOKENS = 24


def check(target: Path) -> tuple[int, int]:
    """Judged and accepted tokens of an answer that is drafted by the model without a seventh of its layers."""
    made = selfdraft.make(target)
    whole, short = read_model(target), read_model(made.path)
    assert short.tensor_bytes < whole.tensor_bytes
    assert (short.block_count, short.vocab_size) == (made.kept, whole.vocab_size)
    assert {tensor.type for tensor in short.tensors} == {tensor.type for tensor in whole.tensors}
    engine = Engine(EngineConfig(str(target), str(made.path), drafter="self", context=512))
    try:
        prompt = prompt_for(engine.info, CHAT)
        request = Request(prompt, GREEDY, speculate="self", draft_length=3, max_tokens=TOKENS)
        events = list(engine.generate(request))
        ids = [event.id for event in events if isinstance(event, Token)]
        cycles = [event for event in events if isinstance(event, Cycle)]
        engine._loaded.target.clear()
        # Too short an answer for the share of near ties to say anything.
        assert Oracle(engine._loaded.target).score(engine.encode(prompt), ids).worst <= GAP
        return sum(cycle.judged for cycle in cycles), sum(cycle.accepted for cycle in cycles)
    finally:
        engine.close()


def test_smollm_drafts_for_itself(smollm: Path) -> None:
    judged, accepted = check(smollm)
    assert judged > TOKENS / 4
    assert accepted / judged > 0.2


def test_both_models_of_the_pair_draft_for_themselves(starter: Pair) -> None:
    """A shortened model guesses far better than by chance, and worse than the whole one."""
    for target in starter:
        judged, accepted = check(target)
        assert 0.3 < accepted / judged < 1
