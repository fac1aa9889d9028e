"""Using the engine that another process has: found by its file, asked over loopback, like one's own."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from localspec.engine.errors import EngineDied, EngineError, PromptTooLong
from localspec.engine.events import Event, Finished, Prefill, Started, Token
from localspec.engine.requests import EngineConfig, Request, Segment
from localspec.server import remote, runtime
from localspec.server.turns import Turns
from tests.fake_engine import INFO, Reading, Say, Script, Tell, Wait, plain
from tests.server.serving import until

ASK = Request((Segment("one two three"),))


def found(config: EngineConfig | None = None, **more: Any) -> remote.RemoteEngine:
    engine = remote.find(config, **more)
    assert engine is not None
    return engine


class TestFinding:
    def test_the_same_file_is_found_under_any_name(self, embedding: Any, model: Path, tmp_path: Path) -> None:
        embedding(model, [Script(plain("x"))])
        alias = tmp_path / "alias.gguf"
        alias.symlink_to(model)
        assert found(EngineConfig(str(alias))).info.target == "tiny.gguf"
        assert found().running.name == "tiny"

    def test_another_model_is_not(self, embedding: Any, model: Path, tmp_path: Path) -> None:
        embedding(model, [Script(plain("x"))])
        other = tmp_path / "other.gguf"
        other.write_bytes(model.read_bytes())
        assert remote.find(EngineConfig(str(other))) is None

    @pytest.mark.parametrize(
        ("wanted", "good"),
        [
            ({"context": INFO.context}, True),
            ({"context": 100}, False),
            ({"threads": INFO.threads}, True),
            ({"threads": 7}, False),
            ({"kv_type": "q8_0"}, False),
            ({"max_draft_length": 48}, False),
            ({"flash_attn": "on"}, False),
            ({"draft": "d.gguf"}, True),
        ],
    )
    def test_what_was_asked_for_must_be_in_force(
        self, embedding: Any, model: Path, wanted: dict[str, Any], good: bool
    ) -> None:
        embedding(model, [Script(plain("x"))])
        assert (remote.find(EngineConfig(str(model), **wanted)) is not None) is good

    def test_a_draft_that_was_asked_for_must_be_there(self, embedding: Any, model: Path) -> None:
        embedding(model, [Script(plain("x"))])
        assert remote.find(EngineConfig(str(model), "d.gguf"), draft_needed=True) is None

    def test_nothing_runs(self) -> None:
        assert remote.find() is None

    def test_the_file_is_the_owners_alone_and_goes_with_the_engine(self, model: Path, embedding: Any) -> None:
        from tests.server.serving import embed

        engine, shared = embed(model, [Script(plain("x"))])
        (file,) = runtime.folder().iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        shared.close()
        engine.close()
        assert list(runtime.folder().iterdir()) == []

    def test_a_file_of_a_dead_process_is_cleaned_away(self, embedding: Any, model: Path) -> None:
        embedding(model, [Script(plain("x"))])
        (file,) = runtime.folder().iterdir()
        stale = file.with_name("1-1.json")
        stale.write_text(json.dumps(json.loads(file.read_text()) | {"started": 1.0}))
        torn = file.with_name("2-2.json")
        torn.write_text('{"pid": 1')
        assert found().running.pid == os.getpid()
        assert not stale.exists()

    @pytest.mark.skipif(os.name == "nt", reason="no zombies there")
    def test_so_is_one_of_a_process_that_nobody_buried(self, embedding: Any, model: Path) -> None:
        embedding(model, [Script(plain("x"))])
        (file,) = runtime.folder().iterdir()
        process = subprocess.Popen([sys.executable, "-c", ""])
        try:
            dead = psutil.Process(process.pid)
            until(lambda: dead.status() == psutil.STATUS_ZOMBIE, "it has ended")
            stale = file.with_name(f"{process.pid}-1.json")
            words = {"pid": process.pid, "started": dead.create_time()}
            stale.write_text(json.dumps(json.loads(file.read_text()) | words))
            assert found().running.pid == os.getpid()
            assert not stale.exists()
        finally:
            process.wait()

    def test_a_port_that_somebody_else_has_now_is_not_asked(self, embedding: Any, model: Path, serving: Any) -> None:
        embedding(model, [Script(plain("x"))])
        (file,) = runtime.folder().iterdir()
        other = serving()
        file.write_text(json.dumps(json.loads(file.read_text()) | {"port": other.port}))
        assert remote.find() is None

    def test_a_server_that_hangs_is_not_waited_for(self, embedding: Any, model: Path) -> None:
        embedding(model, [Script(plain("x"))])
        (file,) = runtime.folder().iterdir()
        with socket.create_server(("127.0.0.1", 0)) as mute:
            port = mute.getsockname()[1]
            newer = file.with_name("9-9.json")
            newer.write_text(json.dumps(json.loads(file.read_text()) | {"port": port, "token": "mute"}))
            assert found().running.token != "mute"

    def test_a_wrong_token_opens_nothing(self, embedding: Any, model: Path) -> None:
        engine = embedding(model, [Script(plain("x"))])
        (file,) = runtime.folder().iterdir()
        file.write_text(json.dumps(json.loads(file.read_text()) | {"token": "guessed"}))
        assert remote.find() is None
        assert engine.requests == []


class TestAnswering:
    def test_the_events_and_the_request_are_the_very_same(self, embedding: Any, model: Path) -> None:
        steps = [Reading(5, 10), Tell("a word"), *plain("Hé"), Say(["l", "l"], end=("resampled", "o"), proposed=5)]
        engine = embedding(model, [Script(steps)])
        direct = list(engine.generate(ASK))
        assert list(found().generate(ASK)) == direct
        assert engine.requests == [ASK, ASK]

    def test_counting_and_the_face_of_a_client(self, embedding: Any, model: Path, tmp_path: Path) -> None:
        embedding(model, [Script(plain("x"))])
        with found() as engine:
            assert engine.alive
            assert engine.start() == engine.info
            assert engine.count(ASK.prompt) == 3
            assert (engine.save(tmp_path / "kv"), engine.restore(tmp_path / "kv")) == (0, 0)
        assert list(tmp_path.iterdir()) == []

    def test_cancelling_ends_the_answer_with_its_last_event(self, embedding: Any, model: Path) -> None:
        wait = Wait()
        embedding(model, [Script([*plain("half"), wait, *plain("late")])])
        engine = found()
        answer = engine.generate(ASK)
        got: list[Event] = [next(answer), next(answer)]
        assert isinstance(got[1], Token)
        until(wait.reached.is_set, "the engine waits")
        engine.cancel()
        last = list(answer)[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.text) == ("cancelled", "half")

    def test_cancelling_again_asks_the_server_nothing(self, embedding: Any, model: Path) -> None:
        """An interrupt is passed on at every event still to come: each asked, and waited a second."""
        wait = Wait()
        embedding(model, [Script([*plain("half"), wait, *plain("late")])])
        engine = found()
        answer = engine.generate(ASK)
        next(answer)
        until(wait.reached.is_set, "the engine waits")
        send, asked = engine._send, []

        def recorded(connection: Any, method: str, path: str, body: Any) -> None:
            asked.append(path)
            send(connection, method, path, body)

        engine._send = recorded  # type: ignore[method-assign]
        for _ in range(3):
            engine.cancel()
        assert [isinstance(event, Finished) for event in answer][-1]
        assert asked == ["/localspec/cancel"]

    def test_cancelling_in_the_queue_ends_it_too(self, embedding: Any, model: Path) -> None:
        wait, turns = Wait(), Turns()
        embedding(model, [Script([*plain("half"), wait]), Script(plain("never"))], turns)
        first, second = found(), found()
        one = first.generate(ASK)
        until(wait.reached.is_set, "the engine waits")
        two = second.generate(ASK)
        until(lambda: turns.waiting == 1, "the second waits")
        second.cancel()
        (last,) = list(two)
        assert isinstance(last, Finished)
        assert (last.reason, last.stats.tokens) == ("cancelled", 0)
        wait.release.set()
        assert isinstance(list(one)[-1], Finished)

    def test_an_answer_that_is_dropped_frees_the_engine(self, embedding: Any, model: Path) -> None:
        wait, turns = Wait(), Turns()
        embedding(model, [Script([*plain("half"), wait]), Script(plain("next"))], turns)
        engine = found()
        answer = engine.generate(ASK)
        assert isinstance(next(answer), Started)
        answer.close()
        until(lambda: not turns.taken, "the answer was cancelled")
        assert [event.text for event in engine.generate(ASK) if isinstance(event, Token)] == ["next"]

    def test_cancelling_before_the_server_knows_of_the_answer_is_not_lost(self, embedding: Any, model: Path) -> None:
        """As an interrupt does that comes while the request is sent."""
        wait = Wait()
        embedding(model, [Script([wait, *plain("late")])])
        engine = found()
        send = engine._send

        def interrupted(connection: Any, method: str, path: str, body: Any) -> None:
            if path.endswith("generate"):
                ending = threading.Thread(target=engine.cancel)
                ending.start()
                until(lambda: engine._answer is not None and asked == ["/localspec/cancel"], "the cancel went ahead")
            asked.append(path)
            send(connection, method, path, body)

        asked: list[str] = []
        engine._send = interrupted  # type: ignore[method-assign]
        last = list(engine.generate(ASK))[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.text) == ("cancelled", "")

    def test_a_reader_in_another_thread_is_let_go_by_close(self, embedding: Any, model: Path) -> None:
        wait = Wait()
        embedding(model, [Script([*plain("half"), wait])])
        engine = found()
        ended = threading.Event()

        def read() -> None:
            for _ in engine.generate(ASK):
                pass
            ended.set()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        until(wait.reached.is_set, "the engine waits")
        engine.close()
        assert ended.wait(20)

    def test_the_owners_answer_goes_before_all_that_wait(self, embedding: Any, model: Path) -> None:
        wait, turns = Wait(), Turns()
        engine = embedding(model, [Script([*plain("one"), wait]), Script(plain("two"))], turns)
        one = found().generate(ASK)
        until(wait.reached.is_set, "a command's answer is being made")
        two = found().generate(ASK)
        until(lambda: turns.waiting == 1, "another command waits")
        own = turns.enter(first=True)
        wait.release.set()
        with turns.turn(own):
            texts = [event.text for event in engine.generate(ASK) if isinstance(event, Token)]
        assert texts == ["two"], "the second script is the owner's"
        assert isinstance(list(one)[-1], Finished)
        assert isinstance(list(two)[-1], Finished)

    def test_the_owner_is_told_when_a_command_is_answered(self, embedding: Any, model: Path) -> None:
        told: list[bool] = []
        embedding(model, [Script(plain("x"))], on_answering=told.append)
        list(found().generate(ASK))
        until(lambda: told == [True, False], "begin and end")


class TestTrouble:
    def test_the_engines_error_comes_in_its_place_and_kind(self, embedding: Any, model: Path) -> None:
        embedding(model, [Script([Reading(1, 9), PromptTooLong("3 tokens too long")])])
        answer = found().generate(ASK)
        assert isinstance(next(answer), Started)
        assert isinstance(next(answer), Prefill)
        with pytest.raises(PromptTooLong, match="3 tokens too long"):
            next(answer)

    def test_a_server_that_is_gone_is_named(self, model: Path) -> None:
        from tests.server.serving import embed

        engine, shared = embed(model, [Script(plain("x"))])
        far = found()
        engine.close()
        shared.close()
        with pytest.raises(EngineDied, match="does not answer"):
            far.generate(ASK)
        assert not far.alive
        far.cancel()

    @pytest.mark.parametrize(
        ("line", "words"),
        [(b'{"event": "Notice", "text": "x"}\n', r"ended in the middle of an answer\.$"), (b"\n", r"ended\.$")],
    )
    def test_a_server_that_ends_says_when(self, embedding: Any, model: Path, line: bytes, words: str) -> None:
        embedding(model, [Script(plain("x"))])
        engine = found()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            engine.running = replace(engine.running, port=listener.getsockname()[1])

            def begin() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + line)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass

            beginning = threading.Thread(target=begin)
            beginning.start()
            with pytest.raises(EngineDied, match=words):
                list(engine.generate(ASK))
            beginning.join()

    def test_too_many_are_refused_in_words(self, embedding: Any, model: Path) -> None:
        wait, turns = Wait(), Turns(limit=0)
        embedding(model, [Script([*plain("one"), wait])], turns)
        one = found().generate(ASK)
        until(wait.reached.is_set, "the engine waits")
        with pytest.raises(EngineError, match="wait already"):
            list(found().generate(ASK))
        wait.release.set()
        list(one)
