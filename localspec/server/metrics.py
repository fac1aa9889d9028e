"""What a server has done, in Prometheus' text form. The figures are the engine's own (`chat.session`)."""

import threading
from collections import Counter

from localspec.chat.session import Session
from localspec.engine.events import Cycle, Finished


class Metrics:
    """Counts from the threads that make answers, and from the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session = Session()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._reasons: Counter[str] = Counter()
        self._prompt_tokens = self._reused_tokens = 0
        self._prefill_s = 0.0

    def request(self, endpoint: str, status: int) -> None:
        """One request was answered with `status`; `endpoint` is a route's path, never what the client wrote."""
        with self._lock:
            self._requests[endpoint, status] += 1

    def cycle(self, event: Cycle) -> None:
        with self._lock:
            self._session.cycle(event)

    def finished(self, event: Finished) -> None:
        with self._lock:
            self._session.finished(event.stats)
            self._reasons[event.reason] += 1
            self._prompt_tokens += event.stats.prompt_tokens
            self._reused_tokens += event.stats.prompt_reused
            self._prefill_s += event.stats.ttft_s or 0.0

    def text(self, *, waiting: int, answering: bool) -> str:
        """All series. A rate with nothing behind it is left out, as Prometheus has no word for it."""
        with self._lock:
            lines: list[str] = []
            session = self._session
            _series(lines, "requests_total", "counter", "Requests by endpoint and status.", {
                f'endpoint="{path}",status="{status}"': count for (path, status), count in self._requests.items()
            })  # fmt: skip
            _series(lines, "answers_total", "counter", "Answers by why they ended.", {
                f'reason="{reason}"': count for reason, count in self._reasons.items()
            })  # fmt: skip
            _series(lines, "tokens_total", "counter", "Emitted tokens by provenance.", {
                f'kind="{kind}"': count for kind, count in session.kinds.items()
            })  # fmt: skip
            for field in ("cycles", "proposed", "judged", "accepted"):
                _series(lines, f"draft_{field}_total", "counter", f"By drafter: {_DRAFTED[field]}.", {
                    f'drafter="{name}"': getattr(figures, field) for name, figures in session.drafters.items()
                })  # fmt: skip
            for name, kind, words, value in (
                ("prompt_tokens_total", "counter", "Prompt tokens.", self._prompt_tokens),
                ("prompt_tokens_reused_total", "counter", "Prompt tokens found in the cache.", self._reused_tokens),
                ("prefill_seconds_total", "counter", "Time to the first token, summed.", self._prefill_s),
                ("decode_seconds_total", "counter", "Time of decoding.", session.decode_s),
                ("draft_seconds_total", "counter", "Time in the draft.", session.draft_s),
                ("verify_seconds_total", "counter", "Time in the target's passes.", session.verify_s),
                ("cycles_total", "counter", "Target passes while decoding.", session.cycles),
                ("acceptance_rate", "gauge", "Accepted of judged draft tokens.", session.acceptance_rate),
                ("tokens_per_cycle", "gauge", "Tokens emitted a target pass.", session.tokens_per_cycle),
                ("speedup", "gauge", "Decode speed over plain decoding of the same target.", session.speedup),
                ("queue_length", "gauge", "Requests that wait.", waiting),
                ("answering", "gauge", "1 while an answer is made.", int(answering)),
            ):
                _series(lines, name, kind, words, {} if value is None else {"": value})
        return "\n".join(lines) + "\n"


_DRAFTED = {
    "cycles": "cycles with a draft",
    "proposed": "proposed tokens",
    "judged": "proposed tokens that had a verdict",
    "accepted": "accepted tokens",
}


def _series(lines: list[str], name: str, kind: str, words: str, values: dict[str, float]) -> None:
    if not values:
        return
    lines += [f"# HELP localspec_{name} {words}", f"# TYPE localspec_{name} {kind}"]
    lines += [f"localspec_{name}{{{labels}}} {value}" if labels else f"localspec_{name} {value}"
              for labels, value in values.items()]  # fmt: skip
