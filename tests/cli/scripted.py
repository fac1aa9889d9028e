"""`python -m tests.cli.scripted SCENARIO arguments...`: the command line in a process of its own.

Its engine is scripted, and touches the file $READY when it has come to where the test wants to act.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from localspec.cli import session
from localspec.cli.main import main
from tests.fake_engine import FakeEngine, Script, Wait, plain


class Ready(threading.Event):
    def set(self) -> None:
        super().set()
        Path(os.environ["READY"]).touch()


def load() -> None:
    Ready().set()
    threading.Event().wait(60)


SCENARIOS: dict[str, dict[str, Any]] = {
    "load": {"load": load},
    "prefill": {"scripts": [Script([Wait(Ready()), *plain("late")])]},
    "bench": {"scripts": [*[Script(plain("a", "b"), reason="max_tokens")] * 6, Script([*plain("a"), Wait(Ready())])]},
    "decode": {"scripts": [Script([*plain("half ", "an answer"), Wait(Ready()), *plain("late")])]},
}

if __name__ == "__main__":
    scenario = SCENARIOS[sys.argv[1]]
    session.EngineClient = lambda config: FakeEngine(config, **scenario)  # type: ignore[misc,assignment]
    main(sys.argv[2:])
