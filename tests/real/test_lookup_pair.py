"""Prompt lookup where it pays: answers that say again what stands in the prompt (A. Saxena, Prompt Lookup Decoding,
2023: summarisation, quotation, code edits)."""

import pytest

from localspec.engine.client import EngineClient
from localspec.engine.events import Cycle, Finished
from localspec.engine.requests import Request, SamplerSettings
from tests.real.conftest import prompt_for
from tests.real.texts import EDIT, QUOTATION, SUMMARY

pytestmark = pytest.mark.real

LEAST = {"summary": (SUMMARY, 1.5), "quotation": (QUOTATION, 4.0), "edit": (EDIT, 3.0)}
"""Tokens a cycle that each must reach; plain decoding has 1."""


@pytest.mark.parametrize("kind", LEAST)
def test_lookups_drafts_stand_where_the_answer_repeats_the_prompt(client: EngineClient, kind: str) -> None:
    text, least = LEAST[kind]
    assert client.info is not None
    request = Request(
        prompt_for(client.info, text), SamplerSettings(temperature=0.0), speculate="lookup", max_tokens=96
    )
    events = list(client.generate(request))
    cycles = [event for event in events if isinstance(event, Cycle)]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert {cycle.drafter for cycle in cycles} == {"lookup", "none"}
    drafted = [cycle for cycle in cycles if cycle.drafter == "lookup"]
    # Of a guess that is worth making most stands, and several tokens at once.
    assert sum(cycle.accepted for cycle in drafted) > sum(cycle.judged for cycle in drafted) / 2
    assert max(cycle.accepted for cycle in drafted) >= 4
    per_cycle = finished.stats.tokens_per_cycle
    print(f"{kind}: {per_cycle:.2f} tokens a cycle, {finished.stats.acceptance_rate:.0%} of judged accepted")
    assert per_cycle is not None
    assert per_cycle >= least
