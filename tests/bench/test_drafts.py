"""Drafts ranked by the wall clock: which engines stand together, what a row says, who wins."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import drafts
from localspec.bench.drafts import Candidate, Ranking, Row, Setting
from localspec.bench.paired import PLAIN
from localspec.engine.errors import LoadError
from tests.bench.answers import CHAT, EDIT_A, prompting
from tests.bench.cycles import Priced
from tests.cli.streams import CommandLine
from tests.fake_engine import Say, Script, plain
from tests.tiny import vocabulary, write_llama

SMALL, LARGE = Path("a/small.gguf"), Path("b/large.gguf")


class Closing(Priced):
    """A priced engine that can be closed."""

    open = True

    def close(self) -> None:
        self.open = False


def engines() -> dict[str, Closing]:
    """Half of the small draft's tokens are accepted, all of the large one's; the large one costs four times as much."""
    flat = {"verify": lambda width: 10.0 + 2 * (width > 1)}
    return {
        "lookup": Closing(**flat, every=4),
        "small.gguf": Closing(**flat, draft=lambda length: 1.0 * length, accepted=lambda length: length // 2),
        "large.gguf": Closing(**flat, draft=lambda length: 8.0 * length),
    }


def ranked(made: dict[str, Closing], together: Sequence[Sequence[Candidate]] | None = None, **changes: Any) -> Ranking:
    ranking = Ranking()
    setting = Setting(lambda one: (made[one.name], prompting), [EDIT_A, CHAT], 2, 64, **changes)
    drafts.measure(ranking, together or [drafts.candidates([SMALL, LARGE], 4)], setting)
    return ranking


def test_a_smaller_draft_that_agrees_less_can_win() -> None:
    rows = ranked(engines()).rows()
    fixed = {row.candidate: row for row in rows if row.draft_length == 4}
    # 3 tokens for 12 + 4 ms against 5 for 12 + 32 ms; plain is one for 10 ms.
    assert fixed["small.gguf"].speedup == pytest.approx(3 / 1.6)
    assert fixed["large.gguf"].speedup == pytest.approx(5 / 4.4)
    assert fixed["small.gguf"].acceptance_rate == pytest.approx(2 / 3)
    assert fixed["large.gguf"].acceptance_rate == 1.0
    assert (fixed["small.gguf"].draft_cost, fixed["large.gguf"].draft_cost) == pytest.approx((0.1, 0.8))
    assert rows[0] == fixed["small.gguf"]
    assert [row.speedup for row in rows] == sorted((row.speedup for row in rows), reverse=True)  # type: ignore[type-var]
    assert drafts.smaller_wins(rows) == (fixed["small.gguf"], fixed["large.gguf"])


def test_no_finding_when_the_one_that_agrees_most_is_the_fastest() -> None:
    made = engines()
    made["large.gguf"].draft = lambda length: 0.0
    assert drafts.smaller_wins(ranked(made).rows()) is None


def test_engines_take_turns_within_a_round_and_the_next_round_goes_back() -> None:
    made, order = engines(), []
    for name, engine in made.items():
        generate = engine.generate

        def noted(request: Any, name: str = name, generate: Any = generate) -> Any:
            order.append((name, request.prompt[0].text, request.speculate, request.draft_length))
            return generate(request)

        engine.generate = noted  # type: ignore[method-assign]
    ranked(made)
    there = [
        ("lookup", "edit a", "off", None), ("lookup", "edit a", "lookup", None),
        ("small.gguf", "edit a", "off", None), ("small.gguf", "edit a", "draft", None),
        ("small.gguf", "edit a", "draft", 4),
        ("large.gguf", "edit a", "off", None), ("large.gguf", "edit a", "draft", None),
        ("large.gguf", "edit a", "draft", 4),
    ]  # fmt: skip
    assert order[:16] == there + there[::-1]
    assert len(order) == 32
    assert not any(engine.open for engine in made.values())


def test_a_round_is_compared_with_its_own_plain_answer() -> None:
    """The machine is five times slower in every second round, for all."""
    made = engines()
    for engine in made.values():
        per_round = 2 if engine is made["lookup"] else 3
        engine.slow = lambda number, per_round=per_round: 5.0 if number // per_round % 2 else 1.0  # type: ignore[misc]
    assert [(row.candidate, row.speedup) for row in ranked(made).rows()] == [
        (row.candidate, pytest.approx(row.speedup)) for row in ranked(engines()).rows()
    ]


def test_as_many_engines_as_memory_holds_stand_together() -> None:
    needs = [Candidate(str(n), None, (), n) for n in (30, 40, 50, 20, 90)]
    names = [[one.name for one in group] for group in drafts.groups(needs, 100)]
    assert names == [["30", "40"], ["50", "20"], ["90"]]
    assert drafts.groups([], 100) == []


def test_groups_are_loaded_one_after_the_other() -> None:
    made = engines()
    seen: list[list[str]] = []

    def start(one: Candidate) -> Any:
        made[one.name].open = True
        seen.append([name for name, engine in made.items() if engine.open])
        return made[one.name], prompting

    for engine in made.values():
        engine.open = False
    ranking = Ranking()
    groups = [[one] for one in drafts.candidates([SMALL, LARGE], 4)]
    drafts.measure(ranking, groups, Setting(start, [EDIT_A], 1, 64))
    assert seen == [["lookup"], ["small.gguf"], ["large.gguf"]]
    assert len(ranking.rows()) == 5


def test_a_draft_that_cannot_be_loaded_is_left_out() -> None:
    made, told = engines(), []

    def start(one: Candidate) -> Any:
        if one.draft == SMALL:
            raise LoadError("too new")
        return made[one.name], prompting

    ranking = Ranking()
    setting = Setting(start, [EDIT_A], 1, 64, progress=lambda done, total, text: told.append((done, total)))
    drafts.measure(ranking, [drafts.candidates([SMALL, LARGE], 4)], setting)
    assert ranking.failed == {"small.gguf": "too new"}
    assert set(ranking.measured) == {"lookup", "large.gguf"}
    assert told[-1] == (5, 5)


def test_stopped_it_keeps_what_was_measured() -> None:
    made = engines()
    ranking = ranked(made, stopped=lambda: len(made["small.gguf"].requests) >= 3)
    assert len(ranking.measured["small.gguf"].runs) == 3
    assert "large.gguf" not in ranking.measured
    assert not made["large.gguf"].open


def test_files_of_one_name_are_told_apart() -> None:
    found = drafts.candidates([Path("x/m.gguf"), Path("y/m.gguf")], 3)
    assert [one.name for one in found] == ["lookup", "x/m.gguf", "y/m.gguf"]
    assert len({mode.name for one in found for mode in one.modes}) == 5
    assert PLAIN not in found[0].modes


def test_the_winner_must_be_faster_than_plain_beyond_its_interval() -> None:
    from localspec.cli.bench_drafts import verdict

    row = Row("small", "small, 3", 3, 1.4, 1.2, 1.5, 0.5, 2.0, 0.1)
    assert verdict([row]) == "Fastest: small with length 3, 1.40x."
    unsure = Row("small", "small, 3", 3, 1.1, 0.9, 1.5, 0.5, 2.0, 0.1)
    assert "Nothing is clearly faster" in verdict([unsure])
    once = Row("small", "small, 3", 3, 1.4, None, None, 0.5, 2.0, 0.1)
    assert verdict([once]) == "Measured only once, so nothing is sure: small with length 3 came to 1.40x."
    equal = Row("small", "small, 3", 3, 1.004, None, None, 0.5, 2.0, 0.1)
    assert "Nothing is clearly faster" in verdict([equal])


ANSWER = Script([*plain("a"), Say(("b", "c"), end=("bonus", "e")), Say(("f",), end=("resampled", "g"))], "max_tokens")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandLine:
    monkeypatch.setenv("LOCALSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("XDG_CACHE_HOME", "OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    line = CommandLine(monkeypatch)
    line.use(scripts=[ANSWER])
    return line


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_llama(folder / "target.gguf", layers=6)
    write_llama(folder / "near[1].gguf", layers=1, seed=2)
    tokens = vocabulary()
    tokens[7] = ("z", tokens[7][1])
    write_llama(folder / "stranger.gguf", tokens=tokens)
    return folder


ARGUMENTS = ("--prompts", "1", "--repeats", "1")


def test_the_command_ranks_what_it_is_given(cli: CommandLine, models: Path) -> None:
    """T2: names of files are no markup."""
    outcome = cli.run(
        "bench", "drafts", str(models / "target.gguf"), "--draft", str(models / "near[1].gguf"), *ARGUMENTS
    )
    assert (outcome.code, outcome.err) == (0, "")
    rows = [line.split()[:3] for line in outcome.out.splitlines() if "1.00x" in line]
    assert sorted(row[0] for row in rows) == ["lookup", "near[1].gguf", "near[1].gguf", "none"]
    assert "all engines side by side" in outcome.out
    assert [engine.config.draft for engine in cli.engines] == [None, str(models / "near[1].gguf")]
    assert all(engine.closed for engine in cli.engines)


def test_drafts_on_this_disk_are_found(cli: CommandLine, models: Path, tmp_path: Path) -> None:
    """In a folder of the settings, by vocabulary: the stranger is not asked."""
    config = tmp_path / "home" / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[models]\nfolders = [{str(models)!r}]\n")
    outcome = cli.run("bench", "drafts", str(models / "target.gguf"), *ARGUMENTS, "--json")
    found = json.loads(outcome.out)
    assert {row["candidate"] for row in found["rows"]} == {"lookup", "near[1].gguf"}
    assert found["interleaved"] is True
    outcome = cli.run("bench", "drafts", str(models / "target.gguf"), *ARGUMENTS, "--json", "--most", "0")
    assert {row["candidate"] for row in json.loads(outcome.out)["rows"]} == {"lookup"}
    assert "not ranked, because --most is 0: near[1].gguf" in outcome.err


def test_a_draft_that_does_not_fit_is_refused_before_anything_is_loaded(cli: CommandLine, models: Path) -> None:
    outcome = cli.run("bench", "drafts", str(models / "target.gguf"), "--draft", str(models / "stranger.gguf"))
    assert (outcome.code, outcome.out) == (1, "")
    assert "cannot draft for target.gguf" in outcome.err
    assert cli.engines == []


def test_a_draft_that_does_not_load_costs_a_line(cli: CommandLine, models: Path) -> None:
    cli.use(scripts=[ANSWER], loads_fail={"near": LoadError("no memory")})
    outcome = cli.run(
        "bench", "drafts", str(models / "target.gguf"), "--draft", str(models / "near[1].gguf"), *ARGUMENTS, "--json"
    )
    assert outcome.code == 0
    assert "near[1].gguf could not be loaded: no memory" in outcome.err
    assert json.loads(outcome.out)["failed"] == {"near[1].gguf": "no memory"}


def test_interrupted_it_prints_what_it_has(cli: CommandLine, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localspec.cli import interrupts
    from tests.fake_engine import FakeEngine

    handlers: list[interrupts.Interrupts] = []
    enter, generate = interrupts.Interrupts.__enter__, FakeEngine.generate

    def entered(self: interrupts.Interrupts) -> interrupts.Interrupts:
        handlers.append(self)
        return enter(self)

    def interrupted(self: FakeEngine, request: Any) -> Any:
        if request.speculate == "draft":
            handlers[-1]._handle(2, None)
        return generate(self, request)

    monkeypatch.setattr(interrupts.Interrupts, "__enter__", entered)
    monkeypatch.setattr(FakeEngine, "generate", interrupted)
    arguments = (str(models / "target.gguf"), "--draft", str(models / "near[1].gguf"), "--json")
    outcome = cli.run("bench", "drafts", *arguments)
    assert outcome.code == 130
    assert "interrupted" in outcome.err
    # The fake engine ends the answer it was asked for last; nothing more is asked after it.
    modes = {row["mode"] for row in json.loads(outcome.out)["rows"]}
    assert modes == {"lookup, automatic", "near[1].gguf, automatic"}
    assert len(cli.engines) == 2
    assert all(engine.closed for engine in cli.engines)


def test_real_engines_on_tiny_models(tmp_path: Path) -> None:
    tokens = vocabulary(with_bytes=True)
    target = write_llama(tmp_path / "target.gguf", tokens=tokens, context=4096)
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "drafts", str(target), "--draft", str(target), "--most", "0",
         *ARGUMENTS, "--max-tokens", "24", "--threads", "1", "--json"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=True,
    )  # fmt: skip
    rows = {row["mode"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {"lookup, automatic", "target.gguf, automatic", "target.gguf, 3"}
    # The target as its own draft.
    assert rows["target.gguf, 3"]["acceptance_rate"] == 1.0
    assert rows["target.gguf, 3"]["draft_cost"] > 0
    assert all(row["speedup"] > 0 for row in rows.values())
