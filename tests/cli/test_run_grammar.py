"""`localspec run` with `--json-schema` and `--grammar`: what reaches the engine, what is refused, what comes out."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.streams import CommandLine, failed, run
from tests.fake_engine import INFO, Script, plain
from tests.tiny import vocabulary, write_llama

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
GRAMMAR = 'root ::= "yes" | "no"\n'

SWITCH = "{{ messages[0].content }}{# <think></think> #}{% if enable_thinking is false %}OFF{% endif %}"
ALWAYS = "{{ messages[0].content }}<think>\n{# </think> #}"
CHANNELS = "{{ messages[0].content }}<|start|>assistant{# <|channel|>analysis #}"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return path


@pytest.fixture
def grammar(tmp_path: Path) -> Path:
    path = tmp_path / "answer.gbnf"
    # As some editors write it.
    path.write_text(GRAMMAR, encoding="utf-8-sig")
    return path


def use(cli: CommandLine, *texts: str, template: str | None = None) -> None:
    cli.use(scripts=[Script(plain(*texts))], info=replace(INFO, chat_template=template))


def prompt_of(cli: CommandLine) -> str:
    return "".join(segment.text for segment in cli.engines[-1].requests[-1].prompt)


def test_the_texts_reach_the_engine(cli: CommandLine, model: Path, schema: Path, grammar: Path) -> None:
    use(cli, "{}")
    assert run(cli, model, "--json-schema", str(schema), "hi").code == 0
    request = cli.engines[-1].requests[-1]
    assert (json.loads(request.json_schema or ""), request.grammar) == (SCHEMA, None)
    run(cli, model, "--raw", "--grammar", str(grammar), "hi")
    request = cli.engines[-1].requests[-1]
    assert (request.json_schema, request.grammar) == (None, GRAMMAR)
    run(cli, model, "hi")
    request = cli.engines[-1].requests[-1]
    assert (request.json_schema, request.grammar) == (None, None)


@pytest.mark.parametrize(
    ("template", "end"),
    [(SWITCH, "OFF"), (ALWAYS, "<think>\n\n</think>\n\n"), (CHANNELS, "assistant<|channel|>final<|message|>")],
    ids=["switch", "always", "channels"],
)
def test_nothing_is_thought(cli: CommandLine, model: Path, schema: Path, template: str, end: str) -> None:
    """Thoughts would have to fit the grammar; what comes is the answer, and all of it."""
    use(cli, '{"ok":', " true}", template=template)
    outcome = run(cli, model, "--json-schema", str(schema), "hi")
    assert prompt_of(cli).endswith(end)
    assert json.loads(outcome.out) == {"ok": True}
    use(cli, "free", template=template)
    run(cli, model, "hi")
    assert not prompt_of(cli).endswith(end)


def test_the_grammar_is_not_part_of_a_chat(cli: CommandLine, model: Path, schema: Path) -> None:
    use(cli, "{}")
    run(cli, model, "--json-schema", str(schema), "hi")
    assert run(cli, model, "-c", "and now?").code == 0
    assert cli.engines[-1].requests[-1].json_schema is None


class TestRefusals:
    """Before a model is loaded, in one line with the file's name."""

    def test_both(self, cli: CommandLine, model: Path, schema: Path, grammar: Path) -> None:
        outcome = run(cli, model, "--json-schema", str(schema), "--grammar", str(grammar), "hi")
        assert outcome.code == 2
        assert "give one of them" in outcome.err

    def test_thinking(self, cli: CommandLine, model: Path, grammar: Path) -> None:
        outcome = run(cli, model, "--think", "on", "--grammar", str(grammar), "hi")
        assert outcome.code == 2
        assert "--think on" in outcome.err

    @pytest.mark.parametrize(
        ("option", "content", "reason"),
        [
            ("--json-schema", b"{", "not valid JSON"),
            ("--json-schema", b'{"$ref": "https://example.com/a"}', "only references into itself"),
            ("--json-schema", b"\xff\xfe", "not UTF-8"),
            ("--grammar", b"root ::= (", "line 1"),
            ("--grammar", b"", "no rule named root"),
        ],
    )
    def test_files(
        self, cli: CommandLine, model: Path, tmp_path: Path, option: str, content: bytes, reason: str
    ) -> None:
        path = tmp_path / "bound"
        path.write_bytes(content)
        failed(run(cli, model, option, str(path), "hi"), option, str(path), reason)
        assert not cli.engines

    def test_a_missing_file(self, cli: CommandLine, model: Path, tmp_path: Path) -> None:
        failed(run(cli, model, "--grammar", str(tmp_path / "none.gbnf"), "hi"), "none.gbnf")

    def test_as_a_json_line(self, cli: CommandLine, model: Path, tmp_path: Path) -> None:
        path = tmp_path / "bad.gbnf"
        path.write_text("root ::= (", encoding="utf-8")
        outcome = run(cli, model, "--json", "--grammar", str(path), "hi")
        assert (outcome.code, json.loads(outcome.out)["type"]) == (1, "error")


def test_the_real_engine_writes_what_fits(tmp_path: Path, schema: Path) -> None:
    """A random model, sampled: a process as a person starts it."""
    model = write_llama(tmp_path / "tiny.gguf", tokens=vocabulary(26, with_bytes=True), scale=1.0)
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "run", "--target", str(model), "--raw", "--threads", "1", "--ctx", "256",
         "--json", "--json-schema", str(schema), "hi"],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    start, *_, end = (json.loads(line) for line in done.stdout.splitlines())
    assert start["grammar"] is True
    assert end["reason"] == "end_of_text"
    assert isinstance(json.loads(end["text"])["ok"], bool)
