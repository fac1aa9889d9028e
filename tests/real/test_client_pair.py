"""The starter pair behind the client: a chat that goes on, a cancel in prefill, memory."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from localspec.engine.client import EngineClient
from localspec.engine.events import Event, Finished, Prefill, Token
from localspec.engine.requests import Request, Segment
from localspec.models.gguf_split import read_model
from localspec.models.memory import kv_bytes, shape_of
from tests.engine.answers import GREEDY
from tests.real.conftest import Pair, prompt_for, total_bytes
from tests.real.texts import SOURCE

pytestmark = pytest.mark.real

DEADLINE_S = 5.0
SPARE = 400_000_000


def ask(client: EngineClient, *turns: str, tokens: int = 64) -> tuple[Finished, int]:
    """The last event of a greedy answer, and its number of tokens."""
    assert client.info is not None
    request = Request(prompt_for(client.info, *turns), sampling=GREEDY, max_tokens=tokens)
    events = list(client.generate(request))
    return last(events), sum(isinstance(event, Token) for event in events)


def last(events: Sequence[Event]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished)
    return end


def test_a_second_turn_reads_only_what_is_new(client: EngineClient) -> None:
    """K2: the second prompt repeats the first turn, question and answer; only the rest is decoded, and one token."""
    assert client.info is not None
    question = "Name the three primary colours of paint, nothing else."
    first, tokens = ask(client, question)
    assert first.reason == "end_of_text"
    second, _ = ask(client, question, first.text, "Which of them is the colour of a ripe tomato?")
    assert "red" in second.text.lower()
    same = first.stats.prompt_tokens + tokens
    print(f"reused {second.stats.prompt_reused} of {second.stats.prompt_tokens}, {same} are the same")
    assert same - 1 <= second.stats.prompt_reused <= same
    again, _ = ask(client, question, first.text, "Which of them is the colour of a ripe tomato?")
    assert again.stats.prompt_reused == again.stats.prompt_tokens - 1
    assert again.text == second.text


def test_a_long_prompt_can_be_stopped(client: EngineClient) -> None:
    """S3: stopped in the middle of prefill, and the next answer is right."""
    assert client.info is not None
    text = "Review this file.\n\n"
    count = 0
    while count < 4000:
        text += SOURCE.replace("Ledger", f"Ledger{len(text)}")
        count = client.count(prompt_for(client.info, text))
    assert count < client.info.context
    answer = client.generate(Request(prompt_for(client.info, text), sampling=GREEDY, max_tokens=16))
    for event in answer:
        if isinstance(event, Prefill) and event.done > event.reused:
            break
    assert isinstance(event, Prefill)
    assert event.done < event.total == count
    begun = time.monotonic()
    client.cancel()
    rest = list(answer)
    took = time.monotonic() - begun
    print(f"{count} tokens of prompt, cancelled at {event.done}: stopped after {took:.3f} s")
    end = last(rest)
    assert (end.reason, end.text, end.stats.tokens) == ("cancelled", "", 0)
    assert took < DEADLINE_S
    after, _ = ask(client, "What is the capital of France? Answer with one word.")
    assert after.text.strip().rstrip(".") == "Paris"


def _anonymous(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel tells no RssAnon")


@pytest.mark.skipif(sys.platform != "linux", reason="RssAnon is Linux's")
def test_memory_is_files_and_caches_and_little_more(client: EngineClient, starter: Pair) -> None:
    """P7: after answers, one of them with a long prompt, nothing of context x vocabulary is there."""
    assert client.info is not None
    request = Request((Segment(SOURCE * 2),), sampling=GREEDY, speculate="draft", draft_length=8, max_tokens=16)
    assert last(list(client.generate(request))).stats.judged > 0
    caches = sum(kv_bytes(shape_of(read_model(file)), client.info.context, "f16") for file in starter)
    assert client.pid is not None
    used, bound = _anonymous(client.pid), total_bytes(starter) + caches + SPARE
    print(f"RssAnon {used / 1e9:.2f} GB, bound {bound / 1e9:.2f} GB")
    assert used <= bound
