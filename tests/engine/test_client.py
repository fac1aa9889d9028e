"""The client against real processes with scripted engines in them."""

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from localspec.engine.client import EngineClient
from localspec.engine.errors import Busy, DecodeError, EngineDied, EngineError, LoadError, PromptTooLong
from localspec.engine.events import Event, Finished, Prefill, Started
from localspec.engine.requests import EngineConfig, Segment
from tests.engine.engine_clients import ask, fake_client, is_gone, text_of, until_token, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripted engines use POSIX signals and libc")


def finish(events: list[Event]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


def test_an_answer_comes_whole_and_in_order() -> None:
    with fake_client() as client:
        assert client.alive
        events = list(client.generate(ask("hello")))
        assert isinstance(events[0], Started)
        assert isinstance(events[1], Prefill)
        assert text_of(events) == "hello"
        assert text_of(list(client.generate(ask("again")))) == "again"
        assert client.count((Segment("four"), Segment("five5"))) == 9
        assert client.tokens((Segment("AB"), Segment("C"))) == (65, 66, 67)


def test_progress_and_facts_of_the_load() -> None:
    fractions: list[float] = []
    client = fake_client()
    try:
        info = client.start(fractions.append)
        assert fractions == [0.5, 1.0]
        assert info.target == "folder/target.gguf"
        assert info.notices == ("from the engine",)
        assert client.info is info
        assert client.start() is info, "a second start answers at once"
    finally:
        client.close()


def test_the_child_gets_the_variables_that_must_be_set_before_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    with fake_client() as client:
        assert client.info is not None
        assert client.info.library.startswith("omp=passive backtrace=1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with fake_client() as client:
        assert client.info is not None
        assert client.info.library.startswith("omp=active"), "a person's own choice stands"


def test_importing_the_client_loads_nothing_heavy() -> None:
    code = (
        "import sys, localspec.engine.client;"
        "print(sorted({'numpy', 'llama_cpp', 'textual', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_second_answer_is_refused_in_words_until_the_first_is_over() -> None:
    """P8"""
    with fake_client() as client:
        first = client.generate(ask("endless"))
        until_token(first)
        with pytest.raises(Busy, match="being made already"):
            client.generate(ask("hello"))
        client.cancel()
        assert finish(list(first)).reason == "cancelled"
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_an_answer_while_loading_is_refused_in_words() -> None:
    """P8"""
    client = fake_client("load-forever")
    loading = threading.Event()
    raised: list[Exception] = []

    def load() -> None:
        try:
            client.start(lambda _: loading.set())
        except EngineError as error:
            raised.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    assert loading.wait(30)
    with pytest.raises(Busy, match="still loading"):
        client.generate(ask("hello"))
    with pytest.raises(Busy, match="loading already"):
        client.start()
    pid = client.pid
    assert pid is not None
    client.close()
    thread.join(30)
    assert [str(error) for error in raised] == ["The engine was closed while it was loading."]
    assert is_gone(pid)


def test_a_load_is_cancelled_and_can_be_tried_again() -> None:
    """P6: a cancelled load leaves no process."""
    client = fake_client("load-forever")
    pids: list[int] = []

    def cancel(_: float) -> None:
        assert client.pid is not None
        pids.append(client.pid)
        client.cancel()

    for _ in range(2):
        with pytest.raises(EngineError, match="cancelled"):
            client.start(cancel)
        assert not client.alive
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)
    with pytest.raises(EngineError, match="not running"):
        client.generate(ask("hello"))
    client.close()


def test_an_exception_in_the_progress_callback_leaves_no_process() -> None:
    client = fake_client("load-forever")
    pids: list[int] = []

    def interrupt(_: float) -> None:
        assert client.pid is not None
        pids.append(client.pid)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.start(interrupt)
    assert is_gone(pids[0])
    client.close()


def test_cancel_during_prefill_ends_the_answer_and_the_next_one_is_right() -> None:
    """S3"""
    with fake_client() as client:
        answer = client.generate(ask("prefill"))
        assert isinstance(next(answer), Started)
        assert isinstance(next(answer), Prefill)
        client.cancel()
        assert [finish(list(answer)).reason] == ["cancelled"]
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_a_cancel_before_the_answer_began_is_not_lost() -> None:
    with fake_client() as client:
        for _ in range(20):
            answer = client.generate(ask("endless"))
            client.cancel()
            assert finish(list(answer)).reason == "cancelled"


def test_a_late_cancel_does_not_touch_the_next_answer() -> None:
    with fake_client() as client:
        for _ in range(20):
            list(client.generate(ask("hello")))
            client.cancel()
            assert finish(list(client.generate(ask("hello")))).reason == "end_of_text"


def test_cancel_needs_no_lock() -> None:
    """A signal handler may interrupt the client anywhere, also while it holds its lock."""
    with fake_client() as client:
        answer = client.generate(ask("endless"))
        until_token(answer)
        with client._lock:
            client.cancel()
        assert finish(list(answer)).reason == "cancelled"


def test_cancel_from_a_signal_handler_that_interrupts_the_wait() -> None:
    """S4: Ctrl+C while the main thread waits for the next event."""
    with fake_client() as client:
        before = signal.signal(signal.SIGUSR1, lambda *_: client.cancel())
        try:
            answer = client.generate(ask("prefill"))
            next(answer)
            next(answer)
            sender = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
            sender.start()
            assert finish(list(answer)).reason == "cancelled"
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_an_exception_out_of_a_signal_handler_does_not_end_the_answer() -> None:
    """S4: the partial text can still be fetched after a KeyboardInterrupt."""
    with fake_client() as client:
        answer = client.generate(ask("prefill"))
        next(answer)
        next(answer)
        sender = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 (outside, the signal would end the tests)
            sender.start()
            next(answer)
        client.cancel()
        assert finish(list(answer)).reason == "cancelled"


@pytest.mark.parametrize("how", ["close", "drop", "never asked"])
def test_an_abandoned_answer_is_cancelled_and_drained(how: str) -> None:
    with fake_client() as client:
        for _ in range(3):
            answer = client.generate(ask("endless"))
            if how != "never asked":
                until_token(answer)
            if how == "close":
                answer.close()
                assert list(answer) == []
            del answer
            gc.collect()
            events = list(client.generate(ask("hello")))
            assert text_of(events) == "hello"
            assert sum(isinstance(event, Started) for event in events) == 1


def test_an_answer_closed_by_another_thread_releases_the_one_that_waits() -> None:
    with fake_client() as client:
        answer = client.generate(ask("prefill"))
        next(answer)
        next(answer)
        closer = threading.Timer(0.05, answer.close)
        closer.start()
        assert list(answer) == []
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_tokens_are_counted_during_an_answer() -> None:
    with fake_client() as client:
        answer = client.generate(ask("endless"))
        until_token(answer)
        assert client.count((Segment("abc"),)) == 3
        with pytest.raises(EngineError, match="ValueError: nothing to count"):
            client.count(())
        client.cancel()
        assert finish(list(answer)).reason == "cancelled"


@pytest.mark.parametrize(
    ("prompt", "kind", "message"),
    [
        ("too long", PromptTooLong, "The prompt is 3 tokens too long."),
        ("refused", DecodeError, "The batch was refused."),
        ("unexpected", EngineError, "ZeroDivisionError: a b"),
        ("odd", EngineError, "Odd"),
        ("unpicklable", EngineError, "TypeError: cannot pickle '_thread.lock' object"),
    ],
)
def test_errors_keep_their_kind_and_words_and_the_engine_lives_on(
    prompt: str, kind: type[EngineError], message: str
) -> None:
    with fake_client() as client:
        with pytest.raises(EngineError) as caught:
            list(client.generate(ask(prompt)))
        assert type(caught.value) is kind
        assert str(caught.value) == message
        assert text_of(list(client.generate(ask("hello")))) == "hello"
        trace = client.log_path is not None and "Traceback" in client.log_path.read_text()
        assert trace is (kind is EngineError), "only what nobody expected has a traceback in the log"


@pytest.mark.parametrize(
    ("mode", "kind", "message"),
    [("load-error", LoadError, "1 and 2"), ("load-odd", EngineError, "Odd")],
)
def test_load_errors_keep_the_nearest_known_kind(mode: str, kind: type[EngineError], message: str) -> None:
    client = fake_client(mode)
    with pytest.raises(EngineError) as caught:
        client.start()
    assert type(caught.value) is kind
    assert str(caught.value) == message
    assert client.pid is None
    client.close()


def test_a_killed_engine_is_named_and_restarted() -> None:
    with fake_client() as client:
        answer = client.generate(ask("endless"))
        until_token(answer)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(EngineDied, match=r"in the middle of an answer \(SIGKILL: .*memory") as caught:
            list(answer)
        assert "\n" not in str(caught.value)
        assert not client.alive
        with pytest.raises(EngineDied, match="SIGKILL"):
            client.generate(ask("hello"))
        with pytest.raises(EngineDied, match="SIGKILL"):
            client.count(())
        client.restart()
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_a_count_that_waits_learns_of_the_death() -> None:
    with fake_client() as client:
        answer = client.generate(ask("native"))
        next(answer)
        next(answer)
        child, pid = client._child, client.pid
        assert child is not None
        assert pid is not None
        # Between two events a count would be answered.
        wait_until(lambda: "in a native call" in child.log_text(), "the engine answers nothing more")

        def kill_once_it_waits() -> None:
            wait_until(lambda: len(child._calls) == 2, "the count waits beside the answer")
            os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_once_it_waits)
        killer.start()
        with pytest.raises(EngineDied, match="while counting tokens"):
            client.count((Segment("abc"),))
        killer.join()


def test_five_restarts_leave_no_process_no_descriptor_and_no_thread() -> None:
    """P6"""
    own = psutil.Process()
    with fake_client() as client:
        pids = []
        client.restart()
        descriptors, threads = own.num_fds(), threading.active_count()
        for _ in range(5):
            pids.append(client.pid)
            list(client.generate(ask("hello")))
            client.restart()
        assert own.num_fds() == descriptors
        assert threading.active_count() == threads
        assert len(set(pids)) == 5
        assert all(is_gone(pid) for pid in pids if pid is not None)
    assert [child.pid for child in own.children() if child.pid in pids] == []


@pytest.mark.parametrize("prompt", ["hello", "endless", "prefill", "native"])
def test_closing_leaves_no_process_whatever_it_does(prompt: str) -> None:
    """T6, P8: an answer is ended politely; a native call that does not listen is killed."""
    client = fake_client()
    client.start()
    pid = client.pid
    assert pid is not None
    answer = client.generate(ask(prompt))
    next(answer)
    next(answer)
    log = client._log
    client.close()
    assert is_gone(pid)
    assert client.pid is None
    assert log is not None
    assert log.stream.closed
    client.close()
    if prompt == "native":
        with pytest.raises(EngineError, match="was closed"):
            list(answer)
    else:
        assert finish(list(answer)).reason in {"cancelled", "end_of_text"}, "asked politely, it came to an end"
    with pytest.raises(EngineError, match="not running"):
        client.generate(ask("hello"))


def test_a_started_client_that_was_closed_starts_again() -> None:
    client = fake_client()
    client.start()
    client.close()
    client.start()
    assert text_of(list(client.generate(ask("hello")))) == "hello"
    client.close()


def test_a_huge_prompt_and_a_huge_answer() -> None:
    text = "x" * 20_000_000
    with fake_client() as client:
        assert text_of(list(client.generate(ask(text)))) == text


def test_what_cannot_be_sent_is_raised_where_it_was_asked() -> None:
    with fake_client() as client:
        with pytest.raises(TypeError, match="pickle"):
            client.generate(ask(threading.Lock()))  # type: ignore[arg-type]
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_a_program_that_cannot_be_started_is_an_error_in_words() -> None:
    client = EngineClient(EngineConfig("t.gguf"), host_command=["/no/such/program"])
    with pytest.raises(EngineError, match="cannot be started"):
        client.start()
    client.close()


def test_an_unwritable_log_place_is_told_once_and_stops_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    client = fake_client(log_file=blocked / "engine.log")
    info = client.start()
    assert len(info.notices) == 2
    assert "cannot be kept" in info.notices[1]
    assert client.log_path is not None
    temporary = client.log_path
    list(client.generate(ask("noise")))
    assert b"native noise" in temporary.read_bytes()
    assert client.restart().notices == ("from the engine",)
    assert client.log_path is not None
    for path in {temporary, client.log_path}:
        path.unlink()
    client.close()


def test_two_engines_at_once_have_a_log_each() -> None:
    with fake_client() as one, fake_client() as other:
        assert one.log_path is not None
        assert other.log_path is not None
        assert one.log_path.name == "engine.log"
        assert other.log_path.name == "engine-2.log"
        list(one.generate(ask("noise")))
        assert "native noise" not in other.log_path.read_text()


def test_the_engine_is_out_of_reach_of_ctrl_c() -> None:
    """Ctrl+C at the terminal goes to a whole process group, and the engine is not in ours."""
    with fake_client() as client:
        assert client.pid is not None
        assert os.getsid(client.pid) != os.getsid(0)
        os.killpg(os.getpgid(client.pid), signal.SIGINT)
        assert text_of(list(client.generate(ask("hello")))) == "hello"
        assert client.alive
