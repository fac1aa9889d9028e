"""Measuring on the real library with tiny models: no answer can tell, it ends when somebody waits, it is kept."""

import json
import threading
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
import pytest

from localspec.engine import calibrate, costs
from localspec.engine.calibrate import GROUPS, RARE, TIMES, plan
from localspec.engine.cost import WINDOW
from localspec.engine.cost_store import CostStore
from localspec.engine.engine import Engine
from localspec.engine.errors import EngineError
from localspec.engine.requests import SamplerSettings
from tests import tiny
from tests.engine.answers import ask
from tests.engine.conftest import MakeEngine


@pytest.fixture(autouse=True)
def measured_however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are over before Python is, and their times are rough; elsewhere they are left alone for that."""
    monkeypatch.setattr(calibrate, "TOO_SHORT_MS", 0.0)
    monkeypatch.setattr(costs, "ROUGH", inf)


LETTERS = SamplerSettings(temperature=0.0, logit_bias=dict.fromkeys(range(tiny.FIRST_LETTER), float("-inf")))
"""Only what is spelled: an answer's text in the next prompt is its tokens again."""


def never() -> bool:
    return False


def after(passes: int) -> Callable[[], bool]:
    """True from the call after so many on."""
    left = iter(range(passes))
    return lambda: next(left, None) is None


def counts(engine: Engine, context: int = calibrate.PREFIX) -> dict[int, int]:
    widths = sorted({1, *(w for group in GROUPS for w in group)})
    return {w: engine._costs.count(w, context) for w in widths if engine._costs.count(w, context)}


def test_the_plan_takes_widths_in_order_of_importance_with_plain_passes_between() -> None:
    seen: dict[int, int] = {}
    order = []
    for width in plan(lambda w: seen.get(w, 0), 33):
        seen[width] = seen.get(width, 0) + 1
        order.append(width)
    assert order[:9] == [1, 1, 1, 1, 4, 16, 1, 4, 16]
    assert {w for w, times in seen.items() if times == TIMES} == {w for group in GROUPS for w in group}
    assert order.index(8) > max(i for i, w in enumerate(order) if w == 16)
    for at, width in enumerate(order):
        assert width == 1 or 1 in order[max(0, at - 2) : at + 3]


def test_the_plan_goes_on_with_what_is_not_settled() -> None:
    """16 tokens are noisy: measured as often as samples are kept, plain passes between; the others are done."""
    seen: dict[int, int] = {}
    order = []
    for width in plan(lambda w: seen.get(w, 0), 33, settled=lambda w: w != 16):
        seen[width] = seen.get(width, 0) + 1
        order.append(width)
    assert seen[16] == WINDOW
    assert seen[4] == seen[28] == TIMES
    assert order[-4:] == [1, 16, 1, 16]


def test_the_plan_leaves_out_what_is_known_and_what_does_not_fit() -> None:
    assert list(plan(lambda w: TIMES, 33)) == []
    assert set(plan(lambda w: 0, 8)) == {1, 2, 3, 4, 5, 6, 8}
    assert set(plan(lambda w: 0, 33, GROUPS[:1])) == {1, 4, 16}
    assert set(plan(lambda w: 0, 33, (*GROUPS, RARE))) == set(range(1, 34))


def test_idle_measuring_finds_the_whole_curve_and_leaves_the_contexts_empty(make_engine: MakeEngine) -> None:
    engine = make_engine("target", "draft")
    engine.idle(never)
    assert set(counts(engine)) == {1, *(w for group in GROUPS for w in group)}
    assert min(counts(engine).values()) >= TIMES
    assert engine._costs.draft_count(calibrate.PREFIX) >= TIMES
    assert engine._loaded.target.tokens == []
    assert engine._model_drafter is not None
    assert engine._model_drafter.context.tokens == []
    assert engine.costs().samples[0] > 0
    assert engine.costs().notes == ()


def rows_of(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Every row of logits that the next answers look at, as they are made."""
    rows: list[np.ndarray] = []
    decode = engine._loaded.target.decode

    def watched(tokens: list[int], wanted: int = 1) -> np.ndarray:
        found = decode(tokens, wanted)
        rows.append(found.copy())
        return found

    monkeypatch.setattr(engine._loaded.target, "decode", watched)
    return rows


@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
@pytest.mark.parametrize("flash", ["on", "off"])
def test_answers_after_measuring_are_those_without(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, mode: str, flash: str
) -> None:
    """Before the first answer and after each of one conversation: the same tokens; and without drafts, where the same
    passes are made, the same logits to the last bit."""
    told: list[list[int]] = []
    seen: list[list[np.ndarray]] = []
    for measuring in (False, True):
        engine = make_engine("target", "draft", flash_attn=flash)
        if measuring:
            engine.idle(never)
        ids: list[int] = []
        all_rows: list[np.ndarray] = []
        text = "abcabcabd"
        for _ in range(3):
            with monkeypatch.context() as patch:
                rows = rows_of(engine, patch)
                length = None if mode == "off" else 3
                answer = ask(engine, text, sampling=LETTERS, speculate=mode, draft_length=length, max_tokens=30)
            all_rows += rows
            ids += answer.ids
            assert answer.end.stats.prompt_reused == (0 if text == "abcabcabd" else len(text) - 3)
            text += answer.end.text + "ab"
            if measuring:
                held = list(engine._loaded.target.tokens)
                engine.idle(never)
                assert engine._loaded.target.tokens == held
                assert counts(engine, len(held))[16] >= TIMES
        told.append(ids)
        seen.append(all_rows)
    assert told[0] == told[1]
    if mode == "off":
        assert len(seen[0]) == len(seen[1]) > 60
        for without, with_it in zip(*seen, strict=True):
            assert np.array_equal(without, with_it)


def test_a_token_left_behind_by_measuring_would_be_noticed(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: a cut that leaves another token in the conversation's last place, and hides it."""

    def last_answer(engine: Engine, measure: Callable[[], None]) -> str:
        first = ask(engine, "abcabcabd", sampling=LETTERS, max_tokens=30)
        measure()
        try:
            return ask(engine, "abcabcabd" + first.end.text + "ab", sampling=LETTERS, max_tokens=30).end.text
        except EngineError as error:
            return str(error)

    right = make_engine("target")
    wrong = make_engine("target")
    target = wrong._loaded.target
    truncate = target.truncate

    def leaves_a_token(keep: int) -> int:
        held = target.tokens[:keep]
        truncate(keep - 1)
        target.decode([tiny.FIRST_LETTER + 5], 0)
        target.tokens[:] = held
        return keep

    def with_fault() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(target, "truncate", leaves_a_token)
            wrong.idle(never)

    without = make_engine("target")
    expected = last_answer(without, lambda: None)
    assert last_answer(right, lambda: right.idle(never)) == expected
    assert last_answer(wrong, with_fault) != expected


def test_a_short_answer_has_the_measured_curve_as_its_baseline(make_engine: MakeEngine) -> None:
    """Two plain cycles are too few to be a baseline: before any measuring there is none, after it a calibrated one."""
    engine = make_engine("target")
    assert ask(engine, "abcabcabd", max_tokens=2).end.stats.baseline == "none"
    engine.idle(never)
    stats = ask(engine, "abcabcabe", max_tokens=2).end.stats
    assert stats.baseline == "calibrated"
    assert stats.plain_tokens_per_s is not None
    assert ask(engine, "abcabcabd", max_tokens=30).end.stats.baseline == "measured"


def test_it_ends_before_the_next_pass_when_somebody_waits(make_engine: MakeEngine) -> None:
    engine = make_engine("target")
    # Two looks for the prefix, one for each pass, and the one that ends it.
    engine.idle(after(2 + 5))
    assert sum(counts(engine).values()) == 5
    assert engine._loaded.target.tokens == []


def test_a_cancel_ends_the_pass_in_flight_and_leaves_the_record_true(make_engine: MakeEngine) -> None:
    engine = make_engine("target")
    ask(engine, "abcabcabd", speculate="off", max_tokens=20)
    held = list(engine._loaded.target.tokens)
    looks = 0

    def cancelled_in_the_third_pass() -> bool:
        nonlocal looks
        looks += 1
        if looks == 3:
            engine.cancel()
        return False

    engine.idle(cancelled_in_the_third_pass)
    assert looks == 3
    assert engine._loaded.target.tokens == held
    assert ask(engine, "abcabcabd", speculate="off", max_tokens=20)


def test_the_budget_is_for_the_whole_engine(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "BUDGET_S", 0.0)
    engine = make_engine("target")
    engine.idle(never)
    assert counts(engine) == {}


def test_a_pass_too_short_to_matter_is_not_measured(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "TOO_SHORT_MS", 1e6)
    engine = make_engine("target", "draft")
    engine.idle(never)
    assert any("less than" in note for note in engine.costs().notes)
    assert counts(engine) == {1: TIMES}
    assert engine._costs.draft_count(calibrate.PREFIX) == 0


@pytest.mark.parametrize("name", ["hybrid", "sliding"])
def test_a_cache_that_cannot_be_cut_anywhere_is_measured_only_while_empty(make_engine: MakeEngine, name: str) -> None:
    engine = make_engine(name, swa_full=False)
    assert engine._loaded.target.depth.kind != "unlimited"
    assert any("cannot be cut back" in note for note in engine.costs().notes)
    engine.idle(never)
    assert counts(engine, 0)[4] >= TIMES
    assert engine._loaded.target.tokens == []
    ask(engine, "abcabcabd" * 10, speculate="off", max_tokens=20)
    held = list(engine._loaded.target.tokens)
    before = counts(engine, len(held))
    engine._calibration._spent = 0.0
    engine.idle(never)
    assert engine._loaded.target.tokens == held
    assert counts(engine, len(held)) == before


# -- on disk ---------------------------------------------------------------------------------------------------------


def test_what_was_measured_is_not_measured_again(make_engine: MakeEngine, tmp_path: Path) -> None:
    first = make_engine("target", "draft", cache_dir=str(tmp_path))
    first.idle(never)
    first.close()
    files = list((tmp_path / "costs").iterdir())
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 8192
    second = make_engine("target", "draft", cache_dir=str(tmp_path))
    for width in (1, 4, 16, 32):
        relative = second._costs.relative(width, 64)
        assert relative == pytest.approx(first._costs.relative(width, 64), rel=0.01)
    assert second._costs.plain_ms(64) == pytest.approx(first._costs._usual_ms(64), rel=0.01)
    assert second._costs.draft_token(64) == pytest.approx(first._costs.draft_token(64), rel=0.01)
    before = counts(second)
    second.idle(never)
    assert counts(second) == before


@pytest.mark.parametrize(
    "change",
    [{"threads": 2}, {"flash_attn": "off"}, {"kv_type": "f32"}, {"extra_bufts": False}, {"target": "twin"}],
    ids=lambda change: next(iter(change)),
)
def test_another_file_or_setting_is_measured_anew(
    make_engine: MakeEngine, tmp_path: Path, change: dict[str, object]
) -> None:
    first = make_engine("target", cache_dir=str(tmp_path))
    first.idle(never)
    first.close()
    other = make_engine(**({"target": "target", "cache_dir": str(tmp_path)} | change))  # type: ignore[arg-type]
    assert counts(other) == {}


def test_answers_refine_what_is_kept(make_engine: MakeEngine, tmp_path: Path) -> None:
    engine = make_engine("target", cache_dir=str(tmp_path))
    ask(engine, "abcabcabd", speculate="off", max_tokens=20)
    engine.close()
    assert make_engine("target", cache_dir=str(tmp_path))._costs.plain_ms(20) is not None


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"curves": 3}', '{"curves": {"wide": [[4]]}}', '{"curves": {"plain": [[1, 64, NaN, 3]]}}',
     pytest.param("[" * 100_000, id="deep"),
     '{"curves": {"plain": [[1, 64, 5e-324, 3]], "wide": [[4, 64, 5e-324, 3]]}}',
     pytest.param(f'{{"curves": {{"wide": [[{10**400}, 64, 2.0, 3], [4, 64, 2.0, {10**400}]]}}}}', id="long"),
     '{"curves": {"plain": [[1, 64, -5.0, 3]], "wide": [[4, 64, "x", 3], [true, 64, 2.0, 3], [4, 64, 1e300, 3]]}}'],
)  # fmt: skip
def test_a_damaged_file_is_no_file(make_engine: MakeEngine, tmp_path: Path, damage: str) -> None:
    first = make_engine("target", cache_dir=str(tmp_path))
    first.idle(never)
    first.close()
    for file in (tmp_path / "costs").iterdir():
        file.write_text(damage)
    engine = make_engine("target", cache_dir=str(tmp_path))
    assert counts(engine) == {}
    engine.idle(never)
    engine.close()
    for file in (tmp_path / "costs").iterdir():
        assert json.loads(file.read_text())["curves"]["plain"]


def test_files_that_nobody_reads_any_more_go(make_engine: MakeEngine, tmp_path: Path) -> None:
    (tmp_path / "costs").mkdir()
    for number in range(40):
        (tmp_path / "costs" / f"{number}.json").write_text("{}")
    engine = make_engine("target", cache_dir=str(tmp_path))
    engine.idle(never)
    engine.close()
    assert len(list((tmp_path / "costs").iterdir())) == 32


def test_two_writers_leave_a_whole_file(tmp_path: Path) -> None:
    """The last one wins; whoever reads meanwhile finds the one or the other."""
    curves = [{"plain": [[1, 64, float(ms), 3] for ms in range(size, 2 * size)]} for size in (5, 400)]
    store = CostStore(str(tmp_path))
    store.write("key", curves[0])

    def write(curve: dict[str, list[list[float]]]) -> None:
        for _ in range(150):
            CostStore(str(tmp_path)).write("key", curve)

    writers = [threading.Thread(target=write, args=(curve,)) for curve in curves]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert store.read("key") in curves
    assert store.read("key") in curves
    assert [file.name for file in (tmp_path / "costs").iterdir()] == ["key.json"]


def test_a_cache_that_cannot_be_written_costs_no_answer(make_engine: MakeEngine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    engine = make_engine("target", cache_dir=str(tmp_path / "file"))
    engine.idle(never)
    assert ask(engine, "abcabcabd", max_tokens=5).ids
    engine.keep()
