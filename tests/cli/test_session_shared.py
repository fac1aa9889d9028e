"""Commands take the engine that runs already, and say the same as with one of their own."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localspec.cli.session import OWN_ENGINE, WAITING
from localspec.cli.terminal import StatusLine
from localspec.engine.errors import Busy, EngineDied
from localspec.engine.requests import Request, Segment
from localspec.server import remote, sending
from localspec.server.turns import Turns
from tests.cli.streams import CommandLine, lines, run
from tests.fake_engine import Reading, Say, Script, Wait, plain
from tests.server.serving import embed, until
from tests.tiny import vocabulary, write_step

ANSWER = Script([*plain("def "), Say(["merge"], end=("bonus", "()"))])


@pytest.fixture
def shared(model: Path) -> Iterator[Any]:
    engine, server = embed(model, [ANSWER])
    yield engine
    engine.close()
    server.close()


@pytest.fixture
def own(cli: CommandLine) -> CommandLine:
    cli.use(scripts=[ANSWER])
    return cli


def test_run_asks_the_running_engine_and_loads_none(own: CommandLine, model: Path, shared: Any) -> None:
    outcome = run(own, model, "--max-tokens", "5", "write merge")
    assert (outcome.code, outcome.out) == (0, "def merge()")
    assert own.engines == []
    (request,) = shared.requests
    assert request.max_tokens == 5
    assert "write merge" in "".join(segment.text for segment in request.prompt)
    assert not shared.closed


def test_the_lines_are_those_of_an_own_engine(own: CommandLine, model: Path, shared: Any) -> None:
    far = lines(run(own, model, "--json", "--seed", "7", "hi"))
    assert own.engines == []
    assert lines(run(own, model, "--json", "--seed", "7", "--no-server", "hi")) == far


def test_without_a_model_named_any_running_engine_answers(own: CommandLine, shared: Any) -> None:
    """No model is installed here: with an engine of its own the command would have nothing to load."""
    assert own.run("run", "hi").out == "def merge()"
    assert own.engines == []


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_running_engine_can_be_refused(
    own: CommandLine, model: Path, shared: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv(OWN_ENGINE, "1")
    assert run(own, model, *(["--no-server"] if how == "option" else []), "hi").out == "def merge()"
    assert len(own.engines) == 1
    assert shared.requests == []


@pytest.mark.parametrize(
    "wish", [("--ctx", "300"), ("--threads", "9"), ("--kv-type", "q8_0"), ("--draft-length", "48")]
)
def test_what_the_running_engine_does_not_do_loads_another(
    own: CommandLine, model: Path, shared: Any, wish: tuple[str, str]
) -> None:
    assert run(own, model, *wish, "hi").code == 0
    assert len(own.engines) == 1
    assert shared.requests == []


def test_one_without_the_drafter_of_the_settings_loads_another(cli: CommandLine, home: Path, tmp_path: Path) -> None:
    """As when it is asked for on the command line: an engine without heads could only refuse."""
    heads = write_step(tmp_path / "heads.gguf", tokens=vocabulary(26, with_bytes=True))
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text('speculate = "mtp"\n')
    engine, server = embed(heads, [ANSWER])
    try:
        assert run(cli, heads, "hi").code == 0
    finally:
        engine.close()
        server.close()
    assert engine.requests == []
    assert [one.config.drafter for one in cli.engines] == ["mtp"]


def test_another_model_that_was_named_is_loaded(own: CommandLine, twin: Path, shared: Any) -> None:
    assert run(own, twin, "hi").code == 0
    assert len(own.engines) == 1


def test_a_chat_goes_on_in_the_running_engine_unless_its_caches_were_saved(
    own: CommandLine, model: Path, shared: Any, home: Path
) -> None:
    assert run(own, model, "one").code == 0
    assert run(own, model, "-c", "two").code == 0
    assert len(shared.requests) == 2
    assert "one" in "".join(segment.text for segment in shared.requests[1].prompt)
    kept = home / "cache" / "kv"
    kept.mkdir(parents=True)
    (kept / "1.bin").write_bytes(b"x")
    assert run(own, model, "-c", "three").code == 0
    assert len(shared.requests) == 2
    assert own.engines[0].restored == [kept / "1.bin"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the person was told that the command waits."""
    event, show = threading.Event(), StatusLine.show

    def noted(line: StatusLine, text: str) -> None:
        show(line, text)
        if text == WAITING:
            event.set()

    monkeypatch.setattr(StatusLine, "show", noted)
    monkeypatch.setattr(remote, "LOOK_S", 0.01)
    return event


@pytest.fixture
def sharing(model: Path) -> Iterator[Any]:
    """Shares engines of one's own scripts; `engine, server = sharing([...], turns)`."""
    started: list[Any] = []

    def start(*arguments: Any) -> Any:
        started.append(embed(model, *arguments))
        return started[-1]

    yield start
    for engine, server in started:
        engine.close()
        server.close()


class TestBusy:
    """Editing counts tokens before it asks, which the engine does between two passes."""

    @pytest.fixture
    def edited(self, own: CommandLine, model: Path, tmp_path: Path) -> Any:
        file = tmp_path / "notes.txt"
        file.write_text("one\n")
        new = Script(plain("```\ntwo\n```"))
        own.use(scripts=[new])

        def edit() -> Any:
            return own.run("edit", str(file), "count on", "--target", str(model), "--diff", err_terminal=True)

        return edit, new

    def test_it_is_waited_for_and_the_person_told(
        self, own: CommandLine, sharing: Any, edited: Any, told: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        edit, new = edited
        engine, _ = sharing([new])
        monkeypatch.setattr(remote, "CALL_S", 0.5)
        count = engine.count
        engine.count = lambda prompt: told.wait(20) and count(prompt)
        outcome = edit()
        assert (outcome.code, "+two" in outcome.out, own.engines) == (0, True, [])
        assert len(engine.requests) == 1

    def test_one_that_loads_its_model_again_too(
        self, own: CommandLine, sharing: Any, edited: Any, told: threading.Event
    ) -> None:
        edit, new = edited
        engine, _ = sharing([new])
        count = engine.count

        def loading(prompt: tuple[Segment, ...]) -> int:
            if not told.is_set():
                raise Busy("The model is still loading.")
            return int(count(prompt))

        engine.count = loading
        assert (edit().code, own.engines) == (0, [])

    def test_one_that_hangs_is_not(
        self, own: CommandLine, sharing: Any, edited: Any, told: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        edit, new = edited
        over = threading.Event()
        engine, _ = sharing([new])
        engine.count = lambda prompt: over.wait(20)
        monkeypatch.setattr(remote, "PATIENCE_S", 0.05)
        outcome = edit()
        over.set()
        assert (outcome.code, "+two" in outcome.out) == (0, True)
        assert f"{WAITING}\x1b[0m\r\x1b[2Klocalspec: The running engine" in outcome.err
        assert "hangs. The model is loaded here instead." in outcome.err
        assert (len(own.engines), engine.requests) == (1, [])
        assert own.engines[0].config.context == engine.start().context
        assert own.engines[0].closed

    def test_its_queue_is_a_wait_that_is_told(
        self, own: CommandLine, model: Path, sharing: Any, told: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sending, "PATIENCE_S", 0.01)
        wait = Wait(release=told)
        sharing([Script([*plain("one"), wait]), ANSWER], Turns())
        other = remote.find()
        assert other is not None
        first = other.generate(Request((Segment("x"),)))
        until(wait.reached.is_set, "somebody else is answered")
        # It was not busy yet when it was found.
        monkeypatch.setattr(remote.RemoteEngine, "busy", property(lambda _: False, lambda *_: None), raising=False)
        outcome = run(own, model, "hi", err_terminal=True)
        assert (outcome.code, outcome.out, own.engines) == (0, "def merge()", [])
        list(first)

    def test_an_interrupt_in_the_queue_ends_the_command(self, own: CommandLine, model: Path, sharing: Any) -> None:
        turns = Turns()
        sharing([ANSWER], turns)

        def interrupt() -> None:
            until(lambda: turns.waiting == 1, "the command waits")
            os.kill(os.getpid(), signal.SIGINT)

        with turns.turn(turns.enter(first=True)):
            threading.Thread(target=interrupt).start()
            outcome = run(own, model, "hi")
        assert (outcome.code, outcome.out, own.engines) == (130, "", [])
        assert outcome.err == "localspec: interrupted: the answer is not complete\n"


class TestGone:
    """Before it said anything, an engine of one's own takes its place."""

    @pytest.mark.parametrize("begun", [False, True])
    def test_one_that_dies_before_its_first_token(
        self, own: CommandLine, model: Path, sharing: Any, begun: bool
    ) -> None:
        engine, _ = sharing([Script([*([Reading(3, 9)] if begun else []), EngineDied("It ended by itself.")])])
        outcome = run(own, model, "--json", "hi")
        assert outcome.code == 0
        assert [line["type"] for line in lines(outcome)].count("start") == 1
        assert lines(outcome)[-1]["text"] == "def merge()"
        assert outcome.err == "localspec: It ended by itself. The model is loaded here instead.\n"
        assert (len(own.engines), len(engine.requests)) == (1, 1)

    def test_after_it_the_answer_is_broken(self, own: CommandLine, model: Path, sharing: Any) -> None:
        sharing([Script([*plain("half"), EngineDied("It ended by itself.")])])
        outcome = run(own, model, "hi")
        assert (outcome.code, outcome.out, own.engines) == (1, "half", [])
        assert outcome.err.splitlines()[-1] == "localspec: It ended by itself."

    def test_its_own_engine_is_the_last(self, own: CommandLine, model: Path, sharing: Any) -> None:
        sharing([Script([EngineDied("First.")])])
        own.use(scripts=[Script([EngineDied("Second.")])])
        outcome = run(own, model, "hi")
        assert (outcome.code, len(own.engines)) == (1, 1)
        assert outcome.err.splitlines()[-1] == "localspec: Second."

    def test_a_server_that_ends_while_one_waits_in_its_queue(self, own: CommandLine, model: Path, sharing: Any) -> None:
        turns = Turns()
        _, server = sharing([ANSWER], turns)

        def end() -> None:
            until(lambda: turns.waiting == 1, "the command waits")
            server.close()

        with turns.turn(turns.enter(first=True)):
            ending = threading.Thread(target=end)
            ending.start()
            outcome = run(own, model, "hi")
            ending.join()
        assert (outcome.code, outcome.out, len(own.engines)) == (0, "def merge()", 1)
        assert "was ended. The model is loaded here instead." in outcome.err

    def test_a_server_that_is_stopped_while_one_waits_in_its_queue(
        self, own: CommandLine, model: Path, sharing: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As by Ctrl+Z: nothing comes from it any more, not even that it is still there."""
        monkeypatch.setattr(remote, "SILENCE_S", 0.05)
        turns = Turns()
        sharing([ANSWER], turns)
        with turns.turn(turns.enter(first=True)):
            outcome = run(own, model, "hi")
        assert (outcome.code, outcome.out, len(own.engines)) == (0, "def merge()", 1)
        assert "does not answer: timed out. The model is loaded here instead." in outcome.err
