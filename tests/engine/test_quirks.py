"""Verdicts hold for one build on one processor."""

import os
import sys
from pathlib import Path

import pytest

from localspec.engine import advice, quirks


def test_a_verdict_holds_for_this_build_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: a rebuilt library starts fresh."""
    library = tmp_path / "lib"
    library.mkdir()
    file = library / "libllama.so"
    file.write_bytes(b"one build")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(library))
    state = tmp_path / "state"
    assert not quirks.needs_plain_buffers(state)
    quirks.remember_plain_buffers(state)
    assert quirks.needs_plain_buffers(state)
    times = file.stat()
    file.write_bytes(b"another build")
    assert not quirks.needs_plain_buffers(state)
    file.write_bytes(b"one build")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert quirks.needs_plain_buffers(state)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 1_000_000_000))
    assert not quirks.needs_plain_buffers(state), "the same size, built again"


def test_a_verdict_holds_for_this_processor_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quirks.remember_plain_buffers(tmp_path)
    assert quirks.needs_plain_buffers(tmp_path)
    monkeypatch.setattr(quirks, "cpu_flags", lambda: frozenset({"another"}))
    assert not quirks.needs_plain_buffers(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"a": 1}'])
def test_a_damaged_file_is_no_verdict_and_is_written_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / quirks.FILE_NAME).write_bytes(content)
    assert not quirks.needs_plain_buffers(tmp_path)
    quirks.remember_plain_buffers(tmp_path)
    assert quirks.needs_plain_buffers(tmp_path)


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    quirks.remember_plain_buffers(tmp_path / "file" / "state")
    assert not quirks.needs_plain_buffers(tmp_path / "file" / "state")


@pytest.mark.skipif(sys.platform != "linux", reason="AMX under GCC is a Linux matter here")
def test_the_commands_carry_the_two_flags_where_the_processor_has_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """I2: GCC drops the stores that configure AMX unless told not to."""
    monkeypatch.setattr(quirks, "cpu_flags", lambda: frozenset({"avx2", "amx_tile"}))
    assert "-fno-tree-dse -fno-dse" in advice.rebuild_command()
    monkeypatch.setattr(quirks, "cpu_flags", lambda: frozenset({"avx2"}))
    assert "-fno" not in advice.rebuild_command()
    for flag in ("--force-reinstall", "--no-cache-dir", "--no-binary llama-cpp-python", "llama-cpp-python=="):
        assert flag in advice.rebuild_command()
    assert advice.rebuild_command().startswith('CMAKE_ARGS="')


@pytest.mark.parametrize(("platform", "start"), [("win32", "$env:CMAKE_ARGS="), ("darwin", "CMAKE_ARGS=")])
def test_other_platforms_get_their_own_shell(platform: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1"""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert advice.install_command().startswith(start)
    assert ("GGML_METAL" in advice.install_command()) is (platform == "darwin")
