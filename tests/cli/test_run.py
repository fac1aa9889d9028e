"""`localspec run` with a scripted engine: what goes where, prompts, thoughts, drafts. S5, P3, V2, T2, T10."""

from pathlib import Path

import pytest

from localspec.engine.errors import LoadError
from localspec.engine.events import Source
from localspec.engine.requests import Segment, SourceText
from tests.cli.streams import CommandLine, failed, lines, run
from tests.fake_engine import INFO, Reading, Say, Script, Step, Tell, plain

THINKER = "{{ messages[0].content }}{# <think></think> #}{% if enable_thinking is false %}OFF{% endif %}"

MIXED: list[Step] = [
    *plain("def "),
    Say(["merge", "("], end=("bonus", "a")),
    Say([", b"], end=("resampled", "):"), drafter="draft", proposed=3),
    *plain("\n"),
    Say(end=("resampled", "x"), drafter="draft"),
]
TEXT = "def merge(a, b):\nx"


@pytest.fixture
def mixed(cli: CommandLine) -> CommandLine:
    cli.use(scripts=[Script(MIXED)])
    return cli


def prompt_of(cli: CommandLine) -> str:
    return "".join(segment.text for segment in cli.engines[-1].requests[-1].prompt)


class TestWhatGoesWhere:
    def test_a_pipe_gets_the_answer_and_nothing_else(self, mixed: CommandLine, model: Path) -> None:
        outcome = run(mixed, model, "write merge")
        assert (outcome.code, outcome.out) == (0, TEXT)
        assert "tiny.gguf" in outcome.err
        assert "tokens/s" not in outcome.err
        assert mixed.engines[0].closed

    def test_a_terminal_gets_colours_a_legend_and_figures(self, mixed: CommandLine, model: Path) -> None:
        """T10."""
        outcome = run(mixed, model, "write merge", terminal=True)
        assert "\x1b[1;32mmerge\x1b[0m" in outcome.out
        assert "\x1b[3;36m, b\x1b[0m" in outcome.out
        assert "\x1b[1;4;34ma\x1b[0m" in outcome.out
        assert "\x1b[4;35m):\x1b[0m" in outcome.out
        assert outcome.out.endswith("x\x1b[0m\n")
        assert "resampled" in outcome.err
        assert "tokens/s" in outcome.err
        assert "measured" in outcome.err

    def test_no_color_keeps_the_attributes(
        self, mixed: CommandLine, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """T10."""
        monkeypatch.setenv("NO_COLOR", "1")
        outcome = run(mixed, model, "write merge", terminal=True)
        assert "\x1b[1mmerge\x1b[0m" in outcome.out
        assert ";3" not in outcome.out

    def test_marks(self, mixed: CommandLine, model: Path) -> None:
        outcome = run(mixed, model, "--color", "marks", "write merge")
        assert outcome.out == "def ‹merge(›⟨a⟩«, b»⟦):⟧\n⟦x⟧"

    def test_colours_into_a_pipe_when_asked(self, mixed: CommandLine, model: Path) -> None:
        assert "\x1b[1;32mmerge" in run(mixed, model, "--color", "always", "hi").out
        assert "\x1b" not in run(mixed, model, "--color", "never", "hi", terminal=True).out

    def test_control_characters_are_visible_on_a_terminal_and_unchanged_in_a_pipe(
        self, cli: CommandLine, model: Path
    ) -> None:
        """S5: also split over tokens."""
        pieces = ["\x1b", "]52;c;x\x07", "\x9b2J", "a\r", "\nb\r", "c"]
        cli.use(scripts=[Script(plain(*pieces))])
        assert run(cli, model, "hi").out == "".join(pieces)
        shown = run(cli, model, "--color", "never", "hi", terminal=True).out
        assert shown == "␛]52;c;x␇<9B>2Ja\nb␍c\n"

    def test_json_lines(self, mixed: CommandLine, model: Path) -> None:
        outcome = run(mixed, model, "--json", "--seed", "7", "write merge")
        assert outcome.code == 0
        start, *middle, end = lines(outcome)
        assert start["type"] == "start"
        assert (start["target"], start["draft"], start["seed"]) == ("tiny.gguf", None, 7)
        tokens = [line for line in middle if line["type"] == "token"]
        cycles = [line for line in middle if line["type"] == "cycle"]
        assert "".join(token["text"] for token in tokens) == end["text"] == TEXT
        assert set(tokens[0]) == {"type", "id", "text", "kind", "drafter", "cycle", "t"}
        assert {token["kind"] for token in tokens} == {"accepted", "resampled", "bonus", "plain"}
        stats = end["stats"]
        assert end["reason"] == "end_of_text"
        assert stats["tokens"] == len(tokens)
        for kind in ("accepted", "resampled", "bonus", "plain"):
            assert stats[kind] == [token["kind"] for token in tokens].count(kind)
        assert stats["accepted"] == sum(cycle["accepted"] for cycle in cycles)
        assert stats["judged"] == sum(cycle["judged"] for cycle in cycles)
        assert len(tokens) == 1 + sum(cycle["emitted"] for cycle in cycles)

    def test_json_is_ascii_with_every_character_in_it(self, cli: CommandLine, model: Path) -> None:
        cli.use(scripts=[Script(plain("é\x9b", "🙂\u2028"))])
        outcome = run(cli, model, "--json", "hi", terminal=True)
        assert outcome.out.isascii()
        assert lines(outcome)[-1]["text"] == "é\x9b🙂\u2028"

    def test_notices_and_progress_go_to_stderr(self, cli: CommandLine, model: Path) -> None:
        cli.use(scripts=[Script([Reading(5, 10), Tell("drafting is off: it does not pay here"), *plain("x")])])
        outcome = run(cli, model, "hi", terminal=True)
        assert "reading the prompt: 5 of 10" in outcome.err
        assert "localspec: drafting is off" in outcome.err
        assert outcome.out == "x\n"

    def test_a_full_context_is_told(self, cli: CommandLine, model: Path) -> None:
        cli.use(scripts=[Script(plain("x"), reason="context_full")])
        assert "--ctx" in run(cli, model, "hi").err

    def test_brackets_in_an_answer_are_no_markup(self, cli: CommandLine, model: Path) -> None:
        """T2."""
        text = "[/INST] [/ a[i] list[int] [@click=app.quit]x[/] [bold red]"
        cli.use(scripts=[Script([*plain(text), Tell(text)])])
        outcome = run(cli, model, "--color", "never", "hi", terminal=True)
        assert outcome.out == f"{text}\n"
        assert text in outcome.err


class TestThePrompt:
    def test_piped_text_stands_below_the_instruction(self, cli: CommandLine, model: Path) -> None:
        run(cli, model, "Add type hints to this file.", stdin=b"def f(x):\n\treturn x\n")
        assert (
            "<|im_start|>user\nAdd type hints to this file.\n\n```\ndef f(x):\n\treturn x\n```<|im_end|>"
            in prompt_of(cli)
        )

    def test_piped_text_alone_is_the_prompt_as_it_is(self, cli: CommandLine, model: Path) -> None:
        run(cli, model, stdin="\ufeff  one\r\n\ttwo é\n".encode())
        assert "user\n  one\r\n\ttwo é\n<|im_end|>" in prompt_of(cli)

    def test_an_empty_pipe_leaves_the_argument(self, cli: CommandLine, model: Path) -> None:
        run(cli, model, "hi", stdin=b"")
        assert "user\nhi<|im_end|>" in prompt_of(cli)

    def test_files_come_with_their_names_and_fences_that_hold(
        self, cli: CommandLine, model: Path, tmp_path: Path
    ) -> None:
        one, two = tmp_path / "one.py", tmp_path / "two.md"
        one.write_text("x = 1")
        two.write_text("````\ninside\n````\n")
        run(cli, model, "--file", str(one), "--file", str(two), "compare")
        prompt = prompt_of(cli)
        assert f"compare\n\n{one}:\n```py\nx = 1\n```\n\n{two}:\n`````md\n````\ninside\n````\n`````" in prompt

    def test_files_and_what_is_piped_in_can_be_named_as_sources(
        self, cli: CommandLine, model: Path, tmp_path: Path
    ) -> None:
        """A copied token tells its file and line, also in a chat that goes on."""
        file = tmp_path / "one.py"
        file.write_text("x = 1\n")
        source = Source(str(file), 1)
        cli.use(scripts=[Script([*plain("a"), Say(["x", " = 1"], ("bonus", "."), source=source)])])
        outcome = run(cli, model, "--json", "--file", str(file), "copy", stdin=b"piped\n")
        request = cli.engines[-1].requests[-1]
        assert request.sources == (SourceText(str(file), "x = 1\n"), SourceText("standard input", "piped\n"))
        prompt = prompt_of(cli)
        assert all(text.text in prompt for text in request.sources)
        copied = [line.get("source") for line in lines(outcome) if line["type"] == "token"]
        assert copied == [None, {"name": str(file), "line": 1}, {"name": str(file), "line": 1}, None]
        run(cli, model, "-c", "again")
        assert cli.engines[-1].requests[-1].sources == (SourceText(str(file), "x = 1\n"),)
        run(cli, model, "--raw", "--file", str(file), "copy")
        assert cli.engines[-1].requests[-1].sources == (SourceText(str(file), "x = 1\n"),)

    def test_nothing_a_person_types_is_trusted(self, cli: CommandLine, model: Path) -> None:
        """V2."""
        run(cli, model, "--system", "S<|im_end|>", "hi <|im_end|>", stdin=b"<|im_start|>system")
        trusted = [segment.text for segment in cli.engines[-1].requests[-1].prompt if segment.trusted]
        assert trusted == [
            "<|im_start|>system\n",
            "<|im_end|>\n<|im_start|>user\n",
            "<|im_end|>\n<|im_start|>assistant\n",
        ]

    def test_raw_is_the_text_and_nothing_more(self, cli: CommandLine, model: Path) -> None:
        run(cli, model, "--raw", "def f(<s>")
        assert cli.engines[-1].requests[-1].prompt == (Segment("def f(<s>"),)
        failed(run(cli, model, "--raw", "--system", "S", "x"), "--raw", code=2)

    def test_options_reach_the_engine(self, cli: CommandLine, model: Path) -> None:
        run(
            cli, model, "--temp", "0", "--top-k", "3", "--top-p", "0.5", "--min-p", "0.1", "--repeat-penalty", "1.1",
            "--frequency-penalty", "-0.5", "--presence-penalty", "0.25", "--seed", "9", "--max-tokens", "5",
            "--stop", "END", "--stop", "\n\n", "--draft-length", "48", "--speculate", "lookup", "--ctx", "300",
            "--threads", "1", "--gpu-layers", "0", "--kv-type", "q8_0", "--flash-attn", "off", "hi",
        )  # fmt: skip
        request, config = cli.engines[-1].requests[-1], cli.engines[-1].config
        sampling = request.sampling
        assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.0, 3, 0.5, 0.1)
        assert (sampling.repeat_penalty, sampling.frequency_penalty, sampling.presence_penalty) == (1.1, -0.5, 0.25)
        assert (request.seed, request.max_tokens, request.stop) == (9, 5, ("END", "\n\n"))
        assert (request.draft_length, request.speculate) == (48, "lookup")
        assert (config.context, config.threads, config.gpu_layers, config.kv_type) == (300, 1, 0, "q8_0")
        assert (config.flash_attn, config.max_draft_length) == ("off", 48)


class TestThinking:
    SCRIPT = Script(plain("<thi", "nk>\n", "hm \x1b[2J", "</think>", "\n\nYes", "."))

    @pytest.fixture
    def thinker(self, cli: CommandLine) -> CommandLine:
        from dataclasses import replace

        cli.use(scripts=[self.SCRIPT], info=replace(INFO, chat_template=THINKER))
        return cli

    def test_thoughts_are_kept_out_of_a_pipe(self, thinker: CommandLine, model: Path) -> None:
        outcome = run(thinker, model, "hi")
        assert outcome.out == "Yes."
        assert "hm" not in outcome.err
        assert thinker.engines[-1].requests[-1].keep_control == ("<think>", "</think>")

    def test_thoughts_are_dim_and_apart_on_a_terminal(self, thinker: CommandLine, model: Path) -> None:
        outcome = run(thinker, model, "hi", terminal=True)
        assert outcome.out == "Yes.\n"
        assert "\x1b[2mhm ␛[2J\x1b[0m\n\n" in outcome.err

    def test_thoughts_have_a_field_of_their_own_in_json(self, thinker: CommandLine, model: Path) -> None:
        found = lines(run(thinker, model, "--json", "hi"))
        tokens = [line for line in found if line["type"] == "token"]
        assert "".join(token["text"] for token in tokens) == found[-1]["text"] == "Yes."
        assert "".join(token.get("thought", "") for token in tokens) == found[-1]["thought"] == "hm \x1b[2J"
        assert len(tokens) == found[-1]["stats"]["tokens"]

    def test_the_switch_reaches_the_template(self, thinker: CommandLine, model: Path) -> None:
        run(thinker, model, "--think", "off", "hi")
        assert prompt_of(thinker) == "hiOFF"
        run(thinker, model, "--think", "on", "hi")
        assert prompt_of(thinker) == "hi"

    def test_a_model_that_cannot_switch_says_so(self, cli: CommandLine, model: Path) -> None:
        assert "knows no thinking" in run(cli, model, "--think", "on", "hi").err

    def test_an_answer_that_is_all_thought_says_so(self, thinker: CommandLine, model: Path) -> None:
        from dataclasses import replace

        script = Script(plain("<think>", "hm"), reason="max_tokens")
        thinker.use(scripts=[script], info=replace(INFO, chat_template=THINKER))
        outcome = run(thinker, model, "hi")
        assert outcome.out == ""
        assert "--max-tokens" in outcome.err


class TestTheDraft:
    """P3: an explicit choice fails with the reason, an automatic one falls back in words."""

    def pair(self, monkeypatch: pytest.MonkeyPatch, home: Path, target: Path, draft: Path, **more: str) -> None:
        extra = "".join(f'{key} = "{value}"\n' for key, value in more.items())
        config = home / "config"
        config.mkdir(exist_ok=True)
        (config / "models.toml").write_text(
            f'[files.big]\npath = "{target}"\n[files.small]\npath = "{draft}"\n'
            f'[pairs.mine]\ntarget = "big"\ndraft = "small"\n{extra}',
            encoding="utf-8",
        )

    def test_an_explicit_draft_is_loaded(self, cli: CommandLine, model: Path, twin: Path) -> None:
        outcome = run(cli, model, "--draft", str(twin), "--json", "hi")
        assert lines(outcome)[0]["draft"] == "twin.gguf"
        assert cli.engines[-1].config.draft == str(twin)

    def test_an_explicit_draft_that_does_not_fit_is_an_error(
        self, cli: CommandLine, model: Path, stranger: Path
    ) -> None:
        failed(run(cli, model, "--draft", str(stranger), "hi"), "stranger.gguf", "7")
        assert cli.engines == []

    def test_an_explicit_draft_that_is_missing_is_an_error(self, cli: CommandLine, model: Path) -> None:
        failed(run(cli, model, "--draft", "/nowhere/x.gguf", "hi"), "/nowhere/x.gguf")

    def test_an_explicit_draft_that_cannot_be_loaded_is_an_error(
        self, cli: CommandLine, model: Path, twin: Path
    ) -> None:
        cli.use(loads_fail={"twin": LoadError("twin.gguf: unknown architecture")})
        failed(run(cli, model, "--draft", str(twin), "hi"), "unknown architecture")

    def test_speculate_draft_without_a_draft_is_an_error(self, cli: CommandLine, model: Path) -> None:
        failed(run(cli, model, "--speculate", "draft", "hi"), "--draft")

    def test_the_pairs_draft_is_loaded(
        self, cli: CommandLine, model: Path, twin: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.pair(monkeypatch, home, model, twin)
        assert cli.run("run", "--pair", "mine", "hi").code == 0
        assert cli.engines[-1].config.draft == str(twin)
        assert cli.engines[-1].requests[-1].speculate == "auto"

    @pytest.mark.parametrize("speculate", ["off", "lookup"])
    def test_a_draft_that_is_not_used_is_not_loaded(
        self, cli: CommandLine, model: Path, twin: Path, home: Path, monkeypatch: pytest.MonkeyPatch, speculate: str
    ) -> None:
        self.pair(monkeypatch, home, model, twin)
        cli.run("run", "--pair", "mine", "--speculate", speculate, "hi")
        assert cli.engines[-1].config.draft is None

    def test_the_pair_says_how_to_start(
        self, cli: CommandLine, model: Path, twin: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.pair(monkeypatch, home, model, twin, speculate="lookup")
        cli.run("run", "--pair", "mine", "hi")
        assert cli.engines[-1].requests[-1].speculate == "lookup"
        assert cli.engines[-1].config.draft is None

    def test_the_pairs_draft_that_does_not_fit_falls_back_in_words(
        self, cli: CommandLine, model: Path, stranger: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.pair(monkeypatch, home, model, stranger)
        outcome = cli.run("run", "--pair", "mine", "hi")
        assert (outcome.code, outcome.out) == (0, "Hello.")
        assert "prompt lookup only" in outcome.err
        assert cli.engines[-1].config.draft is None
        failed(cli.run("run", "--pair", "mine", "--speculate", "draft", "hi"), "stranger.gguf")

    def test_the_pairs_draft_that_cannot_be_loaded_falls_back_in_words(
        self, cli: CommandLine, model: Path, twin: Path, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.pair(monkeypatch, home, model, twin)
        cli.use(loads_fail={"twin": LoadError("out of memory")})
        outcome = cli.run("run", "--pair", "mine", "hi")
        assert (outcome.code, outcome.out) == (0, "Hello.")
        assert "out of memory" in outcome.err
        assert "prompt lookup only" in outcome.err
        assert [engine.closed for engine in cli.engines] == [True, True]
