"""Writing the prompt in the person's own editor."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported


class CannotEdit(Exception):
    """The editor could not be used; `str(error)` is one line."""


def edit(app: App[None], text: str) -> str:
    """The text as the editor left it, byte for byte. The screen is the editor's meanwhile. Raises `CannotEdit`."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise CannotEdit("no editor is set: export EDITOR=nano (or what you like) before starting localspec")
    handle, name = tempfile.mkstemp(prefix="localspec-", suffix=".md")
    file = Path(name)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(text.encode("utf-8"))
        with app.suspend():
            done = subprocess.run([*shlex.split(command), str(file)], check=False)
        if done.returncode:
            raise CannotEdit(f"{command} ended with exit code {done.returncode}: the prompt is as it was")
        return file.read_bytes().decode("utf-8")
    except SuspendNotSupported:
        raise CannotEdit("this terminal cannot be lent to an editor") from None
    except (OSError, ValueError) as error:
        raise CannotEdit(f"{command}: {error}") from None
    finally:
        file.unlink(missing_ok=True)
