"""The app's engine for the commands: `localspec run` in another terminal answers without loading the model again.

```python
turns = Turns()                                    # one for the app's whole life
shared = embedded.start(client, loaded, turns, on_answering=...)   # in a thread, after the model was loaded
...
with turns.turn(turns.enter(first=True)):          # around every answer of the app's own: it goes before all that wait
    for event in client.generate(request): ...
...
shared.close()                                     # before the engine is closed or another model loads
```

Requests of commands wait for their turn while the app answers, and the app's own answer waits for the one being made
for a command (`Turns.taken`). Cancel the app's answer only while the app has the turn: `client.cancel` ends whichever
answer is being made. `on_answering` is called in other threads: True when an answer for a command begins, False at its
end.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from localspec.server import runtime
from localspec.server.desk import Desk, Engine, Loaded
from localspec.server.listen import Listener
from localspec.server.turns import Turns


class Embedded:
    """A server in threads of this process. `close` it before its engine."""

    def __init__(self, listener: Listener, file: Path) -> None:
        self._listener, self._file = listener, file

    @property
    def port(self) -> int:
        return self._listener.port

    def close(self) -> None:
        """Nobody finds the engine any more; answers for commands are cancelled. Returns within a second."""
        runtime.withdraw(self._file)
        self._listener.stop()


def start(
    engine: Engine,
    loaded: Loaded,
    turns: Turns,
    *,
    on_answering: Callable[[bool], object] | None = None,
    log: Callable[[str], object] = lambda _line: None,
) -> Embedded:
    """Serves `engine` on a free loopback port, to whoever may read this person's runtime file. Raises OSError."""
    from localspec.server.app import build
    from localspec.server.guard import Policy
    from localspec.server.listen import bind

    desk = Desk(engine, loaded, turns=turns, on_answering=on_answering)
    token = runtime.new_token()
    # Nothing but the private endpoints is open, and those want the private token; the others are not even there.
    app = build(desk, Policy(token, token=token), log, public=False)
    listener = Listener(app, bind("127.0.0.1", 0), desk)
    listener.serve_aside()
    try:
        file = runtime.publish(running_engine(loaded, listener.port, token, "app"))
    except BaseException:
        listener.stop()
        raise
    return Embedded(listener, file)


def running_engine(loaded: Loaded, port: int, token: str, owner: runtime.Owner) -> runtime.RunningEngine:
    """What the runtime file says of an engine of this process."""
    pid, started = runtime.this_process()
    # A draft that could not be loaded was left out.
    config = loaded.config if loaded.info.draft is not None else replace(loaded.config, draft=None)
    return runtime.RunningEngine(
        pid, started, port, token, owner, loaded.name, loaded.speculate, loaded.info.context, config
    )
