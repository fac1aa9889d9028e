"""`localspec edit -`: a filter, as editors use one. Whatever happens, a text comes out."""

import contextlib
import io
import sys
from typing import Any

from localspec.assist import diff, edit_file
from localspec.assist import edit as edits
from localspec.cli import edit_answers, jsonlines, settings
from localspec.cli.edit_answers import Interrupted
from localspec.cli.edit_show import show_diff, write_bytes
from localspec.cli.errors import FAILED, INTERRUPTED
from localspec.cli.terminal import in_vims_filter, is_terminal

NAME = "standard input"


def edit(instruction: str, values: dict[str, Any]) -> int:
    """stdin to stdout; returns the exit code. Where nothing comes of it the text goes out as it came, then the error
    is raised. Nothing is said on stderr on success."""
    data = sys.stdin.buffer.read()
    # A diff or events are for a reader who sees that they are missing; a text that is missing was deleted.
    bare = not (values["only_diff"] or values["as_json"])
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            file = edit_file.of_bytes(data, NAME)
            ((*results,),) = edit_answers.results([file], instruction, values, shown=False)
            text = edits.edited(file, results)
            new = file.encoded(text)
    except Interrupted:
        if bare:
            write_bytes(data)
        return INTERRUPTED
    except BaseException as error:
        if bare:
            write_bytes(data)
            if in_vims_filter() and isinstance(error, Exception):
                # The reason would stand in the text; Vim says itself that the command failed.
                return FAILED
        raise
    hunks = diff.hunks(file.text, text)
    if values["as_json"]:
        prose = "\n\n".join(result.prose for result in results if result.prose)
        line = {"type": "edit", "file": "-", "applied": False, "diff": diff.unified("stdin", hunks), "prose": prose}
        jsonlines.emit(line | {"text": text})
    elif values["only_diff"]:
        show_diff("stdin", hunks, settings.in_force(values).color)
    else:
        write_bytes(new)
    return 0


def give_back() -> bool:
    """The text that was piped in, as it came; whether one was."""
    if sys.stdin is None or sys.stdin.closed or is_terminal(sys.stdin):
        return False
    write_bytes(sys.stdin.buffer.read())
    return True
