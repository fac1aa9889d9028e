"""How far a download or a check is, in a sentence now and then: where no bar is drawn, nobody shall wonder for long."""

import time
from datetime import timedelta

from localspec.cli.terminal import say
from localspec.models.partial import human
from localspec.models.progress import Moved

SAY_AGAIN_S = 10.0


class Spoken:
    """Takes events as they come, and says one on stderr every `SAY_AGAIN_S` seconds."""

    def __init__(self) -> None:
        self._spoke = time.monotonic()

    def at(self, event: Moved) -> None:
        now = time.monotonic()
        if event.phase == "done" or now - self._spoke < SAY_AGAIN_S:
            return
        self._spoke = now
        whose = f"{event.key}: " if event.key else ""
        total = f" of {human(event.total)}" if event.total is not None else ""
        rate = f", {human(event.rate)}/s" if event.rate else ""
        left = f", {timedelta(seconds=round(event.left_s))} left" if event.left_s is not None else ""
        say(f"{whose}{doing(event)} {event.name}: {human(event.done)}{total}{rate}{left}")


def doing(event: Moved) -> str:
    """The word for the event's phase."""
    return "checking" if event.phase == "verifying" else "fetching"
