"""Replacing a file's content so that a crash, a full disk or another program's change costs nothing.

The new bytes go into a file beside the old one, onto the disk, and then take its name in one step: whoever looks sees
the old content or the new one. Mode, owner and extended attributes are carried over; a symlink stays one, and the file
it names is replaced.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from localspec.assist.edit_file import CannotEdit, digest_of
from localspec.chat.visible import one_line


class Changed(CannotEdit):
    """The file is not what it was when it was read."""


def replace_file(path: Path, expected_digest: str, new_bytes: bytes) -> None:
    """Replace the content of `path`, which must still have `expected_digest`.

    Raises `Changed` when it has not, `CannotEdit` when the file is read-only or has several names, `OSError` when the
    system refuses; the file is then as it was.
    """
    check(path, expected_digest)
    real = path.resolve(strict=True)
    status = real.stat()
    handle, name = tempfile.mkstemp(prefix=".localspec-", suffix=".tmp", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(new_bytes)
            file.flush()
            _carry_over(real, status, temporary)
            os.fsync(file.fileno())
        # Once more, as late as can be: the write above may have taken its time.
        check(path, expected_digest)
        temporary.replace(real)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(real.parent)


def check(path: Path, expected_digest: str) -> None:
    """Raises what `replace_file` would for this file before anything is written."""
    name = one_line(str(path))
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Changed(f"{name} is not a regular file any more: nothing was written")
        # The superuser may write anything; a file that is marked read-only is still not to be edited.
        if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(real, os.W_OK):
            raise CannotEdit(f"{name} is read-only: nothing was written")
        if status.st_nlink > 1:
            raise CannotEdit(
                f"{name} has {status.st_nlink} names (hard links), which a replacement would part: nothing was written"
            )
        if digest_of(real.read_bytes()) != expected_digest:
            raise Changed(f"{name} was changed by somebody else meanwhile: nothing was written")
    except FileNotFoundError:
        raise Changed(f"{name} is gone: nothing was written") from None


def _carry_over(real: Path, status: os.stat_result, temporary: Path) -> None:
    """Owner, mode and extended attributes; an owner that only the superuser can give stays the writer."""
    if hasattr(os, "chown"):
        try:
            os.chown(temporary, status.st_uid, status.st_gid)
        except PermissionError:
            with contextlib.suppress(OSError):
                os.chown(temporary, -1, status.st_gid)
    temporary.chmod(stat.S_IMODE(status.st_mode))
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for attribute in os.listxattr(real):
                with contextlib.suppress(OSError):
                    os.setxattr(temporary, attribute, os.getxattr(real, attribute))


def _sync_folder(folder: Path) -> None:
    """The new name onto the disk, where folders can be synced at all."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
