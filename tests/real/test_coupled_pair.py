"""A seeded answer of the starter pair: each token is what the target alone draws with that noise, or nearly so."""

import numpy as np
import pytest

from localspec.engine.context import Context, ContextOptions
from localspec.engine.engine import Engine
from localspec.engine.events import Started, Token
from localspec.engine.noise import Noise, gumbel
from localspec.engine.proof.oracle import FLIPPED, GAP
from localspec.engine.requests import Request, SamplerSettings
from tests.real.conftest import prompt_for
from tests.real.texts import CHAT

pytestmark = pytest.mark.real

FREE = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
TOKENS, SEED = 48, 4


def gaps(engine: Engine, ids: list[int], prompt: list[int], seed: int) -> list[float]:
    """How far each token's logit plus noise lies below the largest, in a plain context: nothing but rounding."""
    target = engine._loaded.target
    options = target.options
    context = Context(
        target.model,
        ContextOptions(options.context, batch=256, threads=options.threads, flash_attn=options.flash_attn),
    )
    noise, every = Noise(seed), np.arange(target.model.vocab_size, dtype=np.int32)
    for start in range(0, len(prompt), 256):
        row = context.decode(prompt[start : start + 256])[-1]
    found = []
    for at, token in enumerate(ids):
        scores = row + gumbel(noise.uniforms(every, len(prompt) + at))
        found.append(float(scores.max() - scores[token]))
        row = context.decode([token])[-1]
    context.close()
    return found


def test_each_token_is_the_targets_own_draw(engine: Engine) -> None:
    """C2, tolerantly: drafted in passes of five tokens and plainly."""
    prompt = prompt_for(engine.info, CHAT)
    for way in ({"speculate": "draft", "draft_length": 4}, {"speculate": "off"}):
        request = Request(prompt, FREE, max_tokens=TOKENS, seed=SEED, verify=None, **way)  # type: ignore[arg-type]
        events = list(engine.generate(request))
        started = next(event for event in events if isinstance(event, Started))
        assert (started.verify, started.seed) == ("coupled", SEED)
        ids = [event.id for event in events if isinstance(event, Token)]
        below = gaps(engine, ids, engine._encoder.encode(prompt), SEED)
        assert max(below) <= GAP
        assert sum(gap > 0 for gap in below) <= FLIPPED * len(below)
    strange = gaps(engine, ids, engine._encoder.encode(prompt), SEED + 1)
    assert max(strange) > GAP, "other noise must be told apart"
