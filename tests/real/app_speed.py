"""The app against `localspec run` on the starter pair, in turns: `python -m tests.real.app_speed [RUNS]`.

Both answer one question greedily with a fixed number of tokens; decode tokens/s come from the engine's own figures.
The app is drawn by tmux at 120x40.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from localspec.chat.history import History
from localspec.paths import HOME_VARIABLE
from tests.tui.terminals import Tmux, until

QUESTION = "Write a Python function that merges two sorted lists, and explain every line of it."
TOKENS = 200


def main(runs: int) -> None:
    from localspec import paths

    models = paths.models_dir()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config").mkdir()
        settings = f"temperature = 0\ncontext = 2048\nmax_tokens = {TOKENS}\n"
        (home / "config" / "config.toml").write_text(settings)
        (home / "data").mkdir()
        (home / "data" / "models").symlink_to(models)
        pairs = [(in_the_app(home), by_run(home)) for _ in range(runs)]
    for app, run in pairs:
        print(f"app {app:.2f} tokens/s, run {run:.2f}, ratio {app / run:.3f}")
    print(f"median ratio {median(app / run for app, run in pairs):.3f}")


def in_the_app(home: Path) -> float:
    with Tmux(home, columns=120, rows=40) as terminal:
        terminal.see("ready", 120)
        terminal.type(QUESTION)
        terminal.press("Enter")
        until(lambda: "in 1 answer" in terminal.screen, "the answer", 300)
        terminal.see("ready")
        terminal.press("C-q")
        terminal.see("left with 0")
    history = History.open(home / "data" / "history.db")
    chat = history.last()
    assert chat is not None
    stats = history.turns(chat.id)[-1].stats
    history.close()
    assert stats is not None
    assert stats.tokens_per_s is not None
    return stats.tokens_per_s


def by_run(home: Path) -> float:
    command = [sys.executable, "-m", "localspec", "run", "--json", QUESTION]
    environment = {**os.environ, HOME_VARIABLE: str(home)}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout.splitlines()[-1])["stats"]["tokens_per_s"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
