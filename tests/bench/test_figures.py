"""The figures: what is asked of the engine, what they become, and what is left when they are interrupted."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from localspec.bench import process, report
from localspec.bench.figures import EDIT_LENGTH, SAMPLED, Figures, Setting, measure, second_turn
from localspec.bench.process import MemoryUse, StartUp
from localspec.engine.events import Stats
from localspec.engine.requests import EngineInfo, Request
from tests.bench.answers import CHAT, EDIT_A, EDIT_B, Timed, prompting, stats
from tests.fake_engine import INFO

PAIR = replace(INFO, draft="draft.gguf", drafter="draft")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No processes are started and no files read for the scripted engine."""
    monkeypatch.setattr(process, "start_up", lambda: StartUp((0.1, 0.2, 0.4), ()))
    monkeypatch.setattr(process, "cache_bytes", lambda files, context, kv_type: 1_000_000)


def take(engine: Timed, info: EngineInfo = PAIR, **more: object) -> Figures:
    figures = Figures(info)
    setting = Setting(engine, info, (), (EDIT_A, CHAT, EDIT_B), prompting, rounds=2)
    measure(figures, replace(setting, **more))  # type: ignore[arg-type]
    return figures


def row(figures: Figures, name: str) -> report.Row:
    (found,) = (each for each in report.rows(figures) if name in each.name)
    return found


def test_every_drafter_is_measured_greedy_and_sampled_and_edits_against_plain() -> None:
    engine = Timed()
    figures = take(engine)
    chat, rest = engine.requests[:2], engine.requests[2:]
    assert [request.prompt[0].text.count("|") for request in chat] == [0, 2]
    overhead, edits = rest[:18], rest[18:]
    asked = {(r.speculate, r.draft_length, r.sampling == SAMPLED) for r in overhead}
    assert asked == {(*mode, hot) for mode in (("lookup", 15), ("draft", 4), ("auto", None)) for hot in (False, True)}
    assert [(r.speculate, r.draft_length) for r in edits] == 2 * [
        ("off", None), ("lookup", EDIT_LENGTH), ("lookup", EDIT_LENGTH), ("off", None),
    ]  # fmt: skip
    assert {r.sampling.temperature for r in edits} == {0.0}
    assert [each.task for each in figures.comparisons()] == [EDIT_A, EDIT_B]


def test_without_a_draft_none_is_asked_for() -> None:
    engine = Timed()
    figures = take(engine, INFO)
    assert "draft" not in {request.speculate for request in engine.requests}
    assert not any("draft" in each.name for each in report.rows(figures))


def test_figures_are_told_with_their_bars() -> None:
    def speed(request: Request, number: int) -> Stats:
        fast = {"edit a": 40.0, "edit b": 25.0}.get(request.prompt[0].text, 10.0)
        return stats(
            10.0 if request.speculate == "off" else fast, overhead=0.03, prompt_reused=30 if number == 1 else 0
        )

    figures = take(Timed(speed))
    assert figures.edit_speedup == pytest.approx(3.25)
    assert row(figures, "code edits") == report.Row(
        "code edits, lookup 15: median speed-up", "3.25x", "at least 3.0x, built with AMX", True
    )
    assert row(figures, "overhead, lookup 15, greedy").holds is False
    assert row(figures, "overhead, draft 4, temperature 0.8") == report.Row(
        "overhead, draft 4, temperature 0.8", "3.00%", "at most 5%", True
    )
    # The first turn left 20 tokens of prompt and 11 of answer.
    assert row(figures, "second turn") == report.Row(
        "second turn: prompt tokens reused", "30 of 20", "at least 30", True
    )
    assert row(figures, "--help, best").holds is True
    assert row(figures, "--help, median").value == "0.200 s"
    assert row(figures, "`import localspec`").value == "neither"
    as_json = report.as_json(figures)
    assert as_json["edit_speedup"] == pytest.approx(3.25)
    assert [each["speedups"] for each in as_json["edits"]] == [pytest.approx((4.0, 4.0)), pytest.approx((2.5, 2.5))]
    assert as_json["second_turn"] == {"prompt": 20, "same": 31, "reused": 30}


def test_a_bar_that_does_not_hold_is_said() -> None:
    figures = take(Timed(lambda request, number: stats(10.0, overhead=0.2)))
    assert {each.name: each.holds for each in report.rows(figures) if each.holds is False}.keys() >= {
        "overhead, auto, greedy", "overhead, auto, temperature 0.8", "code edits, lookup 15: median speed-up",
        "second turn: prompt tokens reused",
    }  # fmt: skip
    figures.memory = MemoryUse(500_000_000, 90_000_000, 1_000_000)
    assert row(figures, "anonymous") == report.Row(
        "anonymous memory of the engine", "0.50 GB", "at most 0.49 GB", False
    )
    figures.start_up = StartUp((0.5,), ("textual",))
    assert (row(figures, "best").holds, row(figures, "import").holds) == (False, False)
    assert row(figures, "import").value == "textual"


def test_nothing_measured_is_no_figure() -> None:
    figures = Figures(PAIR)
    assert {(each.value, each.holds) for each in report.rows(figures)} == {("–", None)}
    as_json = report.as_json(figures)
    assert as_json["edit_speedup"] is as_json["memory"] is as_json["start_up"] is as_json["second_turn"] is None
    assert as_json["edits"] == []


def test_stopped_in_between_it_keeps_what_it_has() -> None:
    engine = Timed()
    told: list[tuple[int, int, str]] = []
    figures = take(engine, stopped=lambda: len(engine.requests) >= 22, progress=lambda *step: told.append(step))
    assert len(figures.overheads.runs) == 18
    assert len(figures.edits.runs) == 2
    (found,) = figures.comparisons()
    assert (found.task, found.speedups) == (EDIT_A, (1.0,))
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert {total for _, total, _ in told} == {2 + 18 + 8}
    assert told[-1] == (22, 28, "a, lookup 15")


def test_a_cancelled_chat_has_no_second_turn() -> None:
    engine = Timed(cancelled=True)
    setting = Setting(engine, PAIR, (), (), prompting)
    assert second_turn(setting) is None


@pytest.mark.skipif(sys.platform != "linux", reason="RssAnon is Linux's")
def test_anonymous_memory_is_read_from_the_system() -> None:
    block = bytearray(os.urandom(1 << 20) * 64)
    # Not compared with before: what other tests left may be freed at any moment.
    anonymous = process.anonymous_bytes(os.getpid())
    assert anonymous is not None
    assert len(block) <= anonymous <= psutil.Process().memory_info().rss + (1 << 20)
    figures = take(Timed(pid=os.getpid()))
    assert figures.memory is not None
    assert (figures.memory.files, figures.memory.caches) == (0, 1_000_000)
    assert figures.memory.anonymous >= len(block)


def test_no_such_process_has_no_memory() -> None:
    assert process.anonymous_bytes(2**31 - 1) is None


class TestReal:
    """What the scripted engine leaves out."""

    @pytest.fixture(autouse=True)
    def quick(self) -> None:
        return

    def test_start_up_runs_the_program(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process, "HELP_CALLS", 2)
        found = process.start_up()
        assert len(found.help_s) == 2
        assert 0 < found.help_s[0] <= found.help_s[1]
        assert found.loaded == ()

    def test_caches_are_those_of_every_file(self, tmp_path: Path) -> None:
        from tests.tiny import write_llama

        file = write_llama(tmp_path / "tiny.gguf")
        # 2 layers, one head of 16 keys and 16 values of 2 bytes, for 512 tokens.
        assert process.cache_bytes([file, file], 512, "f16") == 2 * 2 * 32 * 2 * 512
