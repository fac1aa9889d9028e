"""Models with an encoder on the command line: what they do, and what they do not, in words."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import tiny, tiny_t5
from tests.cli.model_commands import data
from tests.cli.streams import CommandLine, Outcome, failed, run
from tests.fake_engine import INFO, Script, plain

DEADLINE_S = 60
ENCODER = replace(INFO, has_encoder=True, fim_texts={"pre": "<P>", "suf": "<S>", "mid": "<M>"}, context=4096)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {
        "target": tiny_t5.write_t5(root / "t5.gguf", name="Tiny T5"),
        "draft": tiny_t5.write_t5(root / "t5-draft.gguf", layers=1),
        "twin": tiny_t5.write_t5(root / "t5-twin.gguf"),
        "stranger": tiny_t5.write_t5(root / "stranger.gguf", layers=1, tokens=tiny_t5.vocabulary(11, extra=("zz",))),
        "decoder": tiny.write_llama(root / "llama.gguf", layers=1),
    }


@pytest.fixture
def encoder(cli: CommandLine) -> CommandLine:
    cli.use(scripts=[Script(plain("Ein ", "Haus"))] * 3, info=ENCODER)
    return cli


def localspec(*words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """A process of its own, with an engine of its own."""
    more: dict[str, Any] = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    return subprocess.run(
        [sys.executable, "-m", "localspec", *words], env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        capture_output=True, timeout=DEADLINE_S, check=False, **more,
    )  # fmt: skip


class TestAnswers:
    def test_a_pair_answers_what_the_target_answers(self, files: dict[str, Path]) -> None:
        """Through the whole program, draft and lookup and neither."""
        texts = set()
        drafters: set[str] = set()
        common = ("run", "--target", str(files["target"]), "--temp", "0", "--max-tokens", "24", "--json")
        draft = ("--draft", str(files["twin"]))
        for words in (("--speculate", "off"), ("--speculate", "lookup"), (*draft, "--speculate", "draft")):
            length = () if "off" in words else ("--draft-length", "3")
            done = localspec(*common, *words, *length, "abcdabcdabcdabc")
            assert done.returncode == 0, done.stderr
            assert b"has an encoder: it answers one text" in done.stderr
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            assert lines[-1]["type"] == "end"
            # The text's letters and its end token: the answer is no part of it, nor a template's words.
            assert lines[-1]["stats"]["prompt_tokens"] == 16
            texts.add(lines[-1]["text"])
            drafters |= {line["drafter"] for line in lines if line["type"] == "cycle" and line["accepted"]}
        assert len(texts) == 1
        assert len(next(iter(texts))) > 4
        assert drafters == {"lookup", "draft"}

    def test_the_prompt_is_the_text_alone(self, encoder: CommandLine, files: dict[str, Path]) -> None:
        assert run(encoder, files["target"], "translate: house", stdin=b"").out == "Ein Haus"
        (request,) = encoder.engines[-1].requests
        assert [(one.text, one.trusted) for one in request.prompt] == [("translate: house", False)]

    def test_the_task_stands_in_front_of_what_it_is_about(
        self, encoder: CommandLine, files: dict[str, Path], tmp_path: Path
    ) -> None:
        (tmp_path / "more.txt").write_text("and more\n")
        arguments = ("summarize:", "--file", str(tmp_path / "more.txt"))
        assert run(encoder, files["target"], *arguments, stdin=b"a text\n").code == 0
        (request,) = encoder.engines[-1].requests
        assert "".join(one.text for one in request.prompt) == "summarize: a text and more"


class TestWords:
    def test_a_chat_cannot_be_gone_on_with(self, encoder: CommandLine, files: dict[str, Path]) -> None:
        assert run(encoder, files["target"], "one", stdin=b"").code == 0
        said = run(encoder, files["target"], "-c", "two", stdin=b"")
        assert said.code == 1
        assert "has an encoder and answers one text: -c has nothing to go on with" in said.err

    def test_a_system_text_has_no_place(self, encoder: CommandLine, files: dict[str, Path]) -> None:
        said = run(encoder, files["target"], "--system", "Be brief.", "hi", stdin=b"")
        failed(said, "has an encoder and answers one text: a system text has no place in it")

    def test_no_gap_is_filled(self, encoder: CommandLine, files: dict[str, Path], tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("a = \n")
        said = encoder.run("complete", "--target", str(files["target"]), f"{tmp_path / 'a.py'}:1:5")
        failed(said, "has an encoder and answers one text: it cannot fill a gap in it")

    def test_no_file_is_edited(self, encoder: CommandLine, files: dict[str, Path], tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("a = 1\n")
        said = encoder.run("edit", "--target", str(files["target"]), str(tmp_path / "a.py"), "Rename a.")
        failed(said, "has an encoder and answers one text: it cannot edit files")
        assert (tmp_path / "a.py").read_text() == "a = 1\n"

    @pytest.mark.parametrize(
        ("target", "draft", "words"),
        [
            ("target", "decoder", "the target reads its text with an encoder and the draft has none"),
            ("decoder", "target", "the draft reads its text with an encoder and the target has none"),
            ("target", "stranger", "token 15 is"),
        ],
    )
    def test_a_pair_that_is_none_is_not_loaded(
        self, encoder: CommandLine, files: dict[str, Path], target: str, draft: str, words: str
    ) -> None:
        said = run(encoder, files[target], "--draft", str(files[draft]), "hi", stdin=b"")
        failed(said, words)
        assert encoder.engines == []


@pytest.mark.usefixtures("own_places")
class TestCheck:
    def check(self, cli: CommandLine, *files: Path) -> Outcome:
        return cli.run("models", "check", *map(str, files))

    def test_the_family_is_named(self, cli: CommandLine, files: dict[str, Path]) -> None:
        found = self.check(cli, files["target"])
        assert found.code == 0
        assert "header: t5 Tiny T5, F32, an encoder of 2 layers and a decoder of 2, 16 tokens" in found.out
        # A text and an answer as long as the model was trained for, not the usual context.
        assert "with 1,024 tokens of context" in found.out

    def test_a_pair_of_it(self, cli: CommandLine, files: dict[str, Path]) -> None:
        found = self.check(cli, files["target"], files["draft"])
        assert found.code == 0
        assert "a pair: both have an encoder; the vocabularies agree: UGM, 16 tokens" in found.out

    @pytest.mark.parametrize(("one", "two"), [("target", "decoder"), ("decoder", "target")])
    def test_no_pair_with_a_model_that_has_no_encoder(
        self, cli: CommandLine, files: dict[str, Path], one: str, two: str
    ) -> None:
        found = self.check(cli, files[one], files[two])
        assert found.code == 1
        assert "NO PAIR (rule: encoder)" in found.out

    def test_the_answer_for_scripts(self, cli: CommandLine, files: dict[str, Path]) -> None:
        found = data(cli.run("models", "check", "--json", str(files["target"]), str(files["draft"])))
        assert found["pair"]["compatible"]
        assert found["fit"]["largest_context"] == 1024
