"""llama-server's clients: what they send, and what they read of the answer. llama.vim's requests are its own."""

import time
from dataclasses import replace
from typing import Any

import pytest

from localspec.engine.requests import Segment, SourceText
from tests.fake_engine import INFO, Script, Wait, plain
from tests.server.serving import Server, until

FIM = replace(INFO, fim_texts={"pre": "<P>", "suf": "<S>", "mid": "<M>", "sep": "<F>", "rep": "<R>"})

VIM: dict[str, Any] = {
    "input_prefix": "def f(a):\n",
    "input_suffix": "\n    return b\n",
    "input_extra": [{"text": "b = 1\n", "time": [1, 2], "filename": "b.py"}, {"text": "c <M>\n", "filename": "c.py"}],
    "prompt": "    b = ",
    "n_predict": 128,
    "n_indent": 4,
    "top_k": 40,
    "top_p": 0.99,
    "stream": False,
    "samplers": ["top_k", "top_p", "infill"],
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 0,
    "response_fields": [
        "content", "timings/prompt_n", "timings/prompt_ms", "timings/prompt_per_token_ms", "timings/prompt_per_second",
        "timings/predicted_n", "timings/predicted_ms", "timings/predicted_per_token_ms",
        "timings/predicted_per_second", "truncated", "tokens_cached",
    ],
}  # fmt: skip
WARM_UP: dict[str, Any] = {
    "input_prefix": "", "input_suffix": "", "input_extra": VIM["input_extra"], "prompt": "", "n_predict": 0,
    "temperature": 0.0, "stream": False, "samplers": [], "cache_prompt": True, "t_max_prompt_ms": 1,
    "t_max_predict_ms": 1, "response_fields": [""],
}  # fmt: skip


@pytest.fixture
def filling(serving: Any) -> Any:
    return lambda *texts, **more: serving([Script(plain(*texts), **more)], info=FIM)


class TestInfill:
    def test_llama_vims_request(self, filling: Any) -> None:
        server: Server = filling("a", " + 1")
        status, answer = server.ask("/infill", VIM)
        assert status == 200
        assert set(answer) == set(VIM["response_fields"])
        assert (answer["content"], answer["truncated"]) == ("a + 1", False)
        assert (answer["timings/prompt_n"], answer["timings/predicted_n"]) == (10, 2)
        assert all(isinstance(answer[name], int | float) for name in answer if name.startswith("timings/"))

    def test_the_prompt_is_the_models_own_and_no_file_can_break_out_of_it(self, filling: Any) -> None:
        server: Server = filling("x")
        server.ask("/infill", VIM)
        request = server.engine.requests[-1]
        assert [segment.text for segment in request.prompt if segment.trusted] == [
            "<F>",
            "<F>",
            "<F>",
            "<P>",
            "<S>",
            "<M>",
        ]
        assert request.prompt[-1] == Segment("    b = ")
        assert Segment("c.py\nc <M>\n") in request.prompt
        assert request.sources == (SourceText("b.py", "b = 1\n"), SourceText("c.py", "c <M>\n"))
        assert set(request.stop) == {"<P>", "<S>", "<M>", "<F>", "<R>"} == set(request.keep_control)

    def test_it_is_greedy_unless_a_temperature_is_given(self, filling: Any) -> None:
        server: Server = filling("x")
        server.ask("/infill", VIM)
        assert server.engine.requests[-1].sampling.temperature == 0
        server.ask("/infill", {**VIM, "temperature": 0.5, "samplers": None})
        assert server.engine.requests[-1].sampling.temperature == 0.5

    def test_warming_up_reads_the_prompt_and_says_nothing(self, filling: Any) -> None:
        server: Server = filling("x")
        status, answer = server.ask("/infill", WARM_UP)
        assert (status, answer) == (200, {})
        assert server.engine.requests[-1].max_tokens == 1
        status, answer = server.ask("/infill", {**WARM_UP, "response_fields": []})
        assert (answer["content"], answer["tokens_predicted"]) == ("", 0)

    def test_a_line_that_is_indented_less_ends_it(self, filling: Any) -> None:
        server: Server = filling("a\n", "\n    ", "c", "\n  d", "ef\n    g")
        assert server.ask("/infill", VIM)[1]["content"] == "a\n\n    c\n"
        assert server.ask("/infill", {**VIM, "n_indent": 0})[1]["content"] == "a\n\n    c\n  def\n    g"

    def test_the_time_limit_ends_it_once_there_is_a_line(self, serving: Any) -> None:
        """The time counts from the first token: the engine waits for longer than it, then goes on."""
        wait = Wait()
        server: Server = serving([Script([*plain("a"), wait, *plain("b\n", "c", "d", "e")])], info=FIM)
        connection = server.connect()
        import json

        body = {**VIM, "t_max_predict_ms": 20, "response_fields": ["content", "stop_type"]}
        connection.request("POST", "/infill", json.dumps(body), {"content-type": "application/json"})
        until(wait.reached.is_set, "the engine waits")
        begun = time.monotonic()
        until(lambda: time.monotonic() - begun > 0.05, "the time is up")
        wait.release.set()
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["content"].startswith("ab\n")
        assert answer["stop_type"] == "limit"

    def test_a_model_without_the_tokens_says_so(self, serving: Any) -> None:
        status, answer = serving().ask("/infill", VIM)
        assert status == 501
        assert "fill-in-the-middle" in answer["error"]["message"]

    @pytest.mark.parametrize(
        "wrong", [{"input_extra": "x"}, {"input_extra": [{"filename": "a"}]}, {"input_prefix": 1}, {"n_indent": "x"}]
    )
    def test_wrong_fields_are_named(self, filling: Any, wrong: dict[str, Any]) -> None:
        server: Server = filling("x")
        status, answer = server.ask("/infill", {**VIM, **wrong})
        assert status == 400
        assert next(iter(wrong)) in answer["error"]["message"]
        assert server.engine.requests == []

    def test_a_file_name_is_a_word_and_opens_nothing(self, filling: Any, tmp_path: Any) -> None:
        secret = tmp_path / "secret"
        secret.write_text("swordfish")
        server: Server = filling("x")
        for name in (str(secret), f"../../../../../../{secret}", "file:///etc/passwd"):
            assert server.ask("/infill", {**VIM, "input_extra": [{"text": "t", "filename": name}]})[0] == 200
            assert "swordfish" not in "".join(segment.text for segment in server.engine.requests[-1].prompt)


class TestCompletion:
    def test_the_whole_answer(self, serving: Any) -> None:
        server = serving([Script(plain("a", "b\n"), reason="stop")])
        status, answer = server.ask(
            "/completion", {"prompt": "<s>x", "n_predict": 5, "stop": ["!"], "cache_prompt": True}
        )
        assert status == 200
        assert (answer["content"], answer["stop"], answer["stop_type"]) == ("ab\n", True, "word")
        assert (answer["tokens_predicted"], answer["tokens_evaluated"], answer["tokens_cached"]) == (2, 10, 12)
        assert (answer["has_new_line"], answer["truncated"], answer["index"]) == (True, False, 0)
        assert answer["timings"]["predicted_n"] == 2
        request = server.engine.requests[-1]
        assert (request.prompt, request.max_tokens, request.stop) == ((Segment("<s>x", True),), 5, ("!",))

    def test_a_stream_has_its_parts_and_ends_with_the_figures(self, serving: Any) -> None:
        server = serving([Script(plain("a", "b"))])
        *parts, last = server.stream("/completion", {"prompt": "x"})
        assert "".join(part["content"] for part in parts) == "ab"
        assert not any(part["stop"] for part in parts)
        assert (last["stop"], last["content"], last["stop_type"]) == (True, "", "eos")
        assert last["timings"]["predicted_n"] == 2

    def test_several_prompts_give_several_answers(self, serving: Any) -> None:
        server = serving([Script(plain("one")), Script(plain("two")), Script(plain("three"))])
        status, answers = server.ask("/completion", {"prompt": ["x", "y"]})
        assert status == 200
        assert [(answer["index"], answer["content"]) for answer in answers] == [(0, "one"), (1, "two")]

    def test_samplers_that_are_not_named_are_off(self, serving: Any) -> None:
        server = serving()
        server.ask("/completion", {"prompt": "x", "top_k": 5, "temperature": 0.5, "samplers": ["top_k"]})
        sampling = server.engine.requests[-1].sampling
        assert (sampling.top_k, sampling.top_p, sampling.min_p, sampling.temperature) == (5, 1.0, 0.0, 1.0)

    def test_llama_servers_way_to_write_biases(self, serving: Any) -> None:
        server = serving()
        server.ask("/completion", {"prompt": "x", "logit_bias": [[5, 1.5], [6, False]]})
        assert server.engine.requests[-1].sampling.logit_bias == {5: 1.5, 6: float("-inf")}

    def test_a_grammar_reaches_the_engine(self, serving: Any) -> None:
        server = serving()
        server.ask("/completion", {"prompt": "x", "grammar": 'root ::= "a"'})
        assert server.engine.requests[-1].grammar == 'root ::= "a"'
        server.ask("/completion", {"prompt": "x", "json_schema": {"type": "array"}})
        assert server.engine.requests[-1].json_schema == '{"type": "array"}'

    @pytest.mark.parametrize("prompt", [None, 5, [1, 2, 3], [], {"text": "x"}])
    def test_prompts_that_are_no_text_are_refused(self, serving: Any, prompt: Any) -> None:
        assert serving().ask("/completion", {"prompt": prompt})[0] == 400

    def test_minus_one_is_no_limit_and_a_new_seed(self, serving: Any) -> None:
        server = serving()
        server.ask("/completion", {"prompt": "x", "n_predict": -1, "seed": -1})
        request = server.engine.requests[-1]
        assert (request.max_tokens, request.seed) == (None, None)


def test_health_props_and_metrics(serving: Any) -> None:
    server = serving([Script(plain("a", "b", "c"))])
    assert server.ask("/health") == (200, {"status": "ok"})
    props = server.ask("/props")[1]
    assert (props["default_generation_settings"]["n_ctx"], props["model_path"]) == (INFO.context, "tiny.gguf")
    assert "localspec_acceptance_rate" not in server.ask("/metrics")[1]
    server.ask("/completion", {"prompt": "x"})
    server.ask("/nowhere/../x")
    text = server.ask("/metrics")[1]
    for line in (
        'localspec_requests_total{endpoint="/completion",status="200"} 1',
        'localspec_requests_total{endpoint="other",status="404"} 1',
        'localspec_answers_total{reason="end_of_text"} 1',
        'localspec_tokens_total{kind="plain"} 3',
        "localspec_prompt_tokens_total 10",
        "localspec_cycles_total 2",
        "localspec_tokens_per_cycle 1.0",
        "localspec_speedup 2.0",
        "localspec_queue_length 0",
    ):
        assert line in text.splitlines()
    for line in text.splitlines():
        assert line.startswith(("# HELP localspec_", "# TYPE localspec_", "localspec_"))


def test_acceptance_is_in_the_metrics(serving: Any) -> None:
    from tests.server.test_openai import MIXED

    server = serving([MIXED])
    server.ask("/completion", {"prompt": "x"})
    lines = server.ask("/metrics")[1].splitlines()
    assert 'localspec_draft_judged_total{drafter="lookup"} 5' in lines
    assert 'localspec_draft_accepted_total{drafter="lookup"} 4' in lines
    assert "localspec_acceptance_rate 0.8" in lines
