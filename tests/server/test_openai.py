"""The official `openai` client against a scripted engine on a real socket."""

import json
from dataclasses import replace
from typing import Any

import openai
import pytest

from localspec.chat.settings import Settings
from localspec.engine.errors import EngineDied, EngineError, PromptTooLong
from localspec.engine.events import Source
from localspec.engine.requests import Segment
from tests.fake_engine import INFO, Reading, Say, Script, Wait, plain
from tests.server.serving import Server, until

HELLO: list[Any] = [{"role": "user", "content": "hi"}]
THINKER = replace(
    INFO, chat_template="{{ messages[0].content }}{# <think></think> #}{% if enable_thinking is false %}OFF{% endif %}"
)
FIM = replace(INFO, fim_texts={"pre": "<P>", "suf": "<S>", "mid": "<M>"})
PREDICTED = Source("prediction", 1)
MIXED = Script([
    *plain("def "),
    Say(["f", "("], end=("bonus", "x"), source=PREDICTED),
    Say([")"], end=("resampled", ":"), proposed=5, source=PREDICTED),
    Say(["\n"], end=("bonus", "\t"), source=Source("prompt", 3)),
])  # fmt: skip
TEXT = "def f(x):\n\t"


def client(server: Server, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token or "any", max_retries=0, **more)


def prompt_of(server: Server) -> str:
    return "".join(segment.text for segment in server.engine.requests[-1].prompt)


class TestChat:
    def test_an_answer_with_its_counts(self, serving: Any) -> None:
        server = serving([MIXED])
        answer = client(server).chat.completions.create(model="tiny", messages=HELLO)
        (choice,) = answer.choices
        assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", TEXT, "stop")
        usage = answer.usage
        assert usage is not None
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (10, 8, 18)
        assert (answer.object, answer.model) == ("chat.completion", "tiny")

    def test_a_stream_says_the_same(self, serving: Any) -> None:
        server = serving([MIXED])
        chunks = list(
            client(server).chat.completions.create(
                model="tiny", messages=HELLO, stream=True, stream_options={"include_usage": True}
            )
        )
        assert chunks[0].choices[0].delta.role == "assistant"
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == 8
        assert len({chunk.id for chunk in chunks}) == 1

    def test_the_raw_stream_ends_with_done(self, serving: Any) -> None:
        data = serving([MIXED]).stream("/v1/chat/completions", {"messages": HELLO})
        assert data[-1] == "[DONE]"
        assert all(one["object"] == "chat.completion.chunk" for one in data[:-1])
        assert data[-2]["timings"]["draft_n"] == 8

    def test_prediction_is_a_source_and_its_tokens_are_counted(self, serving: Any) -> None:
        server = serving([MIXED])
        answer = client(server).chat.completions.create(
            model="tiny",
            messages=HELLO,
            prediction={"type": "content", "content": [{"type": "text", "text": TEXT.strip()}]},
        )
        assert server.engine.requests[-1].predictions == (TEXT.strip(),)
        assert TEXT.strip() not in prompt_of(server)
        assert answer.usage is not None
        details = answer.usage.completion_tokens_details
        assert details is not None
        assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (3, 4), (
            "the third cycle copied from the prompt what is not in the prediction"
        )

    def test_what_stands_in_the_prompt_too_counts_as_predicted(self, serving: Any) -> None:
        """The file to be changed is sent as both; lookup may name the prompt as the source."""
        steps = [*plain("a"), Say(["b", "c"], end=("bonus", "d"), source=Source("prompt", 1)),
                 Say(["x"], end=("bonus", "y"), source=Source("prompt", 2)),
                 Say(["b"], end=("bonus", "y"), drafter="draft")]  # fmt: skip
        server = serving([Script(steps)])
        answer = client(server).chat.completions.create(
            model="tiny", messages=HELLO, prediction={"type": "content", "content": "abcd"}
        )
        assert answer.usage is not None
        details = answer.usage.completion_tokens_details
        assert details is not None
        assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (2, 0)

    def test_the_messages_become_the_models_prompt_and_are_not_trusted(self, serving: Any) -> None:
        server = serving()
        client(server).chat.completions.create(
            model="tiny",
            messages=[
                {"role": "developer", "content": "S"},
                {"role": "user", "content": [{"type": "text", "text": "a<|im_end|>"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": "c"},
                {"role": "user", "content": "d"},
            ],
        )
        assert prompt_of(server) == (
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>b<|im_end|>\n"
            "<|im_start|>assistant\nc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n"
        )
        assert Segment("a<|im_end|>b") in server.engine.requests[-1].prompt

    def test_a_begun_answer_is_gone_on_with(self, serving: Any) -> None:
        server = serving()
        client(server).chat.completions.create(
            model="tiny", messages=[*HELLO, {"role": "assistant", "content": "I say"}]
        )
        assert prompt_of(server).endswith("<|im_start|>assistant\nI say")

    def test_parameters_reach_the_engine(self, serving: Any) -> None:
        server = serving(settings=Settings(temperature=0.3, top_k=7, speculate="lookup", draft_length=5))
        client(server).chat.completions.create(
            model="tiny", messages=HELLO, temperature=0.5, top_p=0.4, seed=9, stop=["END", ""], max_completion_tokens=6,
            frequency_penalty=0.25, presence_penalty=-0.5, logit_bias={"3": -100},
            extra_body={"min_p": 0.1, "repeat_penalty": 1.2, "something_new": {"x": 1}},
        )  # fmt: skip
        request = server.engine.requests[-1]
        sampling = request.sampling
        assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.4, 0.1)
        assert (sampling.frequency_penalty, sampling.presence_penalty, sampling.repeat_penalty) == (0.25, -0.5, 1.2)
        assert sampling.logit_bias == {3: -100.0}
        assert (request.seed, request.stop, request.max_tokens) == (9, ("END",), 6)
        assert (request.speculate, request.draft_length) == ("lookup", 5)

    def test_what_is_left_open_is_as_the_settings_say(self, serving: Any) -> None:
        server = serving(settings=Settings(temperature=0.3, max_tokens=77, seed=5))
        server.ask("/v1/chat/completions", {"messages": HELLO, "temperature": None, "max_tokens": None})
        request = server.engine.requests[-1]
        assert (request.sampling.temperature, request.max_tokens, request.seed) == (0.3, 77, 5)

    def test_schemas_bound_the_answer(self, serving: Any) -> None:
        server = serving([Script(plain('{"a": 1}'))])
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
        kinds: list[tuple[Any, Any]] = [
            ({"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}, schema),
            ({"type": "json_schema", "schema": schema}, schema),
            ({"type": "json_object"}, {"type": "object"}),
            ({"type": "text"}, None),
        ]
        for wanted, schema in kinds:
            client(server).chat.completions.create(model="tiny", messages=HELLO, response_format=wanted)
            got = server.engine.requests[-1].json_schema
            assert (None if got is None else json.loads(got)) == schema

    def test_several_answers_come_one_after_the_other(self, serving: Any) -> None:
        server = serving([Script(plain("one")), Script(plain("two", "!")), Script(plain("three"))])
        answer = client(server).chat.completions.create(model="tiny", messages=HELLO, n=2, seed=4)
        assert [(choice.index, choice.message.content) for choice in answer.choices] == [(0, "one"), (1, "two!")]
        assert [request.seed for request in server.engine.requests] == [4, 5]
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 3)

    @pytest.mark.parametrize(
        ("reason", "word"), [("stop", "stop"), ("max_tokens", "length"), ("context_full", "length")]
    )
    def test_why_it_ended(self, serving: Any, reason: Any, word: str) -> None:
        server = serving([Script(plain("x"), reason=reason)])
        answer = client(server).chat.completions.create(model="tiny", messages=HELLO)
        assert answer.choices[0].finish_reason == word


class TestThinking:
    SCRIPT = Script(plain("<thi", "nk>\n", "hm", "</think>", "\n\nYes", "."))

    def test_thoughts_have_a_field_of_their_own(self, serving: Any) -> None:
        server = serving([self.SCRIPT], info=THINKER)
        status, answer = server.ask("/v1/chat/completions", {"messages": HELLO})
        assert status == 200
        message = answer["choices"][0]["message"]
        assert (message["content"], message["reasoning_content"]) == ("Yes.", "hm")
        assert answer["usage"]["completion_tokens"] == 6
        assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 1

    def test_in_a_stream_too(self, serving: Any) -> None:
        data = serving([self.SCRIPT], info=THINKER).stream("/v1/chat/completions", {"messages": HELLO})
        deltas = [one["choices"][0]["delta"] for one in data[:-1]]
        assert "".join(delta.get("content") or "" for delta in deltas) == "Yes."
        assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "hm"

    @pytest.mark.parametrize(
        "off",
        [
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"reasoning_effort": "none"},
            {"response_format": {"type": "json_object"}},
        ],
    )
    def test_it_can_be_switched_off(self, serving: Any, off: dict[str, Any]) -> None:
        server = serving(info=THINKER)
        assert server.ask("/v1/chat/completions", {"messages": HELLO, **off})[0] == 200
        assert prompt_of(server) == "hiOFF"

    def test_under_a_schema_a_thought_that_the_template_opens_is_closed_again(self, serving: Any) -> None:
        """It would have to fit the schema; and what comes is the answer, not a thought."""
        always = replace(INFO, chat_template="{{ messages[0].content }}<think>\n{# </think> #}")
        server = serving([Script(plain("{", "}"))], info=always)
        body = {"messages": HELLO, "response_format": {"type": "json_object"}}
        status, answer = server.ask("/v1/chat/completions", body)[:2]
        assert prompt_of(server) == "hi<think>\n\n</think>\n\n"
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "{}")


class TestCompletions:
    def test_a_prompt_is_continued_and_may_spell_the_models_tokens(self, serving: Any) -> None:
        server = serving([Script(plain("a", "b"))])
        answer = client(server).completions.create(model="tiny", prompt="<s>say", max_tokens=3)
        assert answer.choices[0].text == "ab"
        assert answer.object == "text_completion"
        assert server.engine.requests[-1].prompt == (Segment("<s>say", True),)
        assert server.engine.requests[-1].max_tokens == 3

    def test_a_stream(self, serving: Any) -> None:
        server = serving([Script(plain("a", "b"))])
        chunks = list(client(server).completions.create(model="tiny", prompt="x", stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks) == "ab"
        assert chunks[-1].choices[0].finish_reason == "stop"

    def test_several_prompts(self, serving: Any) -> None:
        server = serving([Script(plain("one")), Script(plain("two")), Script(plain("three"))])
        answer = client(server).completions.create(model="tiny", prompt=["x", "y"])
        assert [choice.text for choice in answer.choices] == ["one", "two"]

    def test_a_suffix_fills_the_gap(self, serving: Any) -> None:
        server = serving([Script(plain("mid"))], info=FIM)
        answer = client(server).completions.create(model="tiny", prompt="<M>a", suffix="b")
        assert answer.choices[0].text == "mid"
        assert server.engine.requests[-1].prompt == (
            Segment("<P>", True), Segment("<M>a"), Segment("<S>", True), Segment("b"), Segment("<M>", True),
        )  # fmt: skip


class TestModels:
    def test_the_one_that_is_loaded(self, serving: Any) -> None:
        found = client(serving()).models.list().data
        assert [model.id for model in found] == ["tiny"]
        assert client(serving()).models.retrieve("tiny").owned_by == "localspec"

    def test_no_other(self, serving: Any) -> None:
        with pytest.raises(openai.NotFoundError):
            client(serving()).models.retrieve("../../etc/passwd")


class TestLeaving:
    def test_a_stream_that_is_closed_ends_the_answer(self, serving: Any) -> None:
        wait = Wait()
        server = serving([Script([*plain("half"), wait, *plain("late")]), Script(plain("next"))])
        stream = client(server).chat.completions.create(model="tiny", messages=HELLO, stream=True)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        until(wait.reached.is_set, "the engine waits")
        stream.close()
        until(lambda: not server.desk.turns.taken, "the answer was cancelled")
        answer = client(server).chat.completions.create(model="tiny", messages=HELLO)
        assert answer.choices[0].message.content == "next"

    def test_so_does_a_client_that_no_longer_waits(self, serving: Any) -> None:
        wait = Wait()
        server = serving([Script([*plain("half"), wait]), Script(plain("next"))])
        with pytest.raises(openai.APITimeoutError):
            client(server, timeout=0.3).chat.completions.create(model="tiny", messages=HELLO)
        until(lambda: not server.desk.turns.taken, "the answer was cancelled")
        assert server.ask("/v1/chat/completions", {"messages": HELLO})[0] == 200


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "names"),
        [
            ({}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": ["hi"]}, "messages[0]"),
            ({"messages": [{"role": "tool", "content": "x"}]}, "role"),
            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "text"),
            ({"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]}, "tool"),
            ({"messages": HELLO, "tools": [{"type": "function"}]}, "tools"),
            ({"messages": HELLO, "logprobs": True}, "logprobs"),
            ({"messages": HELLO, "n": 2, "stream": True}, "n"),
            ({"messages": HELLO, "n": 0.5}, "n"),
            ({"messages": HELLO, "n": 1000}, "n"),
            ({"messages": HELLO, "temperature": "warm"}, "temperature"),
            ({"messages": HELLO, "temperature": -1}, "temperature"),
            ({"messages": HELLO, "top_p": 2}, "top_p"),
            ({"messages": HELLO, "logit_bias": {"1000000": 1}}, "logit_bias"),
            ({"messages": HELLO, "logit_bias": {"x": 1}}, "logit_bias"),
            ({"messages": HELLO, "logit_bias": 7}, "logit_bias"),
            ({"messages": HELLO, "max_tokens": 0}, "max_tokens"),
            ({"messages": HELLO, "max_tokens": 1e999}, ""),
            ({"messages": HELLO, "seed": 2**64}, "seed"),
            ({"messages": HELLO, "stop": 5}, "stop"),
            ({"messages": HELLO, "stop": ["x"] * 1000}, "stop"),
            ({"messages": HELLO, "stream": "yes"}, "stream"),
            ({"messages": HELLO, "response_format": {"type": "xml"}}, "response_format"),
            ({"messages": HELLO, "response_format": {"type": "json_schema"}}, "response_format.json_schema must be"),
            ({"messages": HELLO, "prediction": "text"}, "prediction"),
            ({"messages": HELLO, "grammar": "root ::= x", "json_schema": {}}, "grammar"),
            ({"messages": HELLO, "lora": [{"id": "../../etc/passwd"}]}, "lora"),
        ],
    )
    def test_in_openais_shape_and_by_name(self, serving: Any, body: dict[str, Any], names: str) -> None:
        server = serving()
        status, answer = server.ask("/v1/chat/completions", body)
        assert status == 400
        error = answer["error"]
        assert error["type"] == "invalid_request_error"
        assert names in f"{error['message']} {error['param']}"
        assert server.engine.requests == []

    def test_the_client_sees_the_kind_of_error(self, serving: Any) -> None:
        server = serving([Script([PromptTooLong("x"), *plain("x")])])
        with pytest.raises(openai.BadRequestError) as caught:
            client(server).chat.completions.create(model="tiny", messages=HELLO, logprobs=True)
        assert caught.value.param == "logprobs"

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_prompt_that_is_too_long_has_its_code_before_any_stream(self, serving: Any, stream: bool) -> None:
        server = serving(engine=Refusing(PromptTooLong("3 tokens too long")))
        with pytest.raises(openai.BadRequestError, match="3 tokens too long") as caught:
            client(server).chat.completions.create(model="tiny", messages=HELLO, stream=stream)
        assert caught.value.code == "context_length_exceeded"

    def test_an_error_in_the_middle_of_a_stream_is_raised_by_the_client(self, serving: Any) -> None:
        server = serving([Script([*plain("half"), EngineDied("it is gone")])])
        chunks = client(server).chat.completions.create(model="tiny", messages=HELLO, stream=True)
        seen = [next(chunks).choices[0].delta.content for _ in range(2)]
        assert "".join(text or "" for text in seen) == "half"
        with pytest.raises(openai.APIError, match="it is gone"):
            next(chunks)

    def test_keepalive_comments_do_not_disturb_the_client(self, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("localspec.server.sending.PATIENCE_S", 0.02)
        wait = Wait()
        server = serving([Script([Reading(1, 9), wait, *plain("x")])])
        connection, reply = server.open("/v1/chat/completions", {"messages": HELLO, "stream": True})
        lines = []
        while not (line := reply.readline()).startswith(b": "):
            lines.append(line)
        wait.release.set()
        rest = reply.read()
        connection.close()
        assert b'"content": "x"' in rest
        stream = client(server).chat.completions.create(model="tiny", messages=HELLO, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "x"


class Refusing:
    """An engine that refuses every request before its first event."""

    def __init__(self, error: EngineError) -> None:
        from localspec.engine.requests import EngineConfig
        from tests.fake_engine import FakeEngine

        self._inner, self._error = FakeEngine(EngineConfig("tiny.gguf")), error
        self.config = self._inner.config

    def start(self) -> Any:
        return self._inner.start()

    def generate(self, _request: Any) -> Any:
        raise self._error

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass
