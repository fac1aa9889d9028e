"""Downloads that go on while a person chats: one after the other, in a thread, each cancelled and continued at will.

The thread only changes what `all` answers and calls `on_change`, at most ten times a second and file.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from localspec.models.catalog import ModelFile
    from localspec.models.progress import PullEvent

Phase = Literal["waiting", "running", "done", "failed", "cancelled"]

CLOSE_S = 0.5
"""How long quitting waits for a download to put its note of what it has beside the part; the part survives anyway."""

ANSWER_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Download:
    """One download, bytes and seconds. `use`: the person wants to chat with it as soon as it is here.

    `step` says what is done now ("fetching x.gguf", "checking x.gguf"), `said` is the last sentence about it, `error`
    one line when it failed or was cancelled.
    """

    name: str
    phase: Phase = "waiting"
    use: bool = False
    step: str = ""
    done: int = 0
    total: int | None = None
    rate: float | None = None
    left_s: float | None = None
    said: str = ""
    error: str = ""

    @property
    def active(self) -> bool:
        return self.phase in ("waiting", "running")


@dataclass
class _Job:
    names: tuple[str, ...]
    target_only: bool
    then: Callable[[], object] | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    sizes: dict[str, int] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)


class Downloads:
    """The downloads since the app was started. Methods are for the app's thread and return at once.

    `on_change(name)` and `ask_consent(file)` are called in the download's thread; the latter answers whether the person
    agrees to the file's licence, and is given the event that ends its wait. `pull` is `models.pull.pull`.
    """

    def __init__(
        self,
        on_change: Callable[[str], object],
        ask_consent: Callable[["ModelFile", threading.Event], bool],
        pull: Callable[..., Any] | None = None,
    ) -> None:
        self._on_change = on_change
        self._ask_consent = ask_consent
        self._pull = pull
        self._lock = threading.Lock()
        self._all: dict[str, Download] = {}
        self._jobs: dict[str, _Job] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def all(self) -> list[Download]:
        """Every download, in the order they were asked for."""
        with self._lock:
            return list(self._all.values())

    def get(self, name: str) -> Download | None:
        """The download called `name`, whatever became of it."""
        with self._lock:
            return self._all.get(name)

    @property
    def current(self) -> Download | None:
        """The one that runs, or waits to run."""
        return next((one for one in self.all if one.active), None)

    def start(
        self, name: str, *, use: bool = False, target_only: bool = False, parts: tuple[str, ...] = (),
        then: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        """Fetch `name`, or `parts` (hub references, say) under that name; one that is under way goes on.

        `then` is called in the download's thread once everything is here; when it raises, the download failed.
        """
        with self._lock:
            known = self._all.get(name)
            if self._closed or (known is not None and known.active):
                return
            self._all.pop(name, None)
            self._all[name] = Download(name, use=use)
            self._jobs[name] = _Job(parts or (name,), target_only, then)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="localspec downloads")
                self._thread.start()
        self._on_change(name)

    def cancel(self, name: str) -> None:
        """Stop a download; what was fetched is kept."""
        with self._lock:
            job, known = self._jobs.get(name), self._all.get(name)
            if job is None or known is None or not known.active:
                return
            job.cancel.set()
            waiting = known.phase == "waiting"
        if waiting:
            self._change(name, phase="cancelled", error="cancelled before it began")

    def close(self) -> None:
        """Stop everything; what was fetched is kept."""
        with self._lock:
            self._closed = True
            thread = self._thread
            for job in self._jobs.values():
                job.cancel.set()
        if thread is not None:
            thread.join(CLOSE_S)

    # -- in the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._lock:
                name = next((one.name for one in self._all.values() if one.phase == "waiting"), None)
                if name is None or self._closed:
                    self._thread = None
                    return
                job = self._jobs[name]
            self._run(name, job)

    def _run(self, name: str, job: _Job) -> None:
        from localspec.chat.errors import reason_of
        from localspec.models.progress import Cancelled

        self._change(name, phase="running", step="looking")
        try:
            pull = self._pull or _pull_models()
            job.sizes = _sizes(job)
            pull(
                job.names,
                target_only=job.target_only,
                consent=lambda file: self._ask_consent(file, job.cancel),
                report=lambda event: self._report(name, job, event),
                cancel=job.cancel,
            )
            if job.then is not None:
                job.then()
        except Cancelled as error:
            self._change(name, phase="cancelled", error=str(error), rate=None, left_s=None)
        except Exception as error:
            self._change(name, phase="failed", error=reason_of(error), rate=None, left_s=None)
        else:
            total = sum(job.sizes.values()) or None
            self._change(name, phase="done", step="", error="", done=total or 0, total=total, rate=None, left_s=None)

    def _report(self, name: str, job: _Job, event: "PullEvent") -> None:
        from localspec.models.progress import Said

        if isinstance(event, Said):
            self._change(name, said=event.text)
            return
        if event.total is not None:
            job.sizes[event.key] = event.total
        checking = event.phase != "downloading"
        job.moved[event.key] = job.sizes.get(event.key, event.done) if checking else event.done
        total = sum(job.sizes.values()) or None
        done = sum(job.moved.values())
        left = (total - done) / event.rate if total and event.rate and not checking else None
        step = {"downloading": "fetching", "verifying": "checking", "done": "checked"}[event.phase]
        self._change(
            name, step=f"{step} {event.name}", done=done, total=total, rate=None if checking else event.rate,
            left_s=left, said="",
        )  # fmt: skip

    def _change(self, name: str, **changes: Any) -> None:
        with self._lock:
            self._all[name] = replace(self._all[name], **changes)
        self._on_change(name)


def _pull_models() -> Callable[..., Any]:
    from localspec.models.pull import pull

    return pull


def _sizes(job: _Job) -> dict[str, int]:
    """The sizes of the files to fetch, those that are here counted as done."""
    from localspec.models import catalog, store

    known = catalog.load()
    sizes: dict[str, int] = {}
    for name in job.names:
        if name in known.pairs:
            files = known.files_of(known.pairs[name])[: 1 if job.target_only else 2]
        else:
            files = [known.files[name]] if name in known.files else []
        for file in files:
            if file.size is not None:
                sizes[file.key] = file.size
                job.moved[file.key] = file.size if store.find(file) else store.fetched_bytes(file)
    return sizes
