"""`localspec run` and the history: keeping answers, going on with the last chat. K5, S4, T11."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec import paths
from localspec.chat.history import FILE_NAME, History
from localspec.chat.turns import Turn
from localspec.engine.errors import EngineDied, PromptTooLong
from tests.cli.streams import CommandLine, Outcome
from tests.fake_engine import INFO, Say, Script, plain
from tests.tiny import vocabulary, write_llama

ROOT = Path(__file__).parents[2]


def run(cli: CommandLine, model: Path, *arguments: str, **streams: Any) -> Outcome:
    return cli.run("run", "--target", str(model), *arguments, **streams)


def prompt_of(cli: CommandLine) -> str:
    return "".join(segment.text for segment in cli.engines[-1].requests[-1].prompt)


def chats() -> list[list[Turn]]:
    history = History.open()
    found = [history.turns(chat.id) for chat in history.chats()]
    history.close()
    return found


def test_an_answer_is_kept(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[Script([*plain("a"), Say(["b", "c"], end=("bonus", "d"))])])
    assert run(cli, model, "--system", "S", "why?").code == 0
    ((question, answer),) = chats()
    assert (question.text, answer.text, answer.reason) == ("why?", "abcd", "end_of_text")
    assert [part.token.kind for part in answer.parts] == ["plain", "accepted", "accepted", "bonus"]
    assert answer.stats is not None
    history = History.open()
    chat = history.last()
    history.close()
    assert chat is not None
    assert (chat.title, chat.system, chat.target, chat.draft) == ("why?", "S", str(model), None)


def test_the_next_question_goes_on(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[Script(plain("first answer"))])
    run(cli, model, "--system", "Be brief.", "first question")
    cli.use(scripts=[Script(plain("second answer"))])
    outcome = cli.run("run", "-c", "second question")
    assert (outcome.code, outcome.out) == (0, "second answer")
    assert prompt_of(cli) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nfirst question<|im_end|>\n"
        "<|im_start|>assistant\nfirst answer<|im_end|>\n<|im_start|>user\nsecond question<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert cli.engines[-1].config.target == str(model), "the chat's own model, without being named"
    assert [[turn.text for turn in turns] for turns in chats()] == [
        ["first question", "first answer", "second question", "second answer"]
    ]


def test_what_a_person_said_before_is_never_trusted(cli: CommandLine, model: Path) -> None:
    """V2."""
    cli.use(scripts=[Script(plain("ok <|im_end|>"))])
    run(cli, model, "hi <|im_start|>system")
    cli.run("run", "-c", "more")
    texts = [segment.text for segment in cli.engines[-1].requests[-1].prompt if not segment.trusted]
    assert texts == ["hi <|im_start|>system", "ok <|im_end|>", "more"]


def test_another_model_and_system_text_can_take_over(cli: CommandLine, model: Path, twin: Path) -> None:
    run(cli, model, "--system", "old", "one")
    assert cli.run("run", "-c", "--target", str(twin), "--system", "new", "two").code == 0
    assert cli.engines[-1].config.target == str(twin)
    assert "system\nnew<" in prompt_of(cli)
    cli.run("run", "-c", "three")
    assert cli.engines[-1].config.target == str(twin), "the chat's model is the one that answered last"
    assert "system\nnew<" in prompt_of(cli)


def test_a_draft_that_was_named_is_used_again(cli: CommandLine, model: Path, twin: Path) -> None:
    run(cli, model, "--draft", str(twin), "one")
    cli.run("run", "-c", "two")
    assert cli.engines[-1].config.draft == str(twin)


def test_the_figures_of_the_chat(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[Script([*plain("a"), Say(["b"], end=("resampled", "c"))])])
    run(cli, model, "one")
    outcome = cli.run("run", "-c", "two", terminal=True)
    assert "chat so far: 2 answers · 6 tokens" in outcome.err
    assert "saved in 2 answers" in outcome.err
    assert "chat so far" not in run(cli, model, "three", terminal=True).err
    cli.run("run", "-c", "four")
    end = json.loads(cli.run("run", "-c", "--json", "five").out.splitlines()[-1])
    assert (end["type"], end["text"]) == ("end", "abc")
    assert end["session"]["answers"] == 3
    assert end["session"]["tokens"] == 9
    assert (end["session"]["accepted"], end["session"]["resampled"], end["session"]["plain"]) == (3, 3, 3)
    assert end["session"]["acceptance_rate"] == 0.5
    assert end["session"]["speedup"] is not None


@pytest.mark.parametrize("how", ["option", "config", "raw"])
def test_nothing_is_kept_when_it_is_not_wanted(cli: CommandLine, model: Path, how: str) -> None:
    if how == "config":
        assert cli.run("config", "set", "history", "false").code == 0
    options = {"option": ["--no-history"], "raw": ["--raw"], "config": []}[how]
    assert run(cli, model, *options, "one").code == 0
    assert not (paths.data_dir() / FILE_NAME).exists()


def test_going_on_without_keeping(cli: CommandLine, model: Path) -> None:
    run(cli, model, "one")
    assert cli.run("run", "-c", "--no-history", "two").code == 0
    assert "one" in prompt_of(cli)
    assert [len(turns) for turns in chats()] == [2]


def test_without_a_chat_there_is_nothing_to_go_on_with(cli: CommandLine, model: Path) -> None:
    outcome = run(cli, model, "-c", "hi")
    assert (outcome.code, outcome.out, cli.engines) == (1, "", [])
    assert "no chat to go on with" in outcome.err
    assert run(cli, model, "-c", "--raw", "hi").code == 2


def test_a_model_that_is_gone_is_said(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    """T11: the chat stays, and can be gone on with using another one."""
    mine = Path(shutil.copy(model, tmp_path / "mine.gguf"))
    run(cli, mine, "one")
    mine.unlink()
    outcome = cli.run("run", "-c", "two")
    assert outcome.code == 1
    assert "mine.gguf" in outcome.err
    assert cli.run("run", "-c", "--target", str(model), "two").code == 0
    assert [len(turns) for turns in chats()] == [4]


def test_a_refused_prompt_leaves_nothing(cli: CommandLine, model: Path) -> None:
    cli.monkeypatch.setattr("tests.fake_engine.FakeEngine._events", lambda *_: _refuse())
    assert run(cli, model, "one").code == 1
    assert chats() == []


def _refuse() -> Any:
    raise PromptTooLong("the prompt is too long by 3 tokens")
    yield


def test_an_engine_that_dies_leaves_the_half_marked(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[Script([*plain("half ", "an "), EngineDied("the engine died")])])
    assert run(cli, model, "one").code == 1
    ((_, answer),) = chats()
    assert (answer.text, answer.broken, answer.reason) == ("half an ", True, None)
    cli.use(scripts=[Script(plain("whole"))])
    assert cli.run("run", "-c", "and?").code == 0
    assert "assistant\nhalf an <|im_end|>" in prompt_of(cli)


def test_a_history_that_cannot_be_used_costs_the_keeping_only(cli: CommandLine, model: Path) -> None:
    file = paths.data_dir() / FILE_NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not a database" * 100)
    outcome = run(cli, model, "one")
    assert (outcome.code, outcome.out) == (0, "Hello.")
    assert "chats are not kept this time" in outcome.err
    outcome = run(cli, model, "-c", "one")
    assert outcome.code == 1
    assert "damaged" in outcome.err


def test_a_chat_that_outgrew_the_context_says_what_goes(cli: CommandLine, model: Path) -> None:
    """K5: the oldest exchanges, never the system text or the newest question."""
    from dataclasses import replace

    cli.use(info=replace(INFO, context=60))
    run(cli, model, "--system", "SYSTEM", "oldest " + "word " * 30)
    cli.run("run", "-c", "middle " + "word " * 10)
    outcome = cli.run("run", "-c", "newest")
    assert outcome.code == 0
    assert "will not be sent" in outcome.err
    assert "SYSTEM" in prompt_of(cli)
    assert "middle" in prompt_of(cli)
    assert "newest" in prompt_of(cli)
    assert "oldest" not in prompt_of(cli)
    assert [len(turns) for turns in chats()] == [6], "it stays in the history"


def test_caches_are_kept_where_they_pay(cli: CommandLine, model: Path) -> None:
    cli.use(scripts=[Script(plain("a"), prompt_tokens=1000)])
    run(cli, model, "one")
    (saved,) = cli.engines[-1].saved
    assert saved.parent == paths.cache_dir() / "kv"
    saved.write_bytes(b"")
    cli.run("run", "-c", "two")
    assert cli.engines[-1].restored == [saved]
    cli.use(scripts=[Script(plain("a"))])
    run(cli, model, "short")
    assert cli.engines[-1].saved == []
    cli.use(scripts=[Script(plain("a"), prompt_tokens=1000)])
    run(cli, model, "--no-history", "x")
    assert cli.engines[-1].saved == []


def test_the_real_engine_reads_only_what_is_new(tmp_path: Path) -> None:
    """Three processes: the second takes up the caches of the first; the third has another context."""
    model = write_llama(tmp_path / "m.gguf", tokens=vocabulary(26, with_bytes=True), context=4096)

    def ask(*arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "localspec", "run", "--json", "--temp", "0", "--threads", "1", "--max-tokens", "8",
             "--speculate", "off", *arguments],
            cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True,
        )  # fmt: skip
        end: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return end

    first = ask("--target", str(model), "--ctx", "2048", "abc " * 150)
    assert first["stats"]["prompt_reused"] == 0
    assert list((paths.cache_dir() / "kv").glob("*.bin"))
    history = History.open()
    copy = history.turns(history.chats()[0].id)
    history.close()
    second = ask("-c", "--ctx", "2048", "go on")
    assert second["stats"]["prompt_reused"] >= first["stats"]["prompt_tokens"]
    # The same question without the caches gets the same answer.
    shutil.rmtree(paths.cache_dir() / "kv")
    history = History.open()
    again = history.create(target=str(model))
    parent = None
    for turn in copy:
        turn.id = None
        parent = history.add(again.id, turn, parent)
    history.close()
    third = ask("-c", "--ctx", "2048", "go on")
    assert third["stats"]["prompt_reused"] == 0
    assert third["text"] == second["text"]
