"""`python -m tests.tools.screenshots [--pair NAME] [FOLDER]`: the app photographs itself for the README.

The real engine answers with a pair that is on this disk, so the figures in the pictures are measured ones. Settings and
history are of a folder made for it; the person's own are neither read nor changed.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from localspec import paths
from localspec.chat import config
from localspec.models import catalog, store
from localspec.paths import HOME_VARIABLE
from localspec.tui.app import LocalspecApp
from localspec.tui.messages import PromptSuggested
from localspec.tui.screens.changes import ChangesScreen
from localspec.tui.screens.samples import SAMPLES

SIZE = (120, 34)
DEADLINE_S = 600.0


async def until(pilot: Pilot[Any], fact: Callable[[], object], what: str) -> None:
    """Lets the app work until `fact` holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        if time.monotonic() > deadline:
            raise SystemExit(f"never came true: {what}")
        await pilot.pause(0.05)


def a_home(pair: str) -> str:
    """A home with the pair's files and this machine's verdicts, and nothing of the person's."""
    known = catalog.load()
    places = [(file.key, path.parent) for file in known.files_of(known.pairs[pair]) if (path := store.find(file))]
    cache, measured = paths.cache_dir(), paths.state_dir() / "measured.json"
    root = Path(tempfile.mkdtemp(prefix="localspec-shots-"))
    for folder in ("config", "data/models", "state"):
        (root / folder).mkdir(parents=True)
    for key, place in places:
        (root / "data" / "models" / key).symlink_to(place)
    cache.mkdir(parents=True, exist_ok=True)
    (root / "cache").symlink_to(cache)
    if measured.exists():
        shutil.copy(measured, root / "state")
    return str(root)


async def photograph(pair: str, folder: Path) -> None:
    """The chat with an answer in both themes, then every screen."""
    config.save({"pair": pair, "temperature": 0.0})
    app = LocalspecApp(config=config.load())

    def save(name: str) -> None:
        (folder / f"{name}.svg").write_text(app.export_screenshot(title="localspec"), encoding="utf-8")
        print(folder / f"{name}.svg")

    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.engine.phase in ("ready", "broken"), "the model is loaded")
        if app.engine.phase == "broken":
            raise SystemExit(app.engine.error)
        app.post_message(PromptSuggested(SAMPLES[0].prompt, send=True))
        await until(pilot, lambda: app.engine.phase == "answering", "the answer begins")
        await until(pilot, lambda: app.engine.phase == "ready", "the answer ends")
        await pilot.pause(1)
        save("chat-dark")
        app.theme = "localspec-light"
        await pilot.pause(0.5)
        save("chat-light")
        app.theme = "localspec-dark"
        Path("shelf.py").write_text(SAMPLES[0].prompt.split("```")[1].removeprefix("python\n"), encoding="utf-8")
        app.post_message(PromptSuggested("/edit shelf.py add type hints to every method", send=True))
        await until(pilot, lambda: isinstance(app.screen, ChangesScreen), "the edit's changes")
        await pilot.pause(0.5)
        save("changes")
        await pilot.press("escape")
        # One line down in the menu: the details of what is here name folders of this machine.
        for keys, name in ((("f3", "down"), "menu"), (("f4",), "history"), (("f5",), "settings"), (("f1",), "help")):
            await pilot.press(keys[0])
            await pilot.pause(2)
            await pilot.press(*keys[1:])
            await pilot.pause(0.5)
            save(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="qwen2.5-coder-1.5b")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    home = a_home(given.pair)
    os.environ[HOME_VARIABLE] = home
    folder, before = given.folder.resolve(), Path.cwd()
    os.chdir(home)
    try:
        asyncio.run(photograph(given.pair, folder))
    finally:
        os.chdir(before)
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
