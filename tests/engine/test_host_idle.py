"""What the engine's process does while nobody asks for anything: useful work that ends when somebody does."""

import sys
import threading
from dataclasses import replace

import pytest

from localspec.engine.client import EngineClient
from localspec.engine.errors import Busy, EngineError
from localspec.engine.requests import SamplerSettings
from localspec.engine.rule_report import RuleJob, RuleRates
from tests.engine.engine_clients import DEADLINE_S, ask, fake_client, text_of, wait_until
from tests.engine.test_host import host, load

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripted engines use POSIX signals and libc")


def log_of(client: EngineClient) -> str:
    assert client.log_path is not None
    return client.log_path.read_text()


def test_idle_work_ends_when_an_answer_is_wanted_and_goes_on_after_it() -> None:
    with fake_client("idles") as client:
        wait_until(lambda: "idle work begins" in log_of(client), "the engine works while it waits")
        assert text_of(list(client.generate(ask("hello")))) == "hello"
        assert "idle work ends" in log_of(client)
        wait_until(lambda: log_of(client).count("idle work begins") == 2, "it works again after the answer")


def test_short_questions_end_idle_work_too() -> None:
    with fake_client("idles") as client:
        for times in range(1, 4):
            wait_until(lambda times=times: log_of(client).count("idle work begins") == times, "the engine works")  # type: ignore[misc]
            assert client.costs().relative(2, 64) == 1.5


def test_closing_ends_idle_work_and_what_was_learnt_is_kept() -> None:
    client = fake_client("idles")
    client.start()
    wait_until(lambda: "idle work begins" in log_of(client), "the engine works while it waits")
    log = client.log_path
    assert log is not None
    client.close()
    assert "kept" in log.read_text(), "it was killed instead"


def test_idle_work_that_fails_costs_no_answer() -> None:
    with fake_client("idle-fails") as client:
        assert text_of(list(client.generate(ask("hello")))) == "hello"
        assert text_of(list(client.generate(ask("again")))) == "again"
        assert "in the idle work" in log_of(client)


def test_costs_are_told_during_an_answer() -> None:
    with fake_client() as client:
        answer = client.generate(ask("endless"))
        next(answer)
        reports = []
        thread = threading.Thread(target=lambda: reports.append(client.costs()))
        thread.start()
        while thread.is_alive():
            next(answer)
        client.cancel()
        assert reports[0].widths == (1, 2)


def test_a_calibration_tells_its_progress_and_a_cancel_ends_it_with_what_there_is() -> None:
    with fake_client() as client:
        fractions: list[float] = []

        def told(fraction: float) -> None:
            fractions.append(fraction)
            if fraction == 0.5:
                with pytest.raises(Busy):
                    client.generate(ask("hello"))
                client.cancel()

        assert client.calibrate(60, told).relative(2, 64) == 3.0
        assert fractions == [0.0, 0.5]
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_a_calibration_that_cannot_be_made_says_why() -> None:
    with fake_client() as client:
        with pytest.raises(EngineError, match="nothing to measure"):
            client.calibrate(-1)
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_a_job_tells_its_progress_and_a_cancel_ends_it_with_what_there_is() -> None:
    job = RuleJob(ask("hello").prompt, SamplerSettings(), 8, 1, 3, seed=1)
    with fake_client() as client:
        fractions: list[float] = []

        def told(fraction: float) -> None:
            fractions.append(fraction)
            if fraction == 0.5:
                with pytest.raises(Busy):
                    client.measure(job)
                client.cancel()

        assert client.measure(job, told) == RuleRates(False)
        assert fractions == [0.0, 0.5]
        with pytest.raises(EngineError, match="nothing to measure"):
            client.measure(replace(job, prompt=()))
        assert text_of(list(client.generate(ask("hello")))) == "hello"


def test_the_pipe_is_the_life_line_during_idle_work_too() -> None:
    with host("idles") as process:
        assert process.stdin is not None
        load(process)
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
