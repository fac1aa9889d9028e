"""`localspec models make-draft`, `--speculate self`, and what the menu says of such drafts, with a scripted engine."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import selfdraft as trying
from localspec.bench.selfdraft import CATEGORIES, ROUNDS
from localspec.engine.errors import LoadError
from localspec.models import selfdraft
from localspec.models.selfdraft import Findings
from tests import tiny
from tests.cli.model_commands import data
from tests.cli.streams import CommandLine
from tests.fake_engine import Say, Script, Wait, plain
from tests.models.stored import menu

pytestmark = pytest.mark.usefixtures("own_places")

ROOT = Path(__file__).parents[2]
PLAIN = Script(plain(*"abcdefg"), reason="max_tokens")
RIGHT = Script([*plain("a"), *[Say("bc", ("bonus", "d"), drafter="self")] * 2], reason="max_tokens")
WRONG = Script([*plain("a"), *[Say((), ("resampled", "b"), drafter="self", proposed=2)] * 6], reason="max_tokens")
"""The same seven tokens in six passes, in two with a draft, and with one that is always wrong."""

TASKS = len(CATEGORIES)


def found(*, worth: bool) -> Findings:
    return Findings(0.9, {"chat": 0.8}, 0.2, 3, 1.4, 3, 1.3, worth)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tiny.write_llama(tmp_path / "mine.gguf", layers=8)


def test_one_that_pays_is_timed_and_said_to_be_worth_it(cli: CommandLine, mine: Path) -> None:
    second = [PLAIN, RIGHT, RIGHT, PLAIN] * TASKS
    assert ROUNDS == 2
    cli.use(scripts=[*[PLAIN, RIGHT] * TASKS, *second])
    outcome = cli.run("models", "make-draft", str(mine))
    assert outcome.code == 0, outcome.err
    assert "7 of 8 layers, without 4 (counted from 0)" in outcome.err
    assert "guesses 100% of the model's own tokens (code-edit 100%, code-generation 100%, chat 100%)" in outcome.out
    assert "one of its tokens costs 0.06 of a plain pass" in outcome.out
    assert "3.00x by the clock" in outcome.out
    assert "Worth using here" in outcome.out
    engine = cli.engines[-1]
    assert (engine.config.drafter, engine.config.target) == ("self", str(mine))
    assert engine.config.draft == str(selfdraft.path_of(mine))
    assert {request.speculate for request in engine.requests} == {"off", "self"}
    assert len(engine.requests) == TASKS * (2 + 2 * ROUNDS)
    assert engine.closed
    kept = selfdraft.find(mine)
    assert kept is not None
    assert kept.measured is not None
    assert (kept.measured.worth, kept.measured.speedup) == (True, pytest.approx(3.0))


def test_one_that_does_not_pay_is_said_not_to(cli: CommandLine, mine: Path) -> None:
    cli.use(scripts=[PLAIN, WRONG] * TASKS)
    outcome = cli.run("models", "make-draft", str(mine), "--keep", "5")
    assert outcome.code == 0, outcome.err
    assert "guesses 0% of the model's own tokens" in outcome.out
    assert "Not worth using here" in outcome.out
    assert f"models remove {mine} --self-draft" in outcome.out
    assert len(cli.engines[-1].requests) == TASKS * 2, "nothing promising: the clock is not asked again"
    kept = selfdraft.find(mine)
    assert kept is not None
    assert kept.measured is not None
    assert (kept.kept, kept.measured.worth, kept.measured.agreement) == (5, False, 0.0)


def test_for_scripts_it_is_one_object(cli: CommandLine, mine: Path) -> None:
    cli.use(scripts=[PLAIN, WRONG] * TASKS)
    made = data(cli.run("models", "make-draft", str(mine), "--json"))
    assert (made["target"], made["kept"], made["layers"], made["left_out"]) == (str(mine), 7, 8, [4])
    assert made["measured"]["by_category"] == dict.fromkeys(["code-edit", "code-generation", "chat"], 0.0)
    assert made["measured"]["worth"] is False
    (listed,) = data(cli.run("models", "list", "--json"))["self_drafts"]
    assert (listed["path"], listed["measured"]) == (made["path"], made["measured"])


def test_of_several_sets_of_layers_the_one_that_guesses_most_stays(
    cli: CommandLine, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is loaded and tried; then the best is written again and measured."""
    first, second, third = (cut.left_out for cut in selfdraft.ways(mine))
    assert len({first, second, third}) == 3
    seen: list[tuple[int, ...]] = []
    real = trying.guesses

    def judged(known: Any, setting: Any) -> float | None:
        real(known, setting)
        one = selfdraft.find(mine)
        assert one is not None
        seen.append(one.left_out)
        return {first: 0.2, second: 0.9, third: 0.5}[one.left_out]

    monkeypatch.setattr(trying, "guesses", judged)
    cli.use(scripts=[PLAIN, WRONG] * TASKS)
    outcome = cli.run("models", "make-draft", str(mine))
    assert outcome.code == 0, outcome.err
    assert seen == [first, second, third]
    kept = selfdraft.find(mine)
    assert kept is not None
    assert (kept.left_out, kept.measured is not None) == (second, True)
    assert f"without {second[0]}: guesses 90%" in outcome.err
    assert all(engine.closed for engine in cli.engines)
    assert [engine.config.draft_copy for engine in cli.engines] == [False, False, False, True]


def test_without_measuring_no_engine_is_started(cli: CommandLine, mine: Path) -> None:
    outcome = cli.run("models", "make-draft", str(mine), "--no-measure")
    assert outcome.code == 0
    assert "not measured, so auto leaves it alone" in outcome.err
    assert cli.engines == []
    assert "not measured" in cli.run("models", "list").out


def test_interrupted_while_it_is_tried_the_draft_is_there_unmeasured(cli: CommandLine, mine: Path) -> None:
    waiting = Wait()
    cli.use(scripts=[PLAIN, Script([*plain("a"), waiting])])

    def interrupt() -> None:
        waiting.reached.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = cli.run("models", "make-draft", str(mine))
    thread.join()
    assert outcome.code == 130
    assert "interrupted: the draft is there" in outcome.err
    kept = selfdraft.find(mine)
    assert kept is not None
    assert kept.measured is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--keep", "8"], "2 to 7 of them can be kept"), (["--keep", "0"], "--keep must be 1 or more")],
)
def test_what_cannot_be_made_is_refused_in_a_line(
    cli: CommandLine, mine: Path, arguments: list[str], words: str
) -> None:
    outcome = cli.run("models", "make-draft", str(mine), *arguments)
    assert outcome.code in (1, 2)
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
    assert selfdraft.here() == []


def test_an_engine_that_cannot_load_it_says_so(cli: CommandLine, mine: Path) -> None:
    cli.use(loads_fail={"self-draft": LoadError("unknown architecture")})
    outcome = cli.run("models", "make-draft", str(mine))
    assert outcome.code == 1
    assert "unknown architecture" in outcome.err


# -- using it ----------------------------------------------------------------------------------------------------------


def test_speculate_self_loads_it(cli: CommandLine, mine: Path) -> None:
    made = selfdraft.make(mine)
    assert cli.run("run", "--target", str(mine), "--speculate", "self", "hi").code == 0
    config = cli.engines[-1].config
    assert (config.draft, config.drafter) == (str(made.path), "self")
    assert cli.engines[-1].requests[-1].speculate == "self"


def test_where_there_is_none_the_command_is_named(cli: CommandLine, mine: Path) -> None:
    outcome = cli.run("run", "--target", str(mine), "--speculate", "self", "hi")
    assert outcome.code == 1
    assert f"`localspec models make-draft {mine}` makes one" in outcome.err
    assert cli.engines == []


@pytest.mark.parametrize("worth", [True, False, None])
def test_auto_takes_it_where_it_was_found_to_be_worth_it(cli: CommandLine, mine: Path, worth: bool | None) -> None:
    made = selfdraft.make(mine)
    if worth is not None:
        selfdraft.remember(made, found(worth=worth))
    assert cli.run("run", "--target", str(mine), "hi").code == 0
    config = cli.engines[-1].config
    assert (config.draft, config.drafter) == ((str(made.path), "self") if worth else (None, "draft"))
    assert cli.engines[-1].requests[-1].speculate == "auto"


def test_a_draft_of_the_pair_or_a_named_one_comes_before_it(cli: CommandLine, mine: Path, tmp_path: Path) -> None:
    twin = tiny.write_llama(tmp_path / "twin.gguf", seed=2)
    selfdraft.remember(selfdraft.make(mine), found(worth=True))
    menu(
        f"[files.big]\npath = '{mine}'\n[files.small]\npath = '{twin}'\n[pairs.two]\ntarget = 'big'\ndraft = 'small'\n"
    )
    for arguments in (["--pair", "two"], ["--target", str(mine), "--draft", str(twin)]):
        assert cli.run("run", *arguments, "hi").code == 0
        assert (cli.engines[-1].config.draft, cli.engines[-1].config.drafter) == (str(twin), "draft")


def test_it_stands_in_for_a_pairs_draft_that_does_not_fit(cli: CommandLine, mine: Path, stranger: Path) -> None:
    made = selfdraft.make(mine)
    selfdraft.remember(made, found(worth=True))
    menu(
        f"[files.big]\npath = '{mine}'\n[files.small]\npath = '{stranger}'\n"
        "[pairs.two]\ntarget = 'big'\ndraft = 'small'\n"
    )
    outcome = cli.run("run", "--pair", "two", "hi")
    assert (outcome.code, outcome.out) == (0, "Hello.")
    assert "drafting with its own layers" in outcome.err
    assert cli.engines[-1].config.draft == str(made.path)


def test_where_it_cannot_be_loaded_auto_goes_on_without(cli: CommandLine, mine: Path) -> None:
    selfdraft.remember(selfdraft.make(mine), found(worth=True))
    cli.use(loads_fail={"self-draft": LoadError("out of memory")})
    outcome = cli.run("run", "--target", str(mine), "hi")
    assert (outcome.code, outcome.out) == (0, "Hello.")
    assert (cli.engines[-1].config.draft, cli.engines[-1].config.drafter) == (None, "draft")
    assert "out of memory" in outcome.err


def test_a_chat_that_goes_on_does_not_take_it_for_a_draft_model(cli: CommandLine, mine: Path) -> None:
    selfdraft.make(mine)
    cli.run("run", "--target", str(mine), "--speculate", "self", "hi")
    outcome = cli.run("run", "-c", "more")
    assert outcome.code == 0, outcome.err
    assert (cli.engines[-1].config.target, cli.engines[-1].config.draft) == (str(mine), None)


def test_a_model_of_which_none_can_be_made_is_not_told_to_make_one(cli: CommandLine, tmp_path: Path) -> None:
    heads = tiny.write_step(tmp_path / "heads.gguf")
    outcome = cli.run("run", "--target", str(heads), "--speculate", "self", "hi")
    assert outcome.code == 1
    assert "carries NextN layers" in outcome.err
    assert "make-draft" not in outcome.err


# -- listing and removing ----------------------------------------------------------------------------------------------


def test_the_list_and_the_check_tell_of_it(cli: CommandLine, mine: Path) -> None:
    made = selfdraft.make(mine)
    selfdraft.remember(made, found(worth=True))
    (line,) = [one for one in cli.run("models", "list").out.splitlines() if one.startswith("mine.gguf")]
    for words in ("7 of 8 layers", "90%", "0.20", "yes, 1.40x at best"):
        assert words in line
    assert "self-draft here: 7 of 8 layers" in cli.run("models", "check", str(mine)).out
    assert "a draft made of the layers of mine.gguf" in cli.run("models", "check", str(made.path)).out


def test_removing_it_alone_asks_and_keeps_the_model(cli: CommandLine, mine: Path) -> None:
    menu(f"[files.mine]\npath = '{mine}'\n")
    selfdraft.make(mine)
    outcome = cli.run("models", "remove", "mine", "--self-draft", "--yes")
    assert outcome.code == 0, outcome.err
    assert "freed" in outcome.err
    assert selfdraft.here() == []
    assert mine.is_file()
    assert cli.run("models", "remove", "mine", "--self-draft", "--yes").code == 1


def test_the_real_engine_drafts_with_it(tmp_path: Path) -> None:
    """Made, measured and used in processes of their own, as a person does it."""
    model = tiny.write_llama(
        tmp_path / "bytes.gguf", layers=8, context=512, tokens=tiny.vocabulary(26, with_bytes=True), scale=1.0
    )

    def localspec(*words: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "localspec", *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    (made,) = localspec("models", "make-draft", str(model), "--json")
    assert (made["kept"], made["layers"]) == (7, 8)
    ask = ("run", "--json", "--target", str(model), "--temp", "0", "--max-tokens", "40", "--threads", "1", "abcabc")
    plainly, drafted = (localspec(*ask, "--speculate", mode) for mode in ("off", "self"))
    assert drafted[-1]["text"] == plainly[-1]["text"]
    assert drafted[0]["drafter"] == "self"
    assert {line["drafter"] for line in drafted if line["type"] == "cycle"} <= {"self", "none"}
    assert drafted[-1]["stats"]["proposed"] > 0
