"""Asking, stopping, going on, editing: the chat screen with a scripted engine."""

from pathlib import Path

import pytest
from textual.widgets import Static

from localspec.chat.history import History
from localspec.chat.settings import Settings
from localspec.engine.errors import EngineDied, EngineError
from localspec.tui.screens.chat_actions import MOUSE_OFF
from tests.fake_engine import INFO, Reading, Say, Script, Tell, Wait, plain
from tests.tui.helpers import Bench, until


def said(bench: Bench) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in bench.app.chat.desk.talk.turns]


def prompt_text(bench: Bench, number: int = -1) -> str:
    """What the engine was asked."""
    return "".join(segment.text for segment in bench.engine.requests[number].prompt)


async def test_two_turns_are_one_conversation() -> None:
    bench = Bench([Script(plain("One", ".")), Script(plain("Two", "."))])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "first")
        await bench.ask(pilot, "second")
        assert said(bench) == [("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Two.")]
        assert "first" in prompt_text(bench)
        assert "One." in prompt_text(bench)
        assert "second" in prompt_text(bench)
        assert bench.prompt.text == ""


async def test_escape_stops_and_the_answer_goes_on_from_there() -> None:
    """S4: the partial text stays and is marked; "go on" continues it."""
    wait = Wait()
    bench = Bench([Script([*plain("Half ", "an "), wait]), Script(plain("answer", "."))])
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "hi")
        await until(pilot, wait.reached.is_set)
        await pilot.press("escape")
        await bench.ready(pilot)
        assert said(bench)[-1] == ("assistant", "Half an ")
        await until(pilot, lambda: "■ stopped" in bench.shown)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: said(bench)[-1] == ("assistant", "Half an answer."))
        assert prompt_text(bench).endswith("Half an ")
        await until(pilot, lambda: "■ stopped" not in bench.shown)


async def test_escape_stops_while_the_prompt_is_read() -> None:
    """S3: in prefill, with its progress shown; the next question is answered."""
    wait = Wait()
    bench = Bench([Script([Reading(128, 4000, 100), wait, *plain("late")]), Script(plain("Yes", "."))])
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "long")
        await until(pilot, wait.reached.is_set)
        await until(pilot, lambda: "128 of 4,000 prompt tokens, 100 reused" in bench.bar)
        await pilot.press("escape")
        await bench.ready(pilot)
        await bench.ask(pilot, "short")
        assert said(bench)[-1] == ("assistant", "Yes.")


async def test_control_c_stops_then_quits() -> None:
    """S4: the first one stops the answer, the second one quits."""
    wait = Wait()
    bench = Bench([Script([*plain("Half"), wait])])
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "hi")
        await until(pilot, wait.reached.is_set)
        await pilot.press("ctrl+c")
        await bench.ready(pilot)
        assert bench.app._exit is False
        await pilot.press("ctrl+c")
        await until(pilot, lambda: bench.app._exit)
    assert bench.engine.closed


async def test_control_c_copies_what_is_selected() -> None:
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        bench.prompt.fill("copy me")
        bench.prompt.select_all()
        await pilot.press("ctrl+c", "ctrl+c")
        assert bench.app.clipboard == "copy me"
        assert bench.app._exit is False


async def test_a_second_question_is_refused_in_words_and_kept() -> None:
    """P8: send while generating."""
    wait = Wait()
    bench = Bench([Script([*plain("One"), wait])])
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "first")
        await until(pilot, wait.reached.is_set)
        bench.prompt.fill("second")
        await pilot.press("enter")
        await until(pilot, lambda: "Esc stops it" in bench.notice)
        assert bench.prompt.text == "second"
        assert len(bench.engine.requests) == 1
        wait.release.set()
        await bench.ready(pilot)


async def test_a_question_while_loading_is_sent_when_the_model_is_there() -> None:
    wait = Wait()

    def load() -> None:
        wait.reached.set()
        assert wait.release.wait(20)

    bench = Bench(load=load)
    async with bench.app.run_test() as pilot:
        await until(pilot, wait.reached.is_set)
        bench.prompt.fill("early")
        await pilot.press("enter")
        await until(pilot, lambda: "sent when it is there" in bench.notice)
        wait.release.set()
        await until(pilot, lambda: said(bench)[-1:] == [("assistant", "Hello.")])
        assert bench.prompt.text == ""


async def test_another_answer_becomes_a_branch() -> None:
    history = History.in_memory()
    bench = Bench([Script(plain("One")), Script(plain("Two"))], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "question")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: said(bench)[-1] == ("assistant", "Two"))
        await bench.ready(pilot)
        assert len(said(bench)) == 2
        answer = bench.app.chat.desk.talk.turns[-1]
        assert len(history.siblings(answer.id)) == 2


async def test_an_edited_question_keeps_what_came_after_as_a_branch() -> None:
    history = History.in_memory()
    bench = Bench([Script(plain("One")), Script(plain("Two")), Script(plain("Three"))], history=history)
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "first")
        await bench.ask(pilot, "second")
        await pilot.press("shift+tab", "k", "k", "k", "k", "e")
        await until(pilot, lambda: bench.prompt.text == "first")
        bench.prompt.fill("changed")
        await pilot.press("enter")
        await until(pilot, lambda: said(bench) == [("user", "changed"), ("assistant", "Three")])
        await bench.ready(pilot)
        chat = bench.app.chat.desk.talk.chat_id
        assert sorted(branch.messages for branch in history.branches(chat)) == [2, 4]


async def test_escape_leaves_editing() -> None:
    bench = Bench([Script(plain("One")), Script(plain("Two"))])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "first")
        await pilot.press("shift+tab", "e")
        await until(pilot, lambda: bench.prompt.text == "first")
        await pilot.press("escape")
        assert bench.prompt.text == ""
        await bench.ask(pilot, "second")
        assert [text for _, text in said(bench)] == ["first", "One", "second", "Two"]


async def test_a_crash_in_an_answer_keeps_the_chat_and_offers_a_restart() -> None:
    died = EngineDied("The engine's process died in the middle of an answer (SIGKILL).")
    bench = Bench([Script([*plain("Half "), died])])
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "hi")
        await until(pilot, lambda: bench.app.engine.phase == "broken")
        await until(pilot, lambda: "F9" in bench.notice)
        assert said(bench) == [("user", "hi"), ("assistant", "Half ")]
        await until(pilot, lambda: "✗ broken off" in bench.shown)
        await pilot.press("f9")
        await bench.ready(pilot)
        assert len(bench.engines) == 2
        assert "Half" in bench.shown


async def test_an_error_before_the_answer_gives_the_question_back() -> None:
    bench = Bench([Script([]), Script(plain("Yes"))])
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)

        def refuse(request: object) -> object:
            raise EngineError("the draft length must be between 1 and 32")

        bench.engine.generate = refuse  # type: ignore[method-assign,assignment]
        await bench.type(pilot, "hi")
        await until(pilot, lambda: "draft length" in bench.notice)
        await until(pilot, lambda: bench.prompt.text == "hi")
        assert said(bench) == []
        assert bench.app.engine.phase == "ready"


async def test_a_template_that_refuses_says_so_and_keeps_the_text() -> None:
    """V3: the template's own message, with the user's text kept."""
    template = "{{ raise_exception('roles must [/alternate]') }}"
    from dataclasses import replace

    bench = Bench(info=replace(INFO, chat_template=template))
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "hi")
        await until(pilot, lambda: "roles must [/alternate]" in bench.notice)
        assert bench.prompt.text == "hi"
        assert said(bench) == []


async def test_what_will_be_dropped_is_said_before(tmp_path: Path) -> None:
    """K5: an outgrown chat names what goes; the same key again sends it so."""
    from dataclasses import replace

    bench = Bench([Script(plain("word " * 60)), Script(plain("ok"))], info=replace(INFO, context=100))
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "word " * 20)
        bench.prompt.fill("next " * 10)
        await pilot.press("enter")
        await until(pilot, lambda: "oldest 2 messages" in bench.notice)
        assert len(bench.engine.requests) == 1
        await pilot.press("enter")
        await until(pilot, lambda: len(bench.engine.requests) == 2)
        await bench.ready(pilot)
        assert "word" not in prompt_text(bench)
        assert len(said(bench)) == 4


async def test_a_question_longer_than_the_context_is_refused_with_the_number() -> None:
    """K5: by how much it is too long; the text stays."""
    from dataclasses import replace

    bench = Bench(info=replace(INFO, context=100))
    async with bench.app.run_test() as pilot:
        text = "word " * 150
        await bench.ready(pilot)
        bench.prompt.fill(text)
        await pilot.press("enter")
        await until(pilot, lambda: "tokens too long for the context of 100" in bench.notice)
        assert bench.prompt.text == text
        assert bench.engine.requests == []


async def test_switching_the_model_keeps_the_chat_and_stops_the_answer() -> None:
    """P8: switch while generating."""
    from localspec.tui.messages import PairChosen

    wait = Wait()
    bench = Bench([Script([*plain("Half"), wait])])
    async with bench.app.run_test() as pilot:
        await bench.type(pilot, "hi")
        await until(pilot, wait.reached.is_set)
        bench.app.post_message(PairChosen("other"))
        await until(pilot, lambda: len(bench.engines) == 2)
        await bench.ready(pilot)
        assert bench.engines[0].closed
        assert bench.asked == [None, "other"]
        assert said(bench) == [("user", "hi"), ("assistant", "Half")]
        await until(pilot, lambda: "■ stopped" in bench.shown)


async def test_five_switches_leave_one_engine() -> None:
    """P6: every engine but the last is closed."""
    from localspec.tui.messages import PairChosen

    bench = Bench()
    async with bench.app.run_test() as pilot:
        for number in range(5):
            await bench.ready(pilot)
            bench.app.post_message(PairChosen(f"pair{number}"))
            await until(pilot, lambda wanted=number + 2: len(bench.engines) == wanted)  # type: ignore[misc]
        await bench.ready(pilot)
        assert [engine.closed for engine in bench.engines] == [True] * 5 + [False]


async def test_no_model_at_all_is_a_working_screen() -> None:
    def choose(*_: object) -> None:
        raise EngineError("there is no model here: [/nothing]")

    bench = Bench(choose=choose)  # type: ignore[arg-type]
    async with bench.app.run_test() as pilot:
        await until(pilot, lambda: bench.app.engine.phase == "broken")
        await pilot.press("escape")
        await until(pilot, lambda: bench.app.screen is bench.app.chat)
        await until(pilot, lambda: "[/nothing]" in bench.notice)
        bench.prompt.fill("hello")
        await pilot.press("enter")
        await until(pilot, lambda: "F3" in bench.notice)
        assert bench.prompt.text == "hello"


async def test_no_llama_cpp_names_the_command() -> None:
    """I1: the app starts, explains, and says the exact command."""
    reason = "llama.cpp cannot be loaded (No module named 'llama_cpp'). Install it with: pip install llama-cpp-python"
    bench = Bench(loads_fail={"target": EngineError(reason)})
    async with bench.app.run_test() as pilot:
        await until(pilot, lambda: "pip install llama-cpp-python" in bench.notice)
        assert bench.app.screen is bench.app.chat


async def test_notices_of_the_engine_are_shown() -> None:
    bench = Bench([Script([*plain("Hi"), Tell("drafting is off [here]")])])
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        await until(pilot, lambda: bench.notice == "drafting is off [here]")


async def test_a_new_chat_is_empty_and_keeps_the_old_one() -> None:
    history = History.in_memory()
    bench = Bench(history=history)
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        old = bench.app.chat.desk.talk.chat_id
        await pilot.press("ctrl+n")
        assert said(bench) == []
        assert bench.app.chat.query_one("#welcome").display
        bench.app.chat.open_chat(old, None)
        await until(pilot, lambda: "Hello." in bench.shown)
        assert said(bench) == [("user", "hi"), ("assistant", "Hello.")]


async def test_the_system_prompt_goes_along() -> None:
    bench = Bench(settings=Settings(system="Be brief."))
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        assert "Be brief." in prompt_text(bench)


async def test_the_panel_hides_itself_and_obeys_f2() -> None:
    bench = Bench()
    async with bench.app.run_test(size=(80, 24)) as pilot:
        panel = bench.app.chat.query_one("#panel")
        await bench.ready(pilot)
        assert not panel.display
        await pilot.press("f2")
        assert panel.display
        await pilot.press("f2")
        assert not panel.display
    wide = Bench()
    async with wide.app.run_test(size=(120, 40)) as pilot:
        await wide.ready(pilot)
        await until(pilot, lambda: wide.app.chat.query_one("#panel").display)


async def test_the_session_is_counted() -> None:
    bench = Bench([Script([*plain("a"), Say(("b", "c"), ("bonus", "d")), Say(("e",), ("resampled", "f"), proposed=3)])])
    async with bench.app.run_test(size=(120, 40)) as pilot:
        await bench.ask(pilot, "hi")
        shown = str(bench.app.chat.query_one("#session", Static).content)
        await until(pilot, lambda: bench.app.chat.desk.session.answers == 1)
        assert "3 accepted" in shown
        assert "saved in 1 answer" in shown


async def test_the_panel_says_what_was_decided_and_why() -> None:
    wait = Wait()
    drafted = Say(("b", "c"), ("bonus", "d"), expected=2.4, gain=1.5)
    left = Say(end=("plain", "e"), drafter="none", expected=1.1, gain=0.7)
    bench = Bench([Script([*plain("a"), drafted, wait, left])])
    async with bench.app.run_test(size=(120, 40)) as pilot:
        await bench.type(pilot, "hi")
        told = bench.app.chat.query_one("#decision", Static)
        await until(pilot, lambda: "expects 2.4 tokens for 1.6 passes, 1.50x plain" in str(told.content))
        wait.release.set()
        await until(pilot, lambda: "Not drafting: the best guess promised 0.70x plain." in str(told.content))


def test_the_panel_tells_edits_from_chat_once_there_are_some() -> None:
    from localspec.chat.session import Session, UseFigures
    from localspec.tui.widgets.sidepanel import panel

    session = Session(uses={"chat": UseFigures(3, 90, 60, 3.0, 2.0)})
    assert "edits" not in panel(session, 34).plain
    session.uses["edits"] = UseFigures(1, 300, 50, 10.0, 2.5)
    lines = panel(session, 34).plain.splitlines()
    assert "3 chat          1.50x         1.50" in lines
    assert "1 edit          4.00x         6.00" in lines
    assert max(map(len, lines[:12])) <= 35


async def test_the_mouse_can_be_given_back() -> None:
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ready(pilot)
        written: list[str] = []
        driver = bench.app._driver
        assert driver is not None
        driver.write = written.append  # type: ignore[method-assign]
        await pilot.press("f7")
        assert MOUSE_OFF in "".join(written)
        assert "F7" in bench.notice


@pytest.mark.parametrize("key", ["f9"])
async def test_the_engine_can_be_restarted_at_any_time(key: str) -> None:
    bench = Bench()
    async with bench.app.run_test() as pilot:
        await bench.ask(pilot, "hi")
        await pilot.press(key)
        await until(pilot, lambda: len(bench.engines) == 2)
        await bench.ready(pilot)
        assert "Hello." in bench.shown


def test_every_action_of_the_chat_has_a_key() -> None:
    from textual.binding import Binding

    from localspec.tui.screens.chat import ChatScreen
    from localspec.tui.screens.chat_actions import ChatActions
    from localspec.tui.widgets.transcript import Transcript

    bindings = [b for b in (*ChatScreen.BINDINGS, *Transcript.BINDINGS) if isinstance(b, Binding)]
    bound = {binding.action.split("(")[0].removeprefix("screen.") for binding in bindings}
    # The prompt has a key for the editor.
    actions = {name.removeprefix("action_") for name in vars(ChatActions) if name.startswith("action_")} - {"editor"}
    assert actions <= bound
    assert all(binding.id and binding.key and binding.description for binding in bindings)


async def test_tab_reaches_everything() -> None:
    bench = Bench()
    async with bench.app.run_test(size=(120, 40)) as pilot:
        await bench.ask(pilot, "hi")
        reached = set()
        for _ in range(4):
            await pilot.press("tab")
            focused = bench.app.focused
            reached.add(focused.id if focused else None)
        assert reached == {"transcript", "panel", "prompt"}
