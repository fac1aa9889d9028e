"""`localspec edit` as a process: interrupts write nothing, a filter gives its text back, a model without sense."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import DEADLINE_S, POSIX_SIGNALS, Start, interrupted

SOURCE = "def f(x):\n    return x\n"


@POSIX_SIGNALS
@pytest.mark.parametrize("scenario", ["load", "prefill", "decode"])
def test_an_interrupt_writes_nothing(scenario: str, start: Start, long_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(SOURCE)
    process = start("tests.cli.scripted", scenario, "edit", "--target", str(long_model), str(file), "x", "--apply")
    out, err = interrupted(process, tmp_path / "ready")
    assert (process.returncode, out) == (130, b"")
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert file.read_text() == SOURCE


@POSIX_SIGNALS
@pytest.mark.parametrize("scenario", ["load", "prefill", "decode"])
def test_an_interrupted_filter_gives_the_text_back(
    scenario: str, start: Start, long_model: Path, tmp_path: Path
) -> None:
    process = start(
        "tests.cli.scripted", scenario, "edit", "--target", str(long_model), "-", "x", stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(SOURCE.encode())
    process.stdin.close()
    process.stdin = None
    out, err = interrupted(process, tmp_path / "ready")
    assert (process.returncode, out.decode()) == (130, SOURCE)
    assert b"Traceback" not in err


def test_the_real_engine_with_a_model_that_knows_nothing(start: Start, long_model: Path, tmp_path: Path) -> None:
    """Random weights answer with no code block; that is a failure in one line, and no file is touched."""
    file = tmp_path / "code.py"
    file.write_text(SOURCE)
    process = start(
        "localspec", "edit", "--target", str(long_model), "--ctx", "2048", "--threads", "1", "--max-tokens", "40",
        str(file), "Rename f.", "--apply",
    )  # fmt: skip
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (1, b"")
    assert b"nothing was written" in err.splitlines()[-1]
    assert file.read_text() == SOURCE
