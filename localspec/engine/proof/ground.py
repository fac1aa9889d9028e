"""What the checks stand on: the engine with its models, texts to go on with, and the time there is."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from localspec.engine.context import Aborted, Context
from localspec.engine.errors import EngineError
from localspec.engine.events import Cycle, Finished, Started, Token
from localspec.engine.generate import Reply
from localspec.engine.requests import Request, SamplerSettings, Segment, Speculate

if TYPE_CHECKING:
    from localspec.engine.engine import Engine

DRAFT_LENGTH = 4
"""Tokens of each draft where every cycle shall draft: enough for a rejection in the middle."""

LONGEST_PROMPT = 320
"""Tokens of a text that are read: the first token of an answer must not take longer than the answer."""

FEWEST, MOST = 12, 64
"""Tokens of an answer."""

ANSWERS_SHARE, ANSWER_PASSES = 0.4, 30
"""The part of the time that the answers of a fixed length may take, and about how many plain passes each of their
tokens costs over all checks."""

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: token ids of prompt and answer, and what the engine told of it."""

    prompt: list[int]
    ids: list[int]
    cycles: list[Cycle]
    started: Started
    decode_s: float

    @property
    def judged(self) -> int:
        return sum(cycle.judged for cycle in self.cycles)

    @property
    def accepted(self) -> int:
        return sum(cycle.accepted for cycle in self.cycles)


class Ground:
    """The engine under test. `texts` are what prompts are made of, the last one the least predictable."""

    def __init__(
        self, engine: "Engine", texts: Sequence[str], seconds: float, progress: Callable[[float], None]
    ) -> None:
        self.engine = engine
        self.target: Context = engine._loaded.target
        # Heads have no text of their own to read: they go by the target's rows.
        self.draft = engine._kept_draft()
        self.drafter = engine._model_drafter
        self.vocab = self.target.model.vocab_size
        self.seconds = seconds
        self._progress = progress
        self._begun = time.monotonic()
        self._ends = {token: float("-inf") for token in self.target.model.end_tokens}
        self.prompts = [self._fitted(text) for text in texts]
        self.length = FEWEST

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    def gone(self, share: float) -> bool:
        """So much of the time is over."""
        self.check()
        return self.elapsed >= share * self.seconds

    def check(self) -> None:
        """Tell how far it is; raises `Aborted` when it shall end."""
        if self.engine._abort.is_set:
            raise Aborted("cancelled")
        self._progress(min(1.0, self.elapsed / self.seconds))

    def pace(self, plain: Said) -> None:
        """From a plain answer: how long answers may be from now on."""
        token_s = plain.decode_s / max(1, len(plain.ids) - 1)
        affordable = ANSWERS_SHARE * self.seconds / ANSWER_PASSES / max(1e-6, token_s)
        self.length = int(min(MOST, max(FEWEST, affordable)))

    # -- asking ------------------------------------------------------------------------------------------------------

    @property
    def modes(self) -> list[Speculate]:
        """Every drafter this engine offers, alone, and the automatic choice."""
        own: list[Speculate] = [] if self.drafter is None else [self.drafter.name]
        return ["lookup", *own, "auto"] if self.drafts else []

    @property
    def drafts(self) -> bool:
        """The target's cache can be cut back, so that anything is drafted at all."""
        return self.target.depth.kind != "none"

    def settings(self, **fields: Any) -> SamplerSettings:
        """Sampler settings under which no text ends: a short answer says little."""
        return replace(SamplerSettings(), logit_bias=self._ends, **fields)

    def ask(
        self,
        prompt: tuple[Segment, ...],
        speculate: Speculate,
        watch: Callable[[Reply], None] | None = None,
        **fields: Any,
    ) -> Said:
        """One answer. `watch` may look into it before it begins. Raises `Aborted` and `EngineError`."""
        self.check()
        ids: list[int] = []
        cycles: list[Cycle] = []
        for event in self.events(Request(prompt, speculate=speculate, **fields), watch):
            if isinstance(event, Started):
                started = event
            elif isinstance(event, Token):
                ids.append(event.id)
            elif isinstance(event, Cycle):
                cycles.append(event)
                self.check()
            elif isinstance(event, Finished):
                decode_s = event.stats.decode_s
        return Said(self.engine.encode(prompt), ids, cycles, started, decode_s)

    def events(self, request: Request, watch: Callable[[Reply], None] | None = None) -> Iterator[Any]:
        """The events of one answer; unlike `Engine.generate` it leaves a cancel that came before standing."""
        reply = Reply(self.engine, request)
        try:
            if watch is not None:
                watch(reply)
            yield reply.started
            for event in reply.run():
                if isinstance(event, Finished) and event.reason == "cancelled":
                    raise Aborted("cancelled")
                yield event
        finally:
            reply.close()

    def prompt_of(self, tokens: Sequence[int]) -> tuple[Segment, ...] | None:
        """A prompt that is read as exactly `tokens`; None where the tokenizer cuts their text otherwise."""
        begins = self.engine.encode((Segment(""),))
        own = list(tokens[len(begins) :])
        text = self.target.model.detokenize(own).decode("utf-8", "replace")
        prompt = (Segment(text),)
        return prompt if self.engine.encode(prompt) == list(tokens) else None

    def _fitted(self, text: str) -> tuple[Segment, ...]:
        """The end of the text that leaves room for an answer."""
        room = min(LONGEST_PROMPT, self.target.size - 2 * MOST - DRAFT_LENGTH - 2)
        if room < MOST:
            raise EngineError(
                f"a context of {self.target.size} tokens is too short to prove anything in: use --ctx 512"
            )
        while len(self.engine.encode((Segment(text),))) > room:
            text = text[len(text) // 8 + 1 :]
        return (Segment(text),)

    # -- rows --------------------------------------------------------------------------------------------------------

    def open_ended(self, row: Row, _tokens: Sequence[int] = ()) -> Row:
        """The row with no text ending."""
        row = row.copy()
        row[list(self._ends)] = -np.inf
        return row

    def fitted_row(self, row: Row) -> Row:
        """A draft's row at the target's vocabulary size: padding on either side is never drafted."""
        if len(row) == self.vocab:
            return row
        fitted = np.full(self.vocab, -np.inf, np.float32)
        shared = min(len(row), self.vocab)
        fitted[:shared] = row[:shared]
        return fitted

    @contextmanager
    def plain_context(self) -> Iterator[Context]:
        """A second context over the target, without drafts: what decides rounding is as in the engine's."""
        size = min(self.target.size, LONGEST_PROMPT + 2 * MOST)
        options = replace(self.target.options, context=size, outputs=1, rollback=0, hidden=False)
        context = self.target.alike(options, self.engine._abort)
        if self.target.depth.kind == "window":
            context.depth = self.target.depth
        try:
            yield context
        finally:
            context.close()
