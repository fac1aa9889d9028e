"""The log stays small, and is never in the way."""

import os
import tempfile
from pathlib import Path

import pytest

from localspec.engine.logfile import MAX_BYTES, EngineLog, read_tail


def test_a_long_log_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    log = EngineLog(path)
    offset = log.begin("first")
    log.stream.write(b"words\n")
    log.close()
    assert path.stat().st_size < 1000
    assert path.with_name("engine.log.old").stat().st_size == MAX_BYTES + 1
    assert read_tail(path, offset) == "words\n"


def test_a_log_is_appended_to_and_told_apart_by_offset(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    for words in (b"one\n", b"two\n"):
        log = EngineLog(path)
        offset = log.begin(f"engine for \ud800 {words!r}")
        log.stream.write(words)
        log.close()
    assert read_tail(path, offset) == "two\n"
    assert b"one\n" in path.read_bytes()
    assert path.read_bytes().count(b"===\n") == 2


def test_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 100 + b"\xff end")
    assert read_tail(path, 0, limit=4) == " end"
    assert read_tail(path, 100) == "\N{REPLACEMENT CHARACTER} end"
    assert read_tail(tmp_path / "absent", 0) == ""


def test_without_any_writable_place_the_engine_still_has_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> tuple[int, str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    (tmp_path / "file").write_text("")
    log = EngineLog(tmp_path / "file" / "engine.log")
    assert log.begin("engine") >= 0
    log.close()
    assert str(log.path) == os.devnull
    assert log.notice is not None


def test_a_closed_log_can_be_taken_again(tmp_path: Path) -> None:
    first = EngineLog(tmp_path / "engine.log")
    second = EngineLog(tmp_path / "engine.log")
    assert second.path.name == "engine-2.log"
    first.close()
    third = EngineLog(tmp_path / "engine.log")
    assert third.path.name == "engine.log"
    second.close()
    third.close()
