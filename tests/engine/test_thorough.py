"""The thorough calibration on the real library with tiny models, and what the next load makes of it."""

from math import inf
from pathlib import Path

import numpy as np
import psutil
import pytest

from localspec.engine import costs, machine
from localspec.engine.calibrate import TIMES
from localspec.engine.context import Context
from localspec.engine.engine import Engine
from localspec.engine.load import _flash
from localspec.engine.requests import EngineConfig, FlashAttention, KvType
from localspec.engine.thorough import COMPARED, TURNS
from tests import tiny
from tests.engine.answers import ask
from tests.engine.conftest import MakeEngine


@pytest.fixture(autouse=True)
def kept_however_rough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models' times are."""
    monkeypatch.setattr(costs, "ROUGH", inf)


def test_the_thorough_run_compares_flash_attention_and_the_next_load_follows_it(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine("target", "draft", context=2048, cache_dir=str(tmp_path), flash_attn="auto")
    assert engine.info.flash_attn == "off", "the rule before anything is known"
    ask(engine, "abcabcabd", speculate="off", max_tokens=20)
    held = list(engine._loaded.target.tokens)
    slow_off(monkeypatch)
    fractions: list[float] = []
    report = engine.calibrate(30.0, fractions.append)
    assert engine._loaded.target.tokens == held
    assert report.faster == report.flash == "on"
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    contexts = {time.context for time in report.flash_times}
    assert contexts == {64, 1024}
    assert {time.width for time in report.flash_times} == {1, 4, 16}
    assert all(time.off_ms > 50 > time.on_ms for time in report.flash_times if time.width == 4)
    assert {64, 1024} <= set(report.measured)
    assert all(report.samples[report.widths.index(w)] >= 2 * TIMES for w in (1, 4, 16, 8, 3))
    assert min(report.samples) >= TIMES, "every width up to the longest draft's pass"
    assert report.draft_token is not None
    assert report.draft_samples >= TIMES
    engine.close()
    again = make_engine("target", "draft", context=2048, cache_dir=str(tmp_path), flash_attn="auto")
    assert again.info.flash_attn == "on"
    assert again._costs.count(16, 1024) >= TIMES
    again.close()
    forced = make_engine("target", context=2048, cache_dir=str(tmp_path), flash_attn="off")
    assert forced.info.flash_attn == "off"


def test_turns_that_contradict_each_other_give_no_verdict(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A noisy machine: now the one kind is faster, now the other; the next load keeps to the rule."""
    engine = make_engine("target", context=2048, cache_dir=str(tmp_path), flash_attn="auto")
    decode = Context.decode
    passes = {"on": 0, "off": 0}

    def noisy(self: Context, tokens: list[int], rows: int = 1) -> np.ndarray:
        found = decode(self, tokens, rows)
        if rows:
            kind = self.options.flash_attn
            passes[kind] += 1
            # A turn is three passes, one a width: on is slow in every second turn, off a little in the others.
            turn = (passes[kind] - 1) // len(COMPARED) % TURNS
            slow = turn % 2 == (kind == "off")
            self.busy_s += (0.5 if kind == "on" else 0.1) if slow else 0.0
        return found

    monkeypatch.setattr(Context, "decode", noisy)
    report = engine.calibrate(30.0, lambda _: None)
    engine.close()
    assert report.faster is None
    assert any("stays open" in note for note in report.notes)
    again = make_engine("target", context=2048, cache_dir=str(tmp_path), flash_attn="auto")
    assert again.info.flash_attn == "off"


def slow_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes of four tokens without flash attention seem to take 50 ms more."""
    decode = Context.decode

    def slower(self: Context, tokens: list[int], rows: int = 1) -> np.ndarray:
        found = decode(self, tokens, rows)
        if self.options.flash_attn == "off" and len(tokens) == 4:
            self.busy_s += 0.06
        return found

    monkeypatch.setattr(Context, "decode", slower)


def test_a_thorough_run_that_is_cancelled_keeps_what_it_has(make_engine: MakeEngine, tmp_path: Path) -> None:
    engine = make_engine("target", context=2048, cache_dir=str(tmp_path))
    told = 0

    def cancel_later(_: float) -> None:
        nonlocal told
        told += 1
        if told == 16:
            engine.cancel()

    report = engine.calibrate(30.0, cancel_later)
    assert any("Stopped early" in note for note in report.notes)
    assert report.faster is None
    assert report.samples[0] > 0
    engine.close()
    assert make_engine("target", context=2048, cache_dir=str(tmp_path))._costs.count(1, 64) > 0


@pytest.mark.parametrize(("load", "rough"), [(0.5, False), (9.0, True)])
def test_numbers_from_a_busy_machine_are_called_rough(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, load: float, rough: bool
) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(psutil, "getloadavg", lambda: (load, load, load))
    report = make_engine("target", context=256).calibrate(5.0, lambda _: None)
    assert any("rough" in note for note in report.notes) == rough


def test_a_quantised_cache_is_not_compared_and_says_why(tmp_path: Path) -> None:
    file = tiny.write_llama(tmp_path / "wide.gguf", width=64)
    engine = Engine(EngineConfig(str(file), context=1024, threads=1, kv_type="q8_0"))
    report = engine.calibrate(30.0, lambda _: None)
    engine.close()
    assert report.flash == "on"
    assert report.flash_times == ()
    assert any("q8_0" in note for note in report.notes)


def test_without_memory_for_two_contexts_there_is_one_kind(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine("target", context=1024, flash_attn="off")
    monkeypatch.setattr(machine, "free_memory", lambda: 0)
    report = engine.calibrate(30.0, lambda _: None)
    assert report.flash == "off"
    assert report.faster is None
    assert any("memory" in note for note in report.notes)


@pytest.mark.parametrize("name", ["hybrid", "sliding"])
def test_a_cache_that_cannot_be_cut_gets_a_short_run_with_a_reason(make_engine: MakeEngine, name: str) -> None:
    report = make_engine(name, swa_full=False).calibrate(30.0, lambda _: None)
    assert report.samples[report.widths.index(4)] >= TIMES
    assert report.faster is None
    assert any("cannot be cut" in note for note in report.notes)


def test_what_a_quantised_cache_needs_and_what_a_person_says_come_before_the_verdict() -> None:
    def flash(kind: FlashAttention = "auto", kv_type: KvType = "f16", faster: FlashAttention | None = None) -> str:
        return _flash(EngineConfig("t", flash_attn=kind, kv_type=kv_type), on_gpu=False, faster=faster)

    assert flash(faster="on") == "on"
    assert flash(faster="off") == flash() == "off"
    assert flash("off", faster="on") == "off"
    assert flash(kv_type="q8_0", faster="off") == "on"


@pytest.mark.parametrize("draft", [None, "draft"])
def test_a_context_shorter_than_the_usual_short_one_is_measured_too(make_engine: MakeEngine, draft: str | None) -> None:
    report = make_engine("target", draft, context=16).calibrate(5.0, lambda _: None)
    assert report.measured == (16,)
    assert all(report.samples[report.widths.index(w)] >= TIMES for w in COMPARED)
    assert not any("failed" in note for note in report.notes)
    assert (report.draft_samples >= TIMES) == (draft is not None)
