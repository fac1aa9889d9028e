"""Commands take the engine that runs already, and say the same as with one of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localspec.cli.session import OWN_ENGINE
from tests.cli.streams import CommandLine, lines, run
from tests.fake_engine import Say, Script, plain
from tests.server.serving import embed

ANSWER = Script([*plain("def "), Say(["merge"], end=("bonus", "()"))])


@pytest.fixture
def shared(model: Path) -> Iterator[Any]:
    engine, server = embed(model, [ANSWER])
    yield engine
    engine.close()
    server.close()


@pytest.fixture
def own(cli: CommandLine) -> CommandLine:
    cli.use(scripts=[ANSWER])
    return cli


def test_run_asks_the_running_engine_and_loads_none(own: CommandLine, model: Path, shared: Any) -> None:
    outcome = run(own, model, "--max-tokens", "5", "write merge")
    assert (outcome.code, outcome.out) == (0, "def merge()")
    assert own.engines == []
    (request,) = shared.requests
    assert request.max_tokens == 5
    assert "write merge" in "".join(segment.text for segment in request.prompt)
    assert not shared.closed


def test_the_lines_are_those_of_an_own_engine(own: CommandLine, model: Path, shared: Any) -> None:
    far = lines(run(own, model, "--json", "--seed", "7", "hi"))
    assert own.engines == []
    assert lines(run(own, model, "--json", "--seed", "7", "--no-server", "hi")) == far


def test_without_a_model_named_any_running_engine_answers(own: CommandLine, shared: Any) -> None:
    """No model is installed here: with an engine of its own the command would have nothing to load."""
    assert own.run("run", "hi").out == "def merge()"
    assert own.engines == []


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_running_engine_can_be_refused(
    own: CommandLine, model: Path, shared: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv(OWN_ENGINE, "1")
    assert run(own, model, *(["--no-server"] if how == "option" else []), "hi").out == "def merge()"
    assert len(own.engines) == 1
    assert shared.requests == []


@pytest.mark.parametrize(
    "wish", [("--ctx", "300"), ("--threads", "9"), ("--kv-type", "q8_0"), ("--draft-length", "48")]
)
def test_what_the_running_engine_does_not_do_loads_another(
    own: CommandLine, model: Path, shared: Any, wish: tuple[str, str]
) -> None:
    assert run(own, model, *wish, "hi").code == 0
    assert len(own.engines) == 1
    assert shared.requests == []


def test_another_model_that_was_named_is_loaded(own: CommandLine, twin: Path, shared: Any) -> None:
    assert run(own, twin, "hi").code == 0
    assert len(own.engines) == 1


def test_a_chat_goes_on_in_the_running_engine_unless_its_caches_were_saved(
    own: CommandLine, model: Path, shared: Any, home: Path
) -> None:
    assert run(own, model, "one").code == 0
    assert run(own, model, "-c", "two").code == 0
    assert len(shared.requests) == 2
    assert "one" in "".join(segment.text for segment in shared.requests[1].prompt)
    kept = home / "cache" / "kv"
    kept.mkdir(parents=True)
    (kept / "1.bin").write_bytes(b"x")
    assert run(own, model, "-c", "three").code == 0
    assert len(shared.requests) == 2
    assert own.engines[0].restored == [kept / "1.bin"]
