"""Writing a file back: whole or not at all, as it was but for its content, and never over somebody else's change."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.assist import writing
from localspec.assist.edit_file import CannotEdit, digest_of, read
from localspec.assist.writing import Changed, replace_file


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\n")
    return path


OLD = digest_of(b"old\n")


def test_mode_and_attributes_are_kept(file: Path) -> None:
    file.chmod(0o754)
    with_attribute = True
    try:
        os.setxattr(file, "user.note", b"mine")
    except (OSError, AttributeError):
        with_attribute = False
    replace_file(file, OLD, b"new\n")
    assert file.read_bytes() == b"new\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o754
    assert not with_attribute or os.getxattr(file, "user.note") == b"mine"
    assert beside(file.parent) == ["a.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
def test_the_owner_is_kept(file: Path) -> None:
    os.chown(file, 1234, 2345)
    file.chmod(0o4755)
    replace_file(file, OLD, b"new\n")
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 2345, 0o4755)


def test_a_symlink_stays_one(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link.py"
    link.symlink_to("../a.py")
    replace_file(link, OLD, b"new\n")
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"
    assert beside(folder) == ["link.py"]


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    file = tmp_path / ("é" * 127)
    file.write_bytes(b"old\n")
    replace_file(file, OLD, b"new\n")
    assert file.read_bytes() == b"new\n"


def test_a_changed_file_is_left_alone(file: Path) -> None:
    file.write_bytes(b"theirs\n")
    with pytest.raises(Changed, match="changed by somebody else"):
        replace_file(file, OLD, b"new\n")
    assert file.read_bytes() == b"theirs\n"


def test_a_change_while_the_new_text_goes_to_the_disk_is_seen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def slow(handle: int) -> None:
        file.write_bytes(b"theirs\n")
        sync(handle)

    monkeypatch.setattr(writing.os, "fsync", slow)
    with pytest.raises(Changed):
        replace_file(file, OLD, b"new\n")
    assert file.read_bytes() == b"theirs\n"
    assert beside(file.parent) == ["a.py"]


def test_a_file_that_is_gone_is_not_made_again(file: Path) -> None:
    file.unlink()
    with pytest.raises(Changed, match="is gone"):
        replace_file(file, OLD, b"new\n")
    assert beside(file.parent) == []


def test_a_read_only_file_is_refused(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(CannotEdit, match="read-only"):
        replace_file(file, OLD, b"new\n")
    assert file.read_bytes() == b"old\n"


def test_a_file_with_two_names_is_refused(file: Path, tmp_path: Path) -> None:
    os.link(file, tmp_path / "b.py")
    with pytest.raises(CannotEdit, match="2 names"):
        replace_file(file, OLD, b"new\n")
    assert (tmp_path / "b.py").read_bytes() == file.read_bytes() == b"old\n"


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_a_full_disk_leaves_the_file_as_it_was(file: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing.os if step == "fsync" else Path, step, full)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, OLD, b"new\n")
    monkeypatch.undo()
    assert file.read_bytes() == b"old\n"
    assert beside(file.parent) == ["a.py"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the limit on file sizes is a Unix thing")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """The system itself refuses the bytes: a process that may write 4 kB to a file and tries 1 MB."""
    file = tmp_path / "a.py"
    file.write_bytes(b"old\n")
    code = f"""
import resource, signal, sys
from pathlib import Path
from localspec.assist.edit_file import digest_of
from localspec.assist.writing import replace_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    replace_file(Path({str(file)!r}), {OLD!r}, b"x" * 1_000_000)
except OSError as error:
    sys.exit(7)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7
    assert file.read_bytes() == b"old\n"
    assert beside(tmp_path) == ["a.py"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_a_crash_leaves_the_old_file_or_the_new_one(file: Path, at: str) -> None:
    """Killed when the new bytes are written but not on the disk, and right before they take the name."""
    code = f"""
import os, signal
from pathlib import Path
from localspec.assist import writing
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if {at!r} == "fsync":
    writing.os.fsync = die
else:
    Path.replace = die
writing.replace_file(Path({str(file)!r}), {OLD!r}, b"new\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes() == b"old\n"
    replace_file(file, OLD, b"new\n")
    assert file.read_bytes() == b"new\n"


class TestWhatIsRead:
    """What cannot be written back byte for byte is refused with the reason."""

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            ("text\n".encode("utf-16"), "UTF-16"),
            ("text\n".encode("utf-16-le"), "UTF-16"),
            ("text\n".encode("utf-16-be"), "UTF-16"),
            ("text\n".encode("utf-32"), "UTF-32"),
            (b"\x7fELF\x02\x01\x00\x00", "binary"),
            (b"caf\xe9\n", "byte 3"),
            (b"a\rb\rc\r", "carriage returns"),
        ],
    )
    def test_no_text_to_edit(self, data: bytes, reason: str, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_bytes(data)
        with pytest.raises(CannotEdit, match=reason) as error:
            read(file)
        assert "a.txt" in str(error.value)
        assert "\n" not in str(error.value)

    def test_places_that_are_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(CannotEdit, match="no such file"):
            read(tmp_path / "none")
        with pytest.raises(CannotEdit, match="directory"):
            read(tmp_path)
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(CannotEdit, match="regular"):
            read(tmp_path / "pipe")

    def test_a_very_large_file_is_refused_without_being_read(self, tmp_path: Path) -> None:
        with (tmp_path / "big").open("wb") as file:
            file.truncate(10**10)
        with pytest.raises(CannotEdit, match="10000 MB"):
            read(tmp_path / "big")

    @pytest.mark.parametrize("data", [b"", b"a\n", b"a", b"\xef\xbb\xbfa\r\n", "é\x0c\u2028\n\tx ".encode()])
    def test_what_is_read_is_written_back_to_the_byte(self, data: bytes, tmp_path: Path) -> None:
        file = tmp_path / "a"
        file.write_bytes(data)
        found = read(file)
        assert not found.text.startswith("\ufeff")
        assert found.encoded(found.text) == data
        assert found.digest == digest_of(data)
