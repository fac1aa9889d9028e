"""Deaths in words, and the safer settings after an illegal instruction (I2)."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from localspec.engine import crash, quirks
from localspec.engine.errors import EngineDied, EngineError
from localspec.engine.events import Notice, Prefill, Started
from tests.engine.engine_clients import ask, fake_client, text_of, until_token

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def verdicts(home: Path) -> dict[str, object]:
    file = home / "state" / quirks.FILE_NAME
    content = json.loads(file.read_text()) if file.exists() else {}
    assert isinstance(content, dict)
    return content


@posix
def test_an_illegal_instruction_at_load_is_survived_told_and_remembered(home: Path) -> None:
    """I2"""
    with fake_client("ill-load") as client:
        assert client.info is not None
        assert "extra_bufts=False" in client.info.library
        assert "illegal instruction" in client.info.notices[-1]
        assert "pip install --force-reinstall" in client.info.notices[-1]
        assert text_of(list(client.generate(ask("hello")))) == "hello"
    assert list(verdicts(home).values()) == [{"extra_bufts": False}]
    # A mode that never dies shows that the verdict alone is what switches them off.
    with fake_client("plain") as second:
        assert second.info is not None
        assert "extra_bufts=False" in second.info.library
        assert "illegal instruction" in second.info.notices[-1]


@posix
def test_an_illegal_instruction_at_the_first_decode_answers_from_the_start(home: Path) -> None:
    """I2"""
    with fake_client("ill-decode") as client:
        assert client.info is not None
        assert "extra_bufts=True" in client.info.library
        events = list(client.generate(ask("hello")))
        kinds = [type(event) for event in events]
        assert kinds[:4] == [Started, Prefill, Notice, Prefill], "one Started, and the notice before the second try"
        assert kinds.count(Started) == 1
        assert text_of(events) == "hello"
        started = events[0]
        assert isinstance(started, Started)
        # The scripted engine reports its seed as the number of tokens.
        assert events[-1].stats.tokens == started.seed, "the second try used the seed that was announced"  # type: ignore[union-attr]
        assert "extra_bufts=False" in client.info.library
        assert text_of(list(client.generate(ask("more")))) == "more"
    assert list(verdicts(home).values()) == [{"extra_bufts": False}]


@posix
def test_a_request_is_cancelled_also_when_it_had_to_be_asked_again() -> None:
    """I2, S3"""
    with fake_client("ill-decode") as client:
        answer = client.generate(ask("endless"))
        client.cancel()
        assert list(answer)[-1].reason == "cancelled"  # type: ignore[union-attr]


@posix
def test_after_a_late_illegal_instruction_the_next_start_is_safer(home: Path) -> None:
    """I2: text that was shown is never answered a second time."""
    with fake_client() as client:
        answer = client.generate(ask("ill-late"))
        until_token(answer)
        with pytest.raises(EngineDied, match=r"SIGILL.*next start uses safer settings"):
            list(answer)
        assert verdicts(home) == {}, "not proved yet"
        client.restart()
        assert text_of(list(client.generate(ask("ill-late")))) == "word "
    assert list(verdicts(home).values()) == [{"extra_bufts": False}]


@posix
@pytest.mark.parametrize("mode", ["ill-always", "ill-decode-always"])
def test_when_the_safer_settings_die_too_the_rebuild_is_named(home: Path, mode: str) -> None:
    """I2"""
    client = fake_client(mode)

    def load_and_ask() -> None:
        client.start()
        list(client.generate(ask("hello")))

    with pytest.raises(EngineDied, match=r"built for another processor.*CMAKE_ARGS=.*pip install") as caught:
        load_and_ask()
    assert "\n" not in str(caught.value)
    assert verdicts(home) == {}
    client.close()


@posix
def test_a_person_who_switched_them_off_is_not_retried() -> None:
    """I2"""
    client = fake_client("ill-always", extra_bufts=False)
    seen: list[float] = []
    with pytest.raises(EngineDied, match="built for another processor"):
        client.start(seen.append)
    assert seen == [0.5], "one try"
    client.close()


@posix
def test_a_failed_assertion_while_loading_shows_the_last_native_lines() -> None:
    """T1"""
    client = fake_client("noisy-load")
    with pytest.raises(EngineDied) as caught:
        client.start()
    message = str(caught.value)
    assert "while loading the model (SIGABRT: a failed assertion" in message
    assert "native words on stdout | native words on stderr\N{REPLACEMENT CHARACTER}[2J | words through libc" in message
    assert "Fatal Python" not in message
    assert client.log_tail()[-1] == "words through libc"
    client.close()


@posix
def test_the_last_lines_are_those_of_this_process_only(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    noisy = fake_client("noisy-load", log_file=log)
    with pytest.raises(EngineDied):
        noisy.start()
    noisy.close()
    with fake_client(log_file=log) as client:
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(EngineDied) as caught:
            list(client.generate(ask("hello")))
    assert "native words" not in str(caught.value)
    assert "native words" in log.read_text()


@posix
def test_an_exit_by_itself_has_its_status_named() -> None:
    with fake_client() as client, pytest.raises(EngineDied, match=r"before the first token \(exit status 9\)"):
        list(client.generate(ask("exit")))
    client = fake_client("load-exit")
    with pytest.raises(EngineDied, match="exit status 3"):
        client.start()
    client.close()


@posix
@pytest.mark.parametrize("mode", ["load-missing", "load-broken-library"])
def test_a_library_that_does_not_load_is_explained_with_the_command(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1"""
    if mode == "load-broken-library":
        monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    client = fake_client(mode)
    with pytest.raises(EngineError, match=r"llama.cpp cannot be loaded \(.*CMAKE_ARGS=.*-m pip install") as caught:
        client.start()
    assert "llama-cpp-python==" in str(caught.value)
    assert "\n" not in str(caught.value)
    client.close()


@posix
def test_another_failed_import_is_not_blamed_on_the_library() -> None:
    client = fake_client("load-other-import")
    with pytest.raises(EngineError, match="ModuleNotFoundError: No module named"):
        client.start()
    client.close()


def test_causes_in_words() -> None:
    assert crash.cause(-11).startswith("SIGSEGV: ")
    assert crash.cause(-250) == "signal 250"
    assert crash.cause(1) == "exit status 1"
    assert "ILLEGAL_INSTRUCTION" in crash.cause(0xC000001D)
    assert "memory ran out" in crash.cause(0xC0000017)
    assert crash.cause(0xC0000005 - (1 << 32)).startswith("STATUS_ACCESS_VIOLATION: ")


def test_illegal_instructions_are_told_from_other_ends() -> None:
    assert crash.is_illegal_instruction(0xC000001D)
    assert crash.is_illegal_instruction(0xC000001D - (1 << 32))
    assert crash.is_illegal_instruction(-4) is (sys.platform != "win32")
    for code in (0, 4, 132, -6, -9, 0xC0000005):
        assert not crash.is_illegal_instruction(code)


def test_native_lines_are_few_short_and_harmless() -> None:
    log = "one\n\n two\r\nthree\x1b]52;c;AAAA\x07\n" + "x" * 500 + "\nfive\nFatal Python error: Aborted\n\nFile a\n"
    assert crash.native_lines(log) == ["two", "three�]52;c;AAAA�", "x" * 199 + "…", "five"]
    assert crash.native_lines("") == []
