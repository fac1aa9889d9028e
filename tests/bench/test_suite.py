"""Which requests and modes are measured, in which order, how long it takes, and what a stop leaves."""

from pathlib import Path

import pytest

from localspec.bench import suite, where
from localspec.bench.paired import GREEDY, Measured, Plan
from localspec.bench.suite import Setting, first_of_each, measure, modes, plain_seconds, seconds
from localspec.bench.workloads import Task
from localspec.engine.requests import EngineConfig
from tests.bench.answers import CHAT, EDIT_A, EDIT_B, Timed, prompting
from tests.fake_engine import INFO


def test_so_many_of_each_category_in_the_order_they_come() -> None:
    tasks = [EDIT_A, CHAT, EDIT_B, Task("d", "chat", "more")]
    assert [task.id for task in first_of_each(tasks, 1)] == ["a", "c"]
    assert [task.id for task in first_of_each(tasks, 2)] == ["a", "b", "c", "d"]
    assert first_of_each(tasks, None) == first_of_each(tasks, 9)


def test_every_temperature_has_a_plain_partner() -> None:
    found = modes([("auto", None), ("lookup", 15)], (0.0, 1.0))
    assert [mode.name for mode in found] == [
        "plain", "auto", "lookup 15", "plain, temperature 1", "auto, temperature 1", "lookup 15, temperature 1",
    ]  # fmt: skip
    assert [mode.speculate for mode in found] == ["off", "auto", "lookup"] * 2
    assert {mode.sampling.temperature for mode in found[3:]} == {1.0}
    assert all(mode.sampling == GREEDY for mode in found[:3])
    assert found[2].draft_length == 15


def test_modes_of_all_temperatures_take_turns_on_a_prompt() -> None:
    """The prompt is read once for all of them."""
    engine, measured = Timed(), Measured()
    plan = Plan([EDIT_A, CHAT], modes([("auto", None)], (0.0, 1.0)), 2, 8)
    told: list[tuple[int, int, str]] = []
    measure(measured, plan, Setting(engine, prompting, progress=lambda *at: told.append(at)))
    asked = [(request.prompt[0].text, request.speculate, request.sampling.temperature) for request in engine.requests]
    there = [("off", 0.0), ("auto", 0.0), ("off", 1.0), ("auto", 1.0)]
    assert asked == [(text, *mode) for text in ("edit a", "talk") for mode in there + there[::-1]]
    assert told[0] == (0, 16, "a, plain")
    assert told[1] == (1, 16, "a, auto")
    assert told[-1] == (16, 16, "")


def test_stopped_it_keeps_what_it_has() -> None:
    engine, measured = Timed(), Measured()
    plan = Plan([EDIT_A, CHAT], modes([("auto", None)], (0.0,)), 3, 8)
    measure(measured, plan, Setting(engine, prompting, stopped=lambda: len(engine.requests) >= 5))
    assert len(measured.runs) == 5
    assert len(measured.comparisons()[0].speedups) == 2


def test_the_time_grows_with_answers_and_prompts() -> None:
    plan = Plan([Task("x", "x", "x" * 700)], modes([("auto", None)], (0.0,)), 3, 64)
    # Six answers of 64 tokens at a tenth of a second, and 200 tokens read at .15 of that each.
    assert seconds(plan, 0.1) == pytest.approx(6 * 64 * 0.1 + 200 * suite.READ_SHARE * 0.1)


def test_a_plain_pass_reads_the_file_once(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"x" * 1000)
    assert plain_seconds(file) == pytest.approx(1000 / suite.BYTES_PER_S)


def test_where_it_was_measured(tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    target.write_bytes(b"x" * 5)
    found = where.here(INFO, EngineConfig(str(target)))
    assert (found.target.name, found.target.bytes, found.draft) == ("target.gguf", 5, None)
    assert (found.threads, found.context, found.flash_attn, found.library) == (2, 512, "off", "fake 1.0")
    assert found.cores >= 1
    lines = "\n".join(where.words(found))
    assert "flash attention off" in lines
    assert "fake 1.0" in lines


def test_the_processors_name(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Slow 3000\nmodel name\t: other\n")
    assert where.processor(file) == "Slow 3000"
    assert where.processor(tmp_path / "none")


def test_a_busy_machine_is_told_of() -> None:
    assert where.busy(1.4, 2) == where.busy(None, 2) == ""
    assert "load 1.6 on 2 cores" in where.busy(1.6, 2)
    load = where.load()
    assert load is None or load >= 0
