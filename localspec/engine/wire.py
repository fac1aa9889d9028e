"""What the engine's process and its client say to each other, and how it is framed.

A frame is an 8-byte little-endian length and that many bytes of pickle. Both ends are this package, on private pipes
between a process and its own child: nobody else can write there, so pickle is safe. Requests are numbered by the
client, upwards, and every reply carries the number it belongs to.
"""

import pickle
import struct
from dataclasses import dataclass
from typing import IO

from localspec.engine import errors
from localspec.engine.cost_report import CostReport
from localspec.engine.events import Event
from localspec.engine.proof.report import Proof, ProofJob
from localspec.engine.requests import EngineConfig, EngineInfo, Request, Segment
from localspec.engine.rule_report import RuleJob, RuleRates

_LENGTH = struct.Struct("<Q")

MAX_MESSAGE = 1 << 30
"""Bytes. No real message comes near it: a larger length means that something else was written into the pipe."""


class WireError(Exception):
    """The pipe holds something that is not a message."""


@dataclass(frozen=True, slots=True)
class Load:
    number: int
    config: EngineConfig


@dataclass(frozen=True, slots=True)
class Generate:
    number: int
    request: Request


@dataclass(frozen=True, slots=True)
class Count:
    """How many tokens a prompt has, and which when `ids`."""

    number: int
    prompt: tuple[Segment, ...]
    ids: bool = False


@dataclass(frozen=True, slots=True)
class Save:
    """Write what the caches hold to files at `path` (see `state.py`)."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Load what was saved at `path`, when it fits."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Measure what passes cost, for about `seconds`; a `Cancel` ends it with what there is."""

    number: int
    seconds: float


Job = RuleJob | ProofJob
"""What takes a while, tells its progress and can be cancelled."""

Found = RuleRates | Proof
"""What jobs find."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Do `job`; a `Cancel` ends it with what there is."""

    number: int
    job: Job


@dataclass(frozen=True, slots=True)
class Costs:
    """Tell what is known of the cost of passes."""

    number: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Ends answer, calibration or job `number`, and every earlier one that still runs or waits."""

    number: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End what runs, as by a cancel, and exit."""


ToChild = Load | Generate | Count | Save | Restore | Calibrate | Measure | Costs | Cancel | Shutdown


@dataclass(frozen=True, slots=True)
class Progress:
    """`fraction` (0 to 1) of the load, the calibration or the job is done."""

    number: int
    fraction: float


@dataclass(frozen=True, slots=True)
class Loaded:
    number: int
    info: EngineInfo


@dataclass(frozen=True, slots=True)
class Emitted:
    number: int
    event: Event


@dataclass(frozen=True, slots=True)
class Counted:
    number: int
    tokens: int
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes on disk; 0: the caches hold nothing."""

    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Restored:
    """Tokens in the target's cache now; 0: nothing was loaded."""

    number: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Priced:
    """What is known of the cost of passes, after a calibration or when asked."""

    number: int
    report: CostReport


@dataclass(frozen=True, slots=True)
class Measured:
    """What a job found."""

    number: int
    found: Found


@dataclass(frozen=True, slots=True)
class Done:
    """The answer `number` is over; nothing more comes for it."""

    number: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Request `number` failed. The error travels as its kind (a class name in `errors`) and one line of text, because
    an exception object may refuse to be pickled or to be built again."""

    number: int
    kind: str
    message: str


FromChild = Progress | Loaded | Emitted | Counted | Saved | Restored | Priced | Measured | Done | Failed


def pack(message: ToChild | FromChild) -> bytes:
    """The frame of one message. What cannot be pickled raises here, before anything is on the wire."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def read_message(stream: IO[bytes]) -> ToChild | FromChild | None:
    """Reads one frame; `None` when the other end closed the pipe between two frames.

    Raises `WireError` when the pipe ends inside a frame, or holds no frame at all.
    """
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise WireError("the pipe ended inside a message")
    (length,) = _LENGTH.unpack(head)
    if length > MAX_MESSAGE:
        raise WireError(f"a message claims {length} bytes")
    body = stream.read(length)
    if len(body) < length:
        raise WireError("the pipe ended inside a message")
    try:
        message = pickle.loads(body)
    except Exception as error:
        raise WireError(f"a message cannot be read: {one_line(error)}") from error
    if not isinstance(message, ToChild | FromChild):
        raise WireError(f"a {type(message).__name__} is not a message")
    return message


def one_line(error: BaseException) -> str:
    """The error's own words without line breaks; its type's name when it has none."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    return text or type(error).__name__


def pack_error(number: int, error: BaseException) -> Failed:
    """An `EngineError` keeps its kind, or that of its nearest ancestor in `errors`, and its text; any other exception
    becomes an `EngineError` that names the exception's type."""
    for ancestor in type(error).__mro__:
        known = getattr(errors, ancestor.__name__, None)
        if known is ancestor and issubclass(ancestor, errors.EngineError):
            return Failed(number, ancestor.__name__, one_line(error))
    name = type(error).__name__
    text = one_line(error)
    return Failed(number, "EngineError", name if text == name else f"{name}: {text}")


def unpack_error(failed: Failed) -> errors.EngineError:
    """The error that `pack_error` described, ready to be raised."""
    kind = getattr(errors, failed.kind)
    error = kind(failed.message)
    assert isinstance(error, errors.EngineError)
    return error
