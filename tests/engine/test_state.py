"""Caches on disk: the same answers with and without them, and nothing loaded that does not fit. K2."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.engine import state
from localspec.engine.client import EngineClient
from localspec.engine.errors import Busy, EngineDied, EngineError
from localspec.engine.requests import EngineConfig, Request, SamplerSettings, Segment
from tests import tiny
from tests.engine.answers import GREEDY_ENDLESS, ask
from tests.engine.conftest import MakeEngine
from tests.engine.engine_clients import fake_client, text_of, until_token

FIRST = "abcabcabcdefabcabc"
LETTERS_ONLY = {token: float("-inf") for token in range(tiny.FIRST_LETTER)}
"""So that the answer's text tokenises to the answer's tokens."""

GREEDY = SamplerSettings(temperature=0.0, logit_bias=LETTERS_ONLY)
SAMPLED = SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, logit_bias=LETTERS_ONLY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kv" / "7.bin"


@pytest.mark.parametrize(
    ("target", "draft", "fields"),
    [
        ("target", None, {}),
        ("target", None, {"speculate": "lookup", "draft_length": 4}),
        ("target", "draft", {"speculate": "draft", "draft_length": 3}),
        ("target", "twin", {"speculate": "draft", "draft_length": 3, "sampling": SAMPLED, "seed": 5}),
        ("sliding", None, {}),
        ("hybrid", None, {}),
    ],
)
def test_the_next_answer_is_the_same_with_less_reading(
    make_engine: MakeEngine, path: Path, target: str, draft: str | None, fields: dict[str, object]
) -> None:
    fields = {"sampling": GREEDY} | fields
    first = make_engine(target, draft)
    follow_up = FIRST + ask(first, FIRST, **fields).end.text + "cab"
    assert first.save(str(path)) == sum(file.stat().st_size for file in state.files_of(path)[: 2 if draft else 1])
    expected = ask(make_engine(target, draft), follow_up, **fields)
    second = make_engine(target, draft)
    tokens = second.restore(str(path))
    assert tokens > len(FIRST)
    again = ask(second, follow_up, **fields)
    assert again.end.text == expected.end.text
    assert again.ids == expected.ids
    assert [token.kind for token in again.tokens] == [token.kind for token in expected.tokens]
    assert again.end.stats.prompt_reused == tokens
    if draft:
        restored, fresh = second._loaded.draft, first._loaded.draft
        assert restored is not None
        assert fresh is not None
        assert len(restored.tokens) > len(FIRST)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _note(change: Callable[[dict[str, object]], object]) -> Callable[[Path], object]:
    def edit(path: Path) -> None:
        note = path.with_name(path.name + state.NOTE)
        found = json.loads(note.read_text())
        change(found)
        note.write_text(json.dumps(found))

    return edit


SPOILT = {
    "flipped": _flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "no note": lambda path: path.with_name(path.name + state.NOTE).unlink(),
    "no JSON": lambda path: path.with_name(path.name + state.NOTE).write_text("{"),
    "a list": lambda path: path.with_name(path.name + state.NOTE).write_text("[]"),
    "another form": _note(lambda note: note.update(form=99)),
    "no caches": _note(lambda note: note.pop("caches")),
    "caches of another kind": _note(lambda note: note.update(caches=[])),
    "an entry that lacks its size": _note(lambda note: note["caches"]["target"].pop("size")),  # type: ignore[index]
    "another library": _note(
        lambda note: note["caches"]["target"]["fingerprint"].update(library="newer"),  # type: ignore[index]
    ),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_damaged_one_is_left_alone(make_engine: MakeEngine, path: Path, how: str) -> None:
    first = make_engine()
    ask(first, FIRST)
    first.save(str(path))
    SPOILT[how](path)
    second = make_engine()
    assert second.restore(str(path)) == 0
    answer = ask(second, FIRST)
    assert answer.end.stats.prompt_reused == 0
    assert answer.end.text == ask(make_engine(), FIRST).end.text


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("draft", {}),
        ("twin", {}),
        ("target", {"kv_type": "f32"}),
        ("target", {"flash_attn": "off"}),
        ("target", {"context": 16}),
    ],
)
def test_one_of_another_model_or_context_is_left_alone(
    make_engine: MakeEngine, path: Path, target: str, options: dict[str, object]
) -> None:
    first = make_engine()
    ask(first, FIRST)
    first.save(str(path))
    assert make_engine(target, **options).restore(str(path)) == 0
    assert make_engine().restore(str(path)) > 0


def test_a_model_file_that_changed_in_place_is_another(
    make_engine: MakeEngine, tiny_files: dict[str, Path], tmp_path: Path, path: Path
) -> None:
    model = shutil.copy(tiny_files["target"], tmp_path / "model.gguf")
    tiny_files = {**tiny_files, "mine": model}
    config = EngineConfig(str(model), context=512, threads=1, flash_attn="on")
    with EngineClient(config) as client:
        text_of(list(client.generate(Request((Segment(FIRST),), sampling=GREEDY_ENDLESS, max_tokens=9))))
        assert client.save(path) > 0
        assert client.restore(path) > 0
    shutil.copy(tiny_files["begin"], model)
    with EngineClient(config) as client:
        assert client.restore(path) == 0


def test_a_larger_context_takes_up_a_smaller_one(make_engine: MakeEngine, path: Path) -> None:
    first = make_engine(context=128)
    ask(first, FIRST)
    first.save(str(path))
    assert make_engine(context=512).restore(str(path)) > len(FIRST)


def test_saving_again_replaces_and_empty_caches_remove(make_engine: MakeEngine, path: Path) -> None:
    engine = make_engine("target", "draft")
    ask(engine, FIRST, speculate="draft", draft_length=2)
    engine.save(str(path))
    assert all(file.exists() for file in state.files_of(path))
    assert make_engine("target").save(str(path)) == 0
    assert not any(file.exists() for file in state.files_of(path))
    assert list(path.parent.iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_line(make_engine: MakeEngine, tmp_path: Path) -> None:
    (tmp_path / "kv").write_text("in the way")
    engine = make_engine()
    ask(engine, FIRST)
    with pytest.raises(EngineError, match="cannot save") as caught:
        engine.save(str(tmp_path / "kv" / "7.bin"))
    assert "\n" not in str(caught.value)
    assert ask(engine, FIRST).end.stats.prompt_reused > 0


class TestTheClient:
    def config(self, file: Path) -> EngineConfig:
        return EngineConfig(str(file), context=512, threads=1, flash_attn="on")

    def test_another_process_takes_up_the_conversation(self, tiny_files: dict[str, Path], path: Path) -> None:
        request = Request((Segment(FIRST),), sampling=GREEDY_ENDLESS, speculate="off", max_tokens=20)
        with EngineClient(self.config(tiny_files["target"])) as client:
            assert client.save(path) == 0
            text = text_of(list(client.generate(request)))
            assert client.save(path) > 0
        with EngineClient(self.config(tiny_files["target"])) as client:
            assert client.restore(path.with_name("none")) == 0
            assert client.restore(path) == len(FIRST) + 19
            assert text_of(list(client.generate(request))) == text

    @pytest.mark.skipif(sys.platform == "win32", reason="the scripted engines use POSIX signals")
    def test_not_while_an_answer_is_made(self, path: Path) -> None:
        """P8."""
        from tests.engine.engine_clients import ask as asked

        with fake_client() as client:
            answer = client.generate(asked("endless"))
            until_token(answer)
            for refused in (client.save, client.restore):
                with pytest.raises(Busy):
                    refused(path)
            client.cancel()
            list(answer)

    def test_a_dead_engine_is_said(self, tiny_files: dict[str, Path], path: Path) -> None:
        import psutil

        with EngineClient(self.config(tiny_files["target"])) as client:
            assert client.pid is not None
            process = psutil.Process(client.pid)
            process.kill()
            process.wait(30)
            with pytest.raises(EngineDied):
                client.save(path)
