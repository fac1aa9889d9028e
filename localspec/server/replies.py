"""An answer taken apart for its client: text and thoughts as they come, and the counts that go with them."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from localspec.chat.splitting import Plain, Splitter
from localspec.engine.events import Cycle, Event, Finished, Stats, Token
from localspec.server.codec import to_json
from localspec.server.errors import ApiError

Delta = tuple[str, str]
"""Text and thought that came; one of them is empty."""

FINISH = {
    "end_of_text": "stop",
    "stop": "stop",
    "max_tokens": "length",
    "context_full": "length",
    "cancelled": "length",
}
"""OpenAI's words. An answer is only finished as `cancelled` for its client when its time was up."""


@dataclass
class Reply:
    """One answer so far. `predicted` and `unpredicted` count the copied tokens that stand in the request's predictions,
    those that were kept and those that were not. A text that stands in the prompt too counts all the same: clients
    send the file they want changed as both."""

    splitter: Splitter = field(default_factory=Plain)
    predictions: tuple[str, ...] = ()
    text: str = ""
    thoughts: str = ""
    predicted: int = 0
    unpredicted: int = 0
    thought_tokens: int = 0
    finished: Finished | None = None

    def take(self, events: Iterable[Event]) -> list[Delta]:
        """The events' share, neighbours of one kind joined."""
        deltas: list[Delta] = []
        for event in events:
            match event:
                case Token():
                    deltas += self._parts(self.splitter.push(event))
                case Cycle() if self._is_predicted(event):
                    self.predicted += event.accepted
                    self.unpredicted += event.proposed - event.accepted
                case Finished():
                    deltas += self._parts(self.splitter.finish())
                    self.finished = event
        joined = []
        for is_text, some in itertools.groupby(deltas, key=lambda delta: bool(delta[0])):
            text = "".join(one[0 if is_text else 1] for one in some)
            joined.append((text, "") if is_text else ("", text))
        self.text += "".join(text for text, _ in joined)
        self.thoughts += "".join(thought for _, thought in joined)
        return joined

    def _is_predicted(self, cycle: Cycle) -> bool:
        if cycle.source is not None and cycle.source.name == "prediction":
            return True
        return cycle.drafter == "lookup" and any(cycle.proposed_text in text for text in self.predictions)

    def _parts(self, parts: Iterable[Any]) -> Iterable[Delta]:
        for part in parts:
            if part.thought:
                self.thought_tokens += 1
                yield "", part.thought
            if part.text:
                yield part.text, ""

    @property
    def stats(self) -> Stats:
        assert self.finished is not None
        return self.finished.stats

    @property
    def finish(self) -> str:
        assert self.finished is not None
        return FINISH[self.finished.reason]


def usage(replies: Iterable[Reply]) -> dict[str, Any]:
    """OpenAI's counts over all answers of one request; completion tokens are the emitted ones alone."""
    all_ = list(replies)
    prompt, tokens = all_[0].stats.prompt_tokens, sum(reply.stats.tokens for reply in all_)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens,
        "total_tokens": prompt + tokens,
        "prompt_tokens_details": {"cached_tokens": all_[0].stats.prompt_reused},
        "completion_tokens_details": {
            "reasoning_tokens": sum(reply.thought_tokens for reply in all_),
            "accepted_prediction_tokens": sum(reply.predicted for reply in all_),
            "rejected_prediction_tokens": sum(reply.unpredicted for reply in all_),
        },
    }


def timings(stats: Stats) -> dict[str, Any]:
    """llama-server's figures of one answer. Its prompt time ends with the first token, as the engine's does."""
    read = stats.prompt_tokens - stats.prompt_reused
    prompt_ms, predicted_ms = (stats.ttft_s or 0.0) * 1000, stats.decode_s * 1000
    return {
        "cache_n": stats.prompt_reused,
        "prompt_n": read,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / read if read else 0.0,
        "prompt_per_second": 1000 * read / prompt_ms if prompt_ms else 0.0,
        "predicted_n": stats.tokens,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / stats.tokens if stats.tokens else 0.0,
        "predicted_per_second": stats.tokens_per_s or 0.0,
        "draft_n": stats.proposed,
        "draft_n_accepted": stats.accepted,
    }


def figures(reply: Reply) -> dict[str, Any]:
    """The engine's own figures, as `localspec run --json` has them, beside what clients know."""
    assert reply.finished is not None
    return {"reason": reply.finished.reason, "stats": to_json(reply.stats)}


def check_end(finished: Finished, *, timed_out: bool, closing: bool, seconds: float) -> None:
    """Raises `ApiError` for an answer that ended without being answered."""
    if finished.reason != "cancelled":
        return
    if closing:
        raise ApiError(503, "The server is ending.", kind="server_error", code="unavailable", retry=True)
    if timed_out and not finished.stats.tokens:
        raise ApiError(504, f"No answer within {seconds:.0f} s (see --timeout).", kind="server_error", code="timeout")
