"""How the threads of a pass wait: chosen by what else runs, and never against a person's own choice."""

import subprocess
import sys

import pytest

from localspec.engine import machine, waiting


@pytest.mark.parametrize(
    ("others", "threads", "cores", "turns"),
    [(0, 2, 2, waiting.ALONE), (1, 2, 2, waiting.SHARED), (2, 4, 8, waiting.ALONE), (5, 4, 8, waiting.SHARED)],
)
def test_threads_stay_awake_where_cores_are_to_spare(
    monkeypatch: pytest.MonkeyPatch, others: int, threads: int, cores: int, turns: int
) -> None:
    monkeypatch.setattr(waiting, "others_running", lambda: others)
    monkeypatch.setattr(machine, "default_threads", lambda: threads)
    monkeypatch.setattr(machine, "usable_cores", lambda: cores)
    environment: dict[str, str] = {}
    waiting.choose(environment)
    assert environment == {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": str(turns)}


@pytest.mark.parametrize("own", [{"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "7"}])
def test_a_persons_own_choice_stands(own: dict[str, str]) -> None:
    environment = dict(own)
    waiting.choose(environment)
    assert environment == own


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how many threads run")
def test_a_program_that_computes_is_counted() -> None:
    """Two of them, so that one that stands waiting for its start is no matter."""
    commands = [[sys.executable, "-c", "print(flush=True)\nwhile True: pass"]] * 2
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    try:
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        assert waiting.others_running() >= 1
    finally:
        for process in running:
            process.kill()
            process.communicate()


def test_where_nobody_tells_the_machine_counts_as_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> str:
        raise OSError("no such file")

    monkeypatch.setattr(waiting.Path, "read_text", absent)
    assert waiting.others_running() == 0
