"""Greedy text is the target's own, whatever drafts, over random requests to real llama.cpp models in F32.

Passes of every width round alike here: the models are tiny, the caches F32, flash attention is off.
"""

import random
from collections import Counter

import pytest

from localspec.engine.costs import Costs
from localspec.engine.engine import Engine
from localspec.engine.requests import Request, SamplerSettings
from tests.engine.answers import ENDLESS, Answer, check_sums, prompt
from tests.engine.conftest import MakeEngine

LETTERS = "abcdefghijkl"
GRAMMAR = 'root ::= [a-d]+ ("abcd" | "bcda")* "ab" [a-c]'

PAIRS = [
    ("target", None), ("target", "draft"), ("target", "twin"), ("target", "padded"), ("padded", "target"),
    ("target", "sliding"), ("target", "hybrid"), ("sliding", "draft"), ("hybrid", "draft"), ("bytes", None),
    ("t5", None), ("t5", "t5-draft"), ("t5", "t5-twin"), ("t5", "t5-padded"), ("t5-padded", "t5"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def drafts_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `auto` makes them: passes of these models cost nothing, and their costs are those of Python."""
    monkeypatch.setattr(Costs, "relative", lambda costs, width, context: 1.0 + 0.01 * (width - 1))
    monkeypatch.setattr(Costs, "draft_token", lambda costs, context: 0.01)
    monkeypatch.setattr(Costs, "plain_wanted", lambda costs, context, now: False)


def wishes(rng: random.Random) -> dict[str, object]:
    """A request but for its way to speculate: prompts that repeat or not, penalties, biases, stops, grammar."""
    few = LETTERS[: rng.choice([1, 2, 4, len(LETTERS)])]
    text = "".join(rng.choice(few) for _ in range(rng.choice([1, 2, 12, 40, 90])))
    if rng.random() < 0.4:
        text = (text[: rng.randint(1, 8)] * 90)[: len(text)]
    bias = dict(ENDLESS) if rng.random() < 0.6 else {}
    if rng.random() < 0.3:
        bias |= {rng.randrange(4, 16): rng.choice([-3.0, 5.0, float("-inf")]) for _ in range(2)}
    return {
        "prompt": prompt(text),
        "sampling": SamplerSettings(
            temperature=0.0, logit_bias=bias, repeat_penalty=rng.choice([1.0, 1.0, 1.3]),
            frequency_penalty=rng.choice([0.0, 0.3]), presence_penalty=rng.choice([0.0, 0.5]),
            penalty_last_n=rng.choice([64, -1, 3, 0]),
        ),
        "max_tokens": rng.choice([None, 1, 2, 5, 40]),
        "stop": rng.choice([(), (), ("ab",), ("dc", "aa")]),
        "grammar": GRAMMAR if rng.random() < 0.3 else None,
        "predictions": tuple("".join(rng.choice(LETTERS) for _ in range(30)) for _ in range(rng.choice([0, 0, 1, 2]))),
    }  # fmt: skip


def answered(engine: Engine, wish: dict[str, object], **more: object) -> Answer:
    return Answer(list(engine.generate(Request(**wish, **more))))  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_whatever_drafts_the_text_is_the_targets(make_engine: MakeEngine, target: str, draft: str | None) -> None:
    rng = random.Random(f"{target} {draft}")
    drafters: Counter[str] = Counter()
    for context in (8, 40, 128):
        for swa_full in (True, False):
            engine = make_engine(
                target, draft, context=context, flash_attn="off", kv_type="f32", swa_full=swa_full, max_draft_length=32
            )
            modes = ["auto", "lookup", *(["draft"] if engine.info.draft else [])]
            for _ in range(12):
                wish = wishes(rng)
                if len(engine.encode(wish["prompt"])) > context:  # type: ignore[arg-type]
                    continue
                plain = answered(engine, wish, speculate="off")
                for mode in modes:
                    found = answered(engine, wish, speculate=mode, draft_length=rng.choice([None, None, 1, 3, 32]))
                    assert (found.ids, found.end.reason, found.end.text) == (
                        plain.ids, plain.end.reason, plain.end.text,
                    ), wish  # fmt: skip
                    check_sums(found)
                    drafters.update(cycle.drafter for cycle in found.cycles if cycle.accepted)
    assert drafters["lookup"] > 0
    assert not drafters["draft"] if draft in (None, "hybrid") else drafters["draft"] > 0
