"""A transfer over HTTP that continues where an earlier one stopped, in this run or another.

huggingface-hub 2.4 starts a broken download again from the first byte; this asks for the rest by range.
"""

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from localspec.models.partial import Part, WrongContent, human
from localspec.models.progress import Job, Meter
from localspec.models.sources.base import SourceFailed
from localspec.models.waiting import NoAnswer, take

TRIES = 5
"""Attempts in a row without a new byte."""
BACKOFF_S = 1.0
"""The first pause; each further one is twice as long."""
LONGEST_PAUSE_S = 60.0
"""A server may ask for a longer pause than ours, up to this."""
CONNECT_S = 5.0
STALL_S = 20.0
"""A line without a byte for so long is broken."""

LATER = {408, 429, 500, 502, 503, 504}


class Unreachable(Exception):
    """There is no line to the other side. The message is the cause."""


class TryLater(Exception):
    """The other side cannot now; `after` seconds is what it asked for. The message is the cause."""

    def __init__(self, cause: str, after: float | None = None) -> None:
        super().__init__(cause)
        self.after = after


@dataclass(frozen=True, slots=True)
class Remote:
    """What is to be fetched: `size` in bytes and `etag` name this very content, None when the server does not say."""

    url: str
    headers: Mapping[str, str]
    size: int | None
    etag: str | None

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or self.url


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]


def transfer(
    part: Part, look: Callable[[], Remote], refuse: Callable[[int], SourceFailed], job: Job, meter: Meter
) -> tuple[Remote, bool]:
    """Fetch into `part` until it is as long as `look()` says. Answers what was fetched, and whether it began with bytes
    of an earlier run.

    `look` is asked before every attempt, so a file that changes in between is noticed; it raises `Unreachable`,
    `TryLater` or `SourceFailed`. `refuse` words a final status code. Raises `SourceFailed` at once when the source
    cannot be reached at all (another may), and after `TRIES` attempts without a new byte.
    """
    tries, first = 0, part.size()
    best, continued = first, False
    while True:
        cause, after = "", None
        try:
            remote = look()
            offset = _usable(part, remote, meter)
            continued = continued or (tries == 0 and offset > 0)
            if remote.size is None or offset < remote.size:
                _fetch_rest(remote, part, offset, refuse, job, meter)
            return remote, continued
        except Unreachable as error:
            if best == first:
                raise SourceFailed(str(error)) from error
            cause = str(error)
        except TryLater as error:
            cause, after = str(error), error.after
        except NoAnswer as error:
            cause = str(error)
        tries = 1 if part.size() > best else tries + 1
        best = max(best, part.size())
        if tries >= TRIES:
            raise SourceFailed(f"gave up after {tries} tries: {cause}; {human(part.size())} are kept for the next time")
        pause = min(max(BACKOFF_S * 2 ** (tries - 1), after or 0.0), LONGEST_PAUSE_S)
        meter.say(f"{cause}; {human(part.size())} are here, trying again in {pause:.0f} s")
        job.wait(pause)


def _usable(part: Part, remote: Remote, meter: Meter) -> int:
    """How many bytes of `part` belong to `remote`; a part of something else is dropped, with a word."""
    identity = {"etag": remote.etag, "size": remote.size}
    here = part.size()
    if here and (part.record() != identity or (remote.size is not None and here > remote.size)):
        meter.say("the file at the source has changed since the download began; starting again")
        part.discard()
        here = 0
    if not here:
        part.note(**identity)
    return here


def _fetch_rest(
    remote: Remote, part: Part, offset: int, refuse: Callable[[int], SourceFailed], job: Job, meter: Meter
) -> None:
    box: queue.Queue[_Answer | bytes | Exception | None] = queue.Queue(maxsize=16)
    stop = threading.Event()
    arguments = (remote, offset, box, stop)
    threading.Thread(target=_read, args=arguments, daemon=True, name="localspec download").start()

    done = offset

    def following() -> _Answer | bytes | None:
        found = take(box, f"{remote.host} to send more", STALL_S, job, meter.say, lambda: meter.at(done))
        if isinstance(found, Exception):
            raise TryLater(f"the line to {remote.host} broke ({type(found).__name__})") from found
        return found

    try:
        answer = following()
        assert isinstance(answer, _Answer)
        done = start = _accept(answer, remote, part, offset, refuse, meter)
        with part.open_at(start) as stream:
            meter.at(done)
            while isinstance(chunk := following(), bytes):
                done += len(chunk)
                if remote.size is not None and done > remote.size:
                    raise WrongContent(f"{remote.host} sends more than the {remote.size} bytes it announced")
                stream.write(chunk)
                meter.at(done)
        if remote.size is not None and done < remote.size:
            raise TryLater(f"{remote.host} ended the line early")
    except WrongContent:
        part.discard()
        raise
    finally:
        stop.set()


def _accept(
    answer: _Answer, remote: Remote, part: Part, offset: int, refuse: Callable[[int], SourceFailed], meter: Meter
) -> int:
    """Where in the file the answer's bytes begin."""
    if answer.status in LATER:
        raise TryLater(f"{remote.host} answers {answer.status}", retry_after(answer.headers))
    if answer.status == 416:
        part.discard()
        raise TryLater(f"{remote.host} does not have the rest of this file")
    if answer.status == 200:
        if offset:
            meter.say(f"{remote.host} cannot continue a download; starting again")
        return 0
    if answer.status != 206:
        raise refuse(answer.status)
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("content-range", ""))
    total = int(found[2]) if found and found[2] != "*" else remote.size
    if found is None or int(found[1]) != offset or (remote.size is not None and total != remote.size):
        part.discard()
        raise TryLater(f"{remote.host} answers with another part of the file than was asked for")
    return offset


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait; None when it does not say so in seconds."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _read(
    remote: Remote, offset: int, box: "queue.Queue[_Answer | bytes | Exception | None]", stop: threading.Event
) -> None:
    """The thread at the line: a blocked read cannot be cancelled, so nobody waits for this one."""

    def put(item: _Answer | bytes | Exception | None) -> None:
        while not stop.is_set():
            try:
                return box.put(item, timeout=0.2)
            except queue.Full:
                continue
        raise _Stopped

    import httpx2  # 0.1 s, paid only for a download

    headers = {**remote.headers, "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    timeout = httpx2.Timeout(STALL_S, connect=CONNECT_S)
    try:
        with (
            httpx2.Client(follow_redirects=True, timeout=timeout) as client,
            client.stream("GET", remote.url, headers=headers) as response,
        ):
            put(_Answer(response.status_code, dict(response.headers)))
            for chunk in response.iter_raw():
                put(chunk)
        put(None)
    except _Stopped:
        return
    except Exception as error:
        with contextlib.suppress(_Stopped):
            put(error)


class _Stopped(Exception):
    """Nobody reads any more."""
