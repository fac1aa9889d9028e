"""The app on the starter pair, in tmux, as a person uses it."""

from pathlib import Path

import pytest

from localspec.chat.history import History
from tests.real.conftest import Pair
from tests.tui.terminals import Tmux, needs_tmux, until

pytestmark = [pytest.mark.real, needs_tmux]

QUESTION = "Rename add to plus, answer with the code only: def add(a, b): return a + b  # add(a, b) adds a and b"


def test_two_coloured_answers_are_kept(starter_on_menu: Pair, home: Path) -> None:
    config = home / "config" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("temperature = 0\ncontext = 2048\nmax_tokens = 48\n")
    with Tmux(home, columns=120, rows=40) as terminal:
        terminal.see("ready", 120)
        for number in (1, 2):
            terminal.type(QUESTION)
            terminal.press("Enter")
            until(lambda wanted=f"in {number} answer": wanted in terminal.screen, "the answer", 300)  # type: ignore[misc]
            terminal.see("ready")
        assert "plus" in terminal.screen
        terminal.press("C-q")
        terminal.see("left with 0")
    history = History.open(home / "data" / "history.db")
    chat = history.last()
    assert chat is not None
    answers = [turn for turn in history.turns(chat.id) if turn.role == "assistant"]
    assert len(answers) == 2
    for answer in answers:
        assert answer.stats is not None
        assert answer.stats.tokens == len(answer.parts)
        assert "".join(part.text for part in answer.parts) == answer.text
    # The first answer stands in the second one's prompt: there is something to copy.
    assert any(part.token.kind == "accepted" for part in answers[1].parts)
    assert answers[1].stats is not None
    assert answers[1].stats.prompt_reused > 0
