"""The real program with a tiny model: in tmux, with the engine in its own process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from localspec.chat.history import History
from tests.tiny import vocabulary, write_llama
from tests.tui import edits
from tests.tui.terminals import Tmux, needs_tmux, until

pytestmark = needs_tmux

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never ends by itself: its end token has no weight."""

    def endless(ends: dict[str, object]) -> None:
        ends["output"][2] = 0.0  # type: ignore[index]
        ends["output"][:4] = 0.0  # type: ignore[index]

    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    return write_llama(path, tokens=vocabulary(12, with_bytes=True), template=TEMPLATE, context=32768, tune=endless)


def configure(home: Path, model: Path, **values: object) -> None:
    settings: dict[str, object] = {
        "pair": str(model), "threads": 1, "temperature": 0, "context": 512, "max_tokens": 40, "speculate": "lookup",
        **values,
    }  # fmt: skip
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {value if isinstance(value, int) else repr(value)}" for name, value in settings.items()]
    file.write_text("\n".join(lines) + "\n")


def test_a_chat_of_two_turns_is_kept(home: Path, model: Path) -> None:
    configure(home, model)
    with Tmux(home) as terminal:
        terminal.see("ready")
        terminal.type("abcabc")
        terminal.press("Enter")
        terminal.see("40 tokens")
        terminal.type("defdef")
        terminal.press("Enter")
        until(lambda: terminal.screen.count("40 tokens") == 2 or "defdef" in terminal.screen, "the second answer")
        terminal.see("ready")
        terminal.press("C-q")
        terminal.see("left with 0")
    history = History.open(home / "data" / "history.db")
    chat = history.last()
    assert chat is not None
    turns = history.turns(chat.id)
    assert [turn.text for turn in turns if turn.role == "user"] == ["abcabc", "defdef"]
    assert all(turn.parts and turn.stats for turn in turns if turn.role == "assistant")


def test_stop_while_the_prompt_is_read(home: Path, model: Path, tmp_path: Path) -> None:
    """S3: stopped within a second, in the middle of the prompt or right after it; the next question is answered."""
    configure(home, model, context=32768, max_tokens=20000)
    pasted = tmp_path / "pasted"
    pasted.write_text(("abcdefgh" * 8 + "\r\n") * 400)
    with Tmux(home) as terminal:
        terminal.see("ready")
        terminal.paste(pasted)
        terminal.see("[paste 1: 400 lines]")
        terminal.press("Enter")
        terminal.see("answering")
        begun = time.monotonic()
        terminal.press("Escape")
        terminal.see("ready", 10)
        assert time.monotonic() - begun < 5
        terminal.see("Stopped")
        terminal.press("C-n")
        terminal.type("abc")
        terminal.press("Enter")
        terminal.see("answering")
        terminal.press("Escape")
        terminal.see("■ stopped")


def test_kill_9_of_the_engine_keeps_the_chat_and_offers_a_restart(home: Path, model: Path) -> None:
    configure(home, model, context=32768, max_tokens=20000)
    with Tmux(home) as terminal:
        terminal.see("ready")
        terminal.type("abcabc")
        terminal.press("Enter")
        terminal.see("tokens/cycle")
        until(lambda: "context 7/" not in terminal.screen and "answering" in terminal.screen, "it streams")
        for child in terminal.children():
            child.send_signal(signal.SIGKILL)
        terminal.see("F9")
        assert "SIGKILL" in terminal.screen
        assert terminal.process.is_running()
        terminal.press("F9")
        terminal.see("ready")
        terminal.press("C-g")
        terminal.see("answering")
        terminal.press("Escape")
        terminal.see("■ stopped")


def test_kill_9_of_the_app_leaves_no_process(home: Path, model: Path) -> None:
    configure(home, model, context=32768, max_tokens=20000)
    with Tmux(home) as terminal:
        terminal.see("ready")
        terminal.type("abcabc")
        terminal.press("Enter")
        terminal.see("answering")
        children = terminal.children()
        assert children
        os.kill(terminal.process.pid, signal.SIGKILL)
        psutil.wait_procs(children, timeout=10)
        assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    # What was answered until then is kept, as an answer that was broken off.
    history = History.open(home / "data" / "history.db")
    chat = history.last()
    assert chat is not None
    assert history.turns(chat.id)[0].text == "abcabc"


@pytest.mark.parametrize("when", ["ready", "answering"])
def test_quitting_restores_the_terminal(home: Path, model: Path, when: str) -> None:
    """T6: whatever runs, the shell is back, with the screen as it was and no process left."""
    configure(home, model, context=32768, max_tokens=20000)
    with Tmux(home) as terminal:
        terminal.see("ready")
        children = terminal.children()
        if when == "answering":
            terminal.type("abcabc")
            terminal.press("Enter")
            terminal.see("answering")
        terminal.press("C-q")
        terminal.see("left with 0")
        assert "localspec" not in terminal.screen.replace("left with", "")
        psutil.wait_procs(children, timeout=10)
        assert not any(child.is_running() for child in children)


def test_a_resize_redraws_everything(home: Path, model: Path) -> None:
    configure(home, model)
    with Tmux(home) as terminal:
        terminal.see("ready")
        terminal.type("abcabc")
        terminal.press("Enter")
        terminal.see("40 tokens")
        terminal.resize(140, 40)
        terminal.see("This session")
        terminal.see("abcabc")
        terminal.resize(60, 16)
        until(lambda: "This session" not in terminal.screen, "the panel is gone")
        terminal.see("ready")


def test_native_output_goes_to_the_log(home: Path, model: Path) -> None:
    """T1: what llama.cpp writes never reaches the screen."""
    configure(home, model)
    with Tmux(home) as terminal:
        terminal.see("ready")
        assert "llama_" not in terminal.screen
    assert "llama" in (home / "state" / "engine.log").read_text(errors="replace")


def test_an_edit_is_accepted_in_part_written_and_undone(home: Path, tmp_path: Path) -> None:
    """With a scripted engine: what a person sees from `/edit` to `/undo`, and what lies on the disk meanwhile."""
    file = edits.write(tmp_path)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    with Tmux(home, environment=environment, module="tests.tui.scripted_app", folder=tmp_path) as terminal:
        terminal.see("ready")
        terminal.type("/edit sh")
        terminal.see("shelf.py")
        terminal.press("Tab")
        terminal.type(" add type hints")
        terminal.press("Enter")
        terminal.see("2 of 2 accepted")
        terminal.see("+ class Bookcase:")
        assert file.read_text() == edits.OLD
        terminal.press("Down", "Space")
        terminal.see("1 of 2 accepted")
        terminal.press("w")
        terminal.see("1 change written into shelf.py")
        assert file.read_text() == edits.FIRST
        terminal.press("Escape")
        terminal.see("1 of 2 changes written into shelf.py")
        terminal.type("/undo")
        terminal.press("Enter")
        terminal.see("as before the edit")
        assert file.read_text() == edits.OLD
        terminal.press("C-q")
        terminal.see("left with 0")


def test_a_command_uses_the_engine_of_the_app(home: Path, model: Path) -> None:
    """The app's engine answers in another terminal; with the app it is gone."""
    configure(home, model)
    with Tmux(home) as terminal:
        terminal.see("ready")
        files = home / "state" / "engines"
        until(lambda: list(files.glob("*.json")), "the engine can be found")
        environment = {**os.environ, "LOCALSPEC_HOME": str(home)}
        command = [sys.executable, "-m", "localspec", "run", "--json", "abcabc"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout.splitlines()[-1])["stats"]["tokens"] == 40
        # An engine of its own would have written a log of its own.
        assert [log.name for log in (home / "state").glob("engine*.log")] == ["engine.log"]
        terminal.press("C-q")
        terminal.see("left with 0")
        assert not list(files.glob("*.json"))
