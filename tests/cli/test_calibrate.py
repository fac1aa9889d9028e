"""`localspec calibrate`: a table whose figures are the report's, and sentences that follow from it."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.bench import theory
from localspec.cli import calibrate_words as words
from localspec.engine.client import EngineClient
from localspec.engine.cost_report import CostReport, FlashTime
from localspec.engine.errors import EngineError
from tests.cli.streams import CommandLine, failed

WIDTHS = tuple(range(1, 34))
STEPS = {1: 1.0, 2: 1.5, 3: 1.9, 4: 1.7, 8: 3.4, 16: 4.0, 32: 6.4}


def curve(width: int) -> float:
    """The step at or above the width: 16 tokens cost four single ones, 4 less than 3."""
    return STEPS[min((w for w in STEPS if w >= width), default=32)]


REPORT = CostReport(
    widths=WIDTHS,
    contexts=(64, 512, 1024),
    table=tuple(tuple(1.0 if w == 1 else curve(w) * scale for w in WIDTHS) for scale in (1.0, 1.0, 1.25)),
    plain_ms=(50.0, 55.0, 60.0),
    samples=tuple(3 if w in STEPS else 0 for w in WIDTHS),
    measured=(64, 1024),
    draft_token=0.1,
    draft_samples=4,
    momentary=1.0,
    flash="off",
    flash_times=(FlashTime(1, 64, 50, 50), FlashTime(16, 1024, 400, 300)),
    faster="off",
)


def test_what_pays_is_the_formulas_break_even() -> None:
    for length, cost in ((1, 1.5), (3, 1.7), (15, 4.0), (31, 6.4)):
        rate = words.pays_from(cost, length)
        assert rate is not None
        assert sum(rate**i for i in range(length + 1)) == pytest.approx(cost)
    assert words.pays_from(4.0, 3) is None
    assert words.pays_from(4.5, 3) is None
    assert theory.expected_tokens(1.0, 5) == 6.0


def test_the_best_length_is_the_best_of_all() -> None:
    def gain(length: int) -> float:
        return sum(0.8**i for i in range(length + 1)) / (curve(length + 1) + 0.1 * length)

    length, found = words.best_length(REPORT, 64, 0.8, 0.1)
    assert found == pytest.approx(max(gain(k) for k in range(1, 33)))
    assert gain(length) == pytest.approx(found)
    assert length == 3, "a step: 4 tokens in a pass cost less than 3"
    assert words.best_length(REPORT, 64, 0.3, 0.5)[1] < 1


def test_the_table_is_the_report(cli: CommandLine, model: Path) -> None:
    cli.use(curve=lambda: REPORT)
    outcome = cli.run("calibrate", "--target", str(model), "--seconds", "7")
    assert outcome.code == 0
    assert cli.engines[0].calibrated == [7.0]
    assert cli.engines[0].closed
    table = {line.split()[0]: line.split() for line in outcome.out.splitlines() if line.strip()[:1].isdigit()}
    assert table["16"][:3] == ["16", "200", "4.00"]
    assert table["16"][4:] == ["75%", "300", "5.00"]
    assert table["12"][2] == "~4.00", "nobody measured 12"
    assert table["1"][3:] == ["█" * len(table["1"][3]), "60.0", "1.00"]
    assert len(table["32"][3]) > len(table["16"][3]) > len(table["4"][3]) > 0
    assert "\x1b" not in outcome.out


def test_it_says_what_the_curve_means(cli: CommandLine, model: Path) -> None:
    cli.use(curve=lambda: REPORT)
    out = cli.run("calibrate", "--target", str(model)).out
    assert (
        "Checking 16 tokens at once costs as much as 4.0 single ones: a lookup of 15 tokens pays from 75% right" in out
    )
    assert "Up to 4 tokens are checked in less time than two plain passes" in out
    assert "4 tokens cost less than 3" in out
    assert "At 1,024 tokens of context a plain pass takes 20% longer, and 16 tokens cost as much as 5.0" in out
    length, gain = words.best_length(REPORT, 64, 0.8, 0.1)
    assert f"at 80% acceptance the best length is {length} and makes it {gain:.2f} times as fast" in out
    assert (
        "Flash attention off is 15% faster with this model here, over passes at 64 and 1,024 tokens of context" in out
    )
    assert "slower than usual" not in out


def test_a_draft_that_cannot_pay_is_said_to() -> None:
    told = " ".join(words.sentences(replace(REPORT, draft_token=0.9)))
    assert "costs 0.90 of a plain pass: at 60% acceptance the draft model cannot pay" in told
    assert "is taken to cost" in " ".join(words.sentences(replace(REPORT, draft_samples=0)))
    assert "draft model" not in " ".join(words.sentences(replace(REPORT, draft_token=None)))


def test_what_was_not_measured_is_not_told() -> None:
    short = replace(REPORT, measured=(64,), faster=None, notes=("There was no memory.",))
    told = list(words.sentences(short))
    assert not any("1,024" in sentence for sentence in told)
    assert told[-1] == "There was no memory."
    assert len(words.headings(short)) == len(words.rows(short)[0]) == 5
    nothing = replace(REPORT, plain_ms=(None, None, None), notes=("A pass failed.",))
    assert list(words.sentences(nothing)) == ["No pass was measured.", "A pass failed."]


def test_only_the_largest_steps_are_spoken_of() -> None:
    saw = tuple(1.0 if w == 1 else w * (1.0 if w % 4 else 0.4 + w / 100) for w in WIDTHS)
    noisy = replace(REPORT, table=(saw,) * 3, samples=(3,) * len(WIDTHS))
    told = next(sentence for sentence in words.sentences(noisy) if "steps" in sentence)
    assert (
        told
        == "The curve has steps: 4 tokens cost less than 3, 8 tokens cost less than 6, 12 tokens cost less than 10."
    )


def test_a_plain_pass_that_does_not_grow_is_said_not_to() -> None:
    told = " ".join(words.sentences(replace(REPORT, plain_ms=(50.0, 45.0, 40.0))))
    assert "At 1,024 tokens of context a plain pass takes no longer, and 16" in told


def test_a_machine_that_is_slow_right_now_is_said_to_be() -> None:
    assert any("1.8 times slower" in sentence for sentence in words.sentences(replace(REPORT, momentary=1.8)))


def test_json_is_the_whole_curve(cli: CommandLine, model: Path) -> None:
    cli.use(curve=lambda: REPORT)
    value = json.loads(cli.run("calibrate", "--target", str(model), "--json").out)
    assert value["target"] == model.name
    assert value["table"][0][15] == 4.0
    assert value["draft_token"] == 0.1
    assert value["faster"] == "off"
    assert any("Checking 16 tokens" in sentence for sentence in value["meaning"])


def test_ctrl_c_keeps_and_shows_what_there_is(cli: CommandLine, model: Path) -> None:
    def interrupted() -> CostReport:
        signal.raise_signal(signal.SIGINT)
        return REPORT

    cli.use(curve=interrupted)
    outcome = cli.run("calibrate", "--target", str(model))
    assert outcome.code == 130
    assert "Checking 16 tokens" in outcome.out
    assert "is kept" in outcome.err
    assert cli.engines[0]._cancelled.is_set()


def test_a_failure_is_one_line(cli: CommandLine, model: Path) -> None:
    def fails() -> CostReport:
        raise EngineError("there is nothing to measure")

    cli.use(curve=fails)
    failed(cli.run("calibrate", "--target", str(model)), "nothing to measure")
    assert cli.engines[0].closed


def test_a_real_engine_is_measured_and_remembers(
    cli: CommandLine, model: Path, twin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way: command, process, library, disk; and the next engine knows the curve."""
    monkeypatch.setattr("localspec.cli.session.EngineClient", EngineClient)
    given = ("--target", str(model), "--draft", str(twin), "--threads", "1", "--ctx", "2048")
    first = json.loads(cli.run("calibrate", *given, "--json").out)
    assert {64, 1024} <= set(first["measured"])
    assert all(first["samples"][width - 1] >= 6 for width in (1, 2, 3, 4, 8, 16, 32))
    assert first["draft_samples"] >= 3
    assert {(t["width"], t["context"]) for t in first["flash_times"]} == {
        (w, c) for w in (1, 4, 16) for c in (64, 1024)
    }
    from localspec.engine.requests import EngineConfig
    from localspec.paths import cache_dir

    config = EngineConfig(
        str(model), str(twin), context=2048, threads=1, flash_attn=first["flash"], cache_dir=str(cache_dir())
    )
    with EngineClient(config) as client:
        known = client.costs()
    # How many samples are believed again depends on how quiet the machine was.
    assert {64, 1024} <= set(known.measured)
    assert all(known.samples[width - 1] > 0 for width in (1, 4, 16, 32))
    assert known.draft_samples > 0


def test_a_machine_without_spare_compute_is_told_so() -> None:
    dear = replace(REPORT, table=(tuple(float(w) for w in WIDTHS),) * 3)
    told = " ".join(words.sentences(dear))
    assert "Checking 2 tokens already takes as long as two plain passes" in told
    assert "Up to 1" not in told
