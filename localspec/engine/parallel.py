"""Real batched decodes of several sequences at once: what a pass costs when a machine serves more than one answer.

A pass of `sequences` × (1 + K) tokens is what a target decodes when every sequence is verified with K drafted tokens.
Run as a module it is a process of its own, because a native fault must not reach the terminal: one JSON object on
standard input says what to measure (`Job`), JSON lines on standard output say what was found, standard error is the
log. When standard input closes the process ends, also in the middle of a decode.

Lines: {"type": "loaded", and the fields of `EngineInfo`}, then {"type": "pass", "sequences", "length", "round", "ms"},
then {"type": "end"}; or {"type": "error", "kind", "message"}.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, NoReturn, TextIO, cast

import llama_cpp.llama_cpp as native
import numpy as np
from numpy.typing import NDArray

from localspec.engine import wire
from localspec.engine.context import SEQUENCE, Context, ContextOptions
from localspec.engine.errors import DecodeError, EngineError
from localspec.engine.llama import AbortFlag
from localspec.engine.load import load
from localspec.engine.requests import EngineConfig, FlashAttention

LONGEST_PASS = 1024
"""Tokens of one pass: each takes a row of logits, which for a vocabulary of 150,000 is 0.6 MB."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure. `lengths` are draft lengths, 0 for plain; `context` is how many tokens every sequence holds."""

    config: EngineConfig
    sequences: tuple[int, ...]
    lengths: tuple[int, ...]
    rounds: int
    context: int

    @classmethod
    def read(cls, text: str) -> "Job":
        """From what `write` wrote. Raises ValueError or TypeError."""
        fields = json.loads(text)
        return cls(
            EngineConfig(**fields["config"]), tuple(fields["sequences"]), tuple(fields["lengths"]), fields["rounds"],
            fields["context"],
        )  # fmt: skip

    def write(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @property
    def passes(self) -> int:
        """How many passes are timed in all."""
        return len(self.sequences) * len(self.lengths) * self.rounds

    def order(self) -> Iterator[tuple[int, int, int]]:
        """Round, sequences and draft length of every timed pass. For each number of sequences all lengths follow one
        another, and every other round goes the other way around, so that a drift of the machine favours none."""
        for round_ in range(self.rounds):
            step = 1 if round_ % 2 == 0 else -1
            for count in self.sequences[::step]:
                for length in self.lengths[::step]:
                    yield round_, count, length


class Sequences(Context):
    """A context whose sequences hold equally many tokens and are decoded together.

    `tokens` (of the first sequence) stays the record of the length. Raises `LoadError` when it cannot be made.
    """

    def fill(self, tokens: Sequence[int]) -> None:
        """Give every sequence these tokens: read once, then copied."""
        self.clear()
        for start in range(0, len(tokens), self.options.batch):
            self.decode(tokens[start : start + self.options.batch], 0)
        for sequence in range(1, self.options.sequences):
            native.llama_memory_seq_cp(self._memory, SEQUENCE, sequence, -1, -1)

    def try_out(self, tokens: NDArray[np.int32]) -> NDArray[np.float32]:
        """Decode one row of `tokens` (shape: sequences in use, tokens each) after each sequence, all in one pass, and
        take them back, as after a cycle that keeps none.

        Returns their logits, shape (sequences in use, tokens each, vocab_size): a view that the next pass overwrites.
        Raises `DecodeError`.
        """
        used, each = tokens.shape
        count, start = used * each, len(self.tokens)
        if count > min(self.options.batch, self.options.outputs) or used > self.options.sequences:
            raise DecodeError(f"{used} sequences of {each} tokens do not fit into one pass")
        self._batch.n_tokens = count
        self._token[:count] = tokens.ravel()
        self._pos[:count] = np.tile(np.arange(start, start + each), used)
        self._wanted[:count] = 1
        for i in range(count):
            self._batch.seq_id[i][0] = i // each
        status = native.llama_decode(self._ctx, self._batch)
        native.llama_synchronize(self._ctx)
        for i in range(count):
            self._batch.seq_id[i][0] = SEQUENCE
        for sequence in range(used):
            if not native.llama_memory_seq_rm(self._memory, sequence, start, -1):
                raise DecodeError("this model's cache cannot be cut back")
        if status != 0:
            raise DecodeError(f"llama.cpp could not decode {used} sequences of {each} tokens (status {status})")
        return np.ctypeslib.as_array(native.llama_get_logits(self._ctx), shape=(used, each, self.model.vocab_size))


def measure(job: Job, tell: Callable[[dict[str, Any]], None]) -> None:
    """Load the target and time every pass of the job; `tell` gets the lines. Raises `EngineError`.

    A timed pass takes all its tokens back (`Sequences.try_out`), so every pass sees the same context.
    """
    widest = max(job.sequences) * (1 + max(job.lengths))
    if widest > LONGEST_PASS:
        raise EngineError(f"{max(job.sequences)} sequences with {max(job.lengths)} drafted tokens each are {widest} "
                          f"tokens a pass, and {LONGEST_PASS} is the most")  # fmt: skip
    loaded = load(replace(job.config, draft=None, drafter="draft", context=512, max_draft_length=1), AbortFlag(), None)
    model, info, depth = loaded.target.model, loaded.info, loaded.target.depth
    loaded.target.close()
    try:
        if model.has_encoder:
            raise EngineError("this model has an encoder, which reads one text: several sequences are not measured")
        if depth.kind != "unlimited":
            raise EngineError("this model's cache cannot be cut back at will, so its sequences cannot be verified")
        room = job.context + 1 + max(job.lengths)
        options = ContextOptions(
            context=room * max(job.sequences), batch=max(512, widest), outputs=widest, threads=info.threads,
            kv_type=job.config.kv_type, flash_attn=cast(FlashAttention, info.flash_attn), swa_full=job.config.swa_full,
            sequences=max(job.sequences),
        )  # fmt: skip
        tell({"type": "loaded", **asdict(info)})
        context = Sequences(model, options)
        try:
            _time(context, job, tell)
        finally:
            context.close()
    finally:
        model.close()


def _time(context: Sequences, job: Job, tell: Callable[[dict[str, Any]], None]) -> None:
    draws = random.Random(1)
    # Ordinary tokens: special ones stand at an end of the vocabulary.
    ordinary = range(context.model.vocab_size // 4, context.model.vocab_size * 3 // 4 + 1)
    context.fill(draws.choices(ordinary, k=job.context))
    # The first pass of a new shape builds its graph and touches its memory.
    for _, count, length in replace(job, rounds=1).order():
        context.try_out(_tokens(draws, ordinary, count, 1 + length))
    for round_, count, length in job.order():
        tokens = _tokens(draws, ordinary, count, 1 + length)
        begun = time.perf_counter()
        context.try_out(tokens)
        ms = (time.perf_counter() - begun) * 1000
        tell({"type": "pass", "sequences": count, "length": length, "round": round_, "ms": round(ms, 4)})


def _tokens(draws: random.Random, ordinary: range, count: int, each: int) -> NDArray[np.int32]:
    return np.array([draws.choices(ordinary, k=each) for _ in range(count)], np.int32)


def _take_pipes() -> tuple[BinaryIO, TextIO]:
    """Moves the pipes to private descriptors: what native code prints on 1 goes where 2 does, into the log."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(replies, "w", encoding="utf-8")


def main() -> NoReturn:
    """Takes over the process for one job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = _take_pipes()

    def tell(line: dict[str, Any]) -> None:
        try:
            replies.write(json.dumps(line) + "\n")
            replies.flush()
        except OSError:
            os._exit(0)

    text = requests.readline().decode("utf-8")

    def live() -> None:
        # The parent holds the other end open for as long as it wants to hear more.
        requests.read()
        os._exit(0)

    threading.Thread(target=live, name="life-line", daemon=True).start()
    try:
        measure(Job.read(text), tell)
        tell({"type": "end"})
    except Exception as error:
        failed = wire.pack_error(0, error)
        tell({"type": "error", "kind": failed.kind, "message": failed.message})
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
