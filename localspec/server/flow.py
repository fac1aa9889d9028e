"""One answer on its way from the engine's thread to one client of the event loop.

A thread of its own waits for the turn and reads the engine's events into a bounded buffer; the loop takes them out in
batches. A client that does not read stops its own answer only: after `STALL_S` with a full buffer the answer is
cancelled and the next in the queue has its turn.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from localspec.engine.errors import EngineDied
from localspec.engine.events import Cycle, Event, Finished, Stats
from localspec.engine.requests import Request
from localspec.server.desk import Desk
from localspec.server.turns import Left

BUFFER = 4096
"""Events, some 2 MB: a client may fall behind by that much."""

STALL_S = 30.0
"""How long a client may not read before its answer is given up."""

NOTHING = Stats(
    prompt_tokens=0, prompt_reused=0, ttft_s=None, tokens=0, decode_s=0.0, tokens_per_s=None, itl_ms_p50=None,
    itl_ms_p95=None, plain_tokens_per_s=None, baseline="none", speedup=None, cycles=0, proposed=0, judged=0, accepted=0,
    resampled=0, bonus=0, plain=0, acceptance_rate=None, tokens_per_cycle=None, draft_s=0.0, verify_s=0.0,
    overhead_s=0.0,
)  # fmt: skip
"""Of an answer that was cancelled before its turn came."""


class Stalled(Exception):
    """The client stopped reading."""


class Flow:
    """Made in the event loop; `cancel` may be called from any thread. Raises `turns.Full` when too many wait.

    `time_limit` is in seconds from now, waiting included; `timed_out` tells that it ended the answer.
    """

    def __init__(self, desk: Desk, request: Request, *, time_limit: float | None = None) -> None:
        self._desk = desk
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._buffer: deque[Event | BaseException | None] = deque()
        self._arrived = asyncio.Event()
        self._cancelled = self._running = self._abandoned = self._closed = False
        self.timed_out = False
        self.on_close: Callable[[], object] | None = None
        self._place = desk.turns.enter()
        desk.flows.add(self)
        self._timer = self._loop.call_later(time_limit, self._time_is_up) if time_limit is not None else None
        try:
            threading.Thread(target=self._work, name="answer", daemon=True).start()
        except RuntimeError:
            # No thread is to be had: the place must not be held for nobody.
            desk.flows.discard(self)
            self.close()
            raise

    async def batches(self, patience: float) -> AsyncIterator[list[Event]]:
        """The events as they come, several at once; an empty list when none came for `patience` seconds.

        Raises the engine's error in its place, and `Stalled`. The answer is cancelled when this is left early.
        """
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), patience)
                if self._closed:
                    return
                batch, end, error = self._take()
                if batch or not end:
                    yield batch
                if error is not None:
                    raise error
                if end:
                    return
        finally:
            self.close()

    def cancel(self) -> None:
        """The answer ends with a `Finished` of reason `cancelled`."""
        with self._lock:
            self._cancelled = True
            if self._running:
                self._desk.engine.cancel()
        self._place.leave()

    def close(self) -> None:
        """Nobody listens any more. In the event loop."""
        self._closed = True
        self._arrived.set()
        if self.on_close is not None:
            self.on_close()
        with self._room:
            self._abandoned = True
            self._buffer.clear()
            self._room.notify_all()
        if self._timer is not None:
            self._timer.cancel()
        self.cancel()

    def _take(self) -> tuple[list[Event], bool, BaseException | None]:
        with self._room:
            self._arrived.clear()
            taken = list(self._buffer)
            self._buffer.clear()
            self._room.notify_all()
        events = [one for one in taken if one is not None and not isinstance(one, BaseException)]
        error = next((one for one in taken if isinstance(one, BaseException)), None)
        return events, bool(taken) and taken[-1] is None, error

    def _time_is_up(self) -> None:
        self.timed_out = True
        self.cancel()

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        last: BaseException | None = None
        try:
            with self._desk.turns.turn(self._place):
                try:
                    self._answer()
                except EngineDied as error:
                    self._desk.died(error)
                    raise
        except Left:
            self._put(Finished("cancelled", "", NOTHING))
        except BaseException as error:
            last = error
        finally:
            self._desk.flows.discard(self)
            with suppress(Stalled):
                if last is not None:
                    self._put(last)
                self._put(None)

    def _answer(self) -> None:
        desk = self._desk
        with self._lock:
            if self._cancelled:
                raise Left
            events = desk.generate(self._request)
            self._running = True
        desk.answering(True)
        try:
            for event in events:
                if isinstance(event, Cycle):
                    desk.metrics.cycle(event)
                elif isinstance(event, Finished):
                    desk.metrics.finished(event)
                    desk.finished()
                if not self._abandoned:
                    self._put(event)
        finally:
            with self._lock:
                self._running = False
            desk.answering(False)

    def _put(self, item: Event | BaseException | None) -> None:
        """Into the buffer, waiting for room; raises `Stalled` when none comes."""
        with self._room:
            if not self._room.wait_for(lambda: len(self._buffer) < BUFFER or self._abandoned, STALL_S):
                self._abandoned = self._cancelled = True
                if self._running:
                    self._desk.engine.cancel()
                self._buffer.clear()
                self._buffer.extend((Stalled(), None))
            elif not self._abandoned:
                self._buffer.append(item)
        with suppress(RuntimeError):
            # The loop may have been closed meanwhile: then nobody listens.
            self._loop.call_soon_threadsafe(self._arrived.set)
