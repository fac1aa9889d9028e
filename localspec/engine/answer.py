"""One answer on its way from the engine: an iterator of events that survives a death before its first token."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from localspec.engine import crash, wire
from localspec.engine.child import Call, Child, Gone
from localspec.engine.events import Event, Notice, Started, Token
from localspec.engine.requests import Request

Rescue = Callable[[Child, Call, Request, bool], Child]
"""Asked when the child died, with whether a token was shown: asks again elsewhere, or raises what happened."""


class Answer(Iterator[Event]):
    """The events of one answer, in order. Not a generator: an exception in a signal handler must not end it."""

    def __init__(
        self, child: Child, call: Call, request: Request, rescue: Rescue, on_first_token: Callable[[], None]
    ) -> None:
        self._child = child
        self._call = call
        self._request = request
        self._rescue = rescue
        self._on_first_token = on_first_token
        self._started: Started | None = None
        self._spoken = False
        self._over = False

    def __next__(self) -> Event:
        while not self._over:
            reply = self._call.next_reply()
            if self._call.abandoned:
                # Another thread closed the answer meanwhile.
                break
            match reply:
                case wire.Emitted(event=event):
                    if self._take(event):
                        return event
                case wire.Failed() as failed:
                    self._over = True
                    raise wire.unpack_error(failed)
                case Gone():
                    return self._after_death()
                case _:
                    self._over = True
        raise StopIteration

    def close(self) -> None:
        """Nobody listens any more: the answer is cancelled, and what still comes of it is dropped."""
        self._over = True
        if not self._call.ended:
            self._call.abandoned = True
            self._child.send(wire.Cancel(self._call.number))

    def __del__(self) -> None:
        # The constructor may not have run to its end.
        if hasattr(self, "_over"):
            self.close()

    def _take(self, event: Event) -> bool:
        """Notes what the event says; False for the second `Started` of an answer that was asked again."""
        if isinstance(event, Started):
            if self._started is not None:
                return False
            self._started = event
        elif isinstance(event, Token) and not self._spoken:
            self._spoken = True
            self._on_first_token()
        return True

    def _after_death(self) -> Event:
        request = self._request
        if self._started is not None and request.seed is None:
            # What `Started` said must stay true of the answer that is made after all.
            request = replace(request, seed=self._started.seed)
        self._over = True
        self._child = self._rescue(self._child, self._call, request, self._spoken)
        self._over = False
        return Notice(crash.safer_settings())
