"""A grammar bounds the text and changes nothing else: the same text under every drafter, and texts that fit."""

import json
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from localspec.engine import grammar as grammar_module
from localspec.engine.drafters.grammar import GrammarDrafter
from localspec.engine.errors import EngineError
from localspec.engine.grammar import Grammar
from localspec.engine.grammar_state import GrammarState
from localspec.engine.llama import Model, native
from localspec.engine.requests import Request, SamplerSettings
from localspec.engine.sampling import NothingAllowed, Sampler
from tests import tiny
from tests.engine.answers import ENDLESS, GREEDY, GREEDY_ENDLESS, PLAIN_SAMPLING, ask, check_sums, prompt
from tests.engine.conftest import MakeEngine

LETTERS = 'root ::= ("b" [acd] "e" | "f" [a-l] | "gh")*'
MODES = ("off", "lookup", "draft", "auto")

# -- the target's law among what is allowed --

SETTINGS = {
    "greedy": SamplerSettings(temperature=0.0),
    "default": SamplerSettings(),
    "top-k": SamplerSettings(temperature=0.7, top_k=5, top_p=1.0, min_p=0.0),
    "top-p": SamplerSettings(temperature=1.0, top_k=0, top_p=0.7, min_p=0.0),
    "min-p": SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.1),
    "free": SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    "penalised": SamplerSettings(repeat_penalty=1.5, presence_penalty=0.5, logit_bias={7: 3.0, 9: float("-inf")}),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("share", [0.0005, 0.01, 0.9])
def test_the_law_is_that_of_logits_with_what_is_forbidden_at_minus_infinity(name: str, share: float) -> None:
    """However few are asked about: the answer is that of the whole row masked before the filters."""
    size = 6000
    sampler = Sampler(SETTINGS[name], size)
    rng = np.random.default_rng(3)
    for _ in range(20):
        row = rng.normal(size=size).astype(np.float32).round(1) * 3
        mask = rng.random(size) < share
        mask[rng.integers(size)] = True
        expected = sampler.distribution(np.where(mask, row, -np.inf).astype(np.float32), [7, 7, 11])
        law = sampler.distribution(row, [7, 7, 11], lambda ids, mask=mask: mask[ids])
        everywhere = range(size)
        assert [law.prob(i) for i in everywhere] == pytest.approx([expected.prob(i) for i in everywhere], abs=1e-12)
        if sampler.greedy:
            assert law.argmax == expected.argmax


def test_nothing_allowed_is_an_error() -> None:
    row = np.zeros(5000, np.float32)
    for settings in SETTINGS.values():
        with pytest.raises(NothingAllowed):
            Sampler(settings, 5000).distribution(row, [], lambda ids: np.zeros(len(ids), np.bool_))


# -- states --


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Bytes and some longer tokens."""
    longer = ("tru", "true", "fal", '{"', '":', "ab", " fa", "  ")
    tokens = tiny.vocabulary(26, with_bytes=True, extra=longer)
    return Model(
        str(tiny.write_llama(tmp_path_factory.mktemp("grammar") / "model.gguf", tokens=tokens)), vocab_only=True
    )


GRAMMARS = {
    "json": 'root ::= "{\\"" [a-z]{1,4} "\\":" " "? ("true" | "false" | "null" | [0-9]+) "}"',
    "unicode": 'root ::= [α-ω]+ "ä" .',
    "spaces": 'root ::= " "* "  fa" [b-d]?',
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_asking_for_bytes_first_changes_no_answer(model: Model, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Along random texts of the grammar, for all tokens at once."""
    monkeypatch.setattr(grammar_module, "_WORTH_SORTING", 0)
    everything = np.arange(model.vocab_size, dtype=np.int32)
    rng = np.random.default_rng(1)
    sorted_ways = 0
    for _ in range(15):
        grammar = Grammar(model, GRAMMARS[name])
        plain = GrammarState.begin(model, GRAMMARS[name])
        for _ in range(12):
            may = plain.allowed(everything)
            assert (grammar.allowed(0)(everything) == may).all()
            sorted_ways += grammar._alphabet._heads(plain) is not None
            choices = [token for token in may.nonzero()[0].tolist() if token not in model.end_tokens]
            if not choices:
                assert grammar.is_complete()
                break
            assert not grammar.is_complete()
            token = int(rng.choice(choices))
            grammar.advance(token)
            plain = plain.after(token)
        grammar.close()
    assert sorted_ways > 10


def test_the_forced_text_is_found_and_ends_where_there_is_a_choice(model: Model) -> None:
    grammar = Grammar(model, 'root ::= "{\\"naïve\\": " ("true" | "tru" | "false")')
    assert grammar.forced(100) == '{"naïve": '.encode()
    assert grammar.forced(3) == b'{"n'
    for byte in '{"naïve": f'.encode():
        grammar.advance(grammar._alphabet.alone[byte])
    assert grammar.forced(100) == b"alse"
    grammar.advance(model.tokenize("a")[0])
    assert grammar.admit(model.tokenize("lse")) == 3
    assert grammar.is_complete(3)
    assert not grammar.is_complete(2)
    # A text that may end is not forced to go on.
    other = Grammar(model, 'root ::= "a" | "abc"')
    assert other.forced(100) == b"a"


def test_a_draft_is_admitted_up_to_the_first_token_that_may_not_come(model: Model) -> None:
    grammar = Grammar(model, 'root ::= "ab" "c"* "d"')
    a, b, c, d = (model.tokenize(letter)[0] for letter in "abcd")
    assert grammar.admit([a, b, c, c, a, d]) == 4
    assert grammar.admit([a, b, d, tiny.EOS]) == 4
    assert grammar.admit([a, b, d, d]) == 3
    grammar.advance(a)
    assert grammar.admit([b, c, b]) == 2
    grammar.advance(b)
    grammar.advance(d)
    assert grammar.is_complete()
    with pytest.raises(ValueError, match="may not come"):
        grammar.advance(a)


def test_every_place_of_a_draft_has_its_own_state(model: Model) -> None:
    """Whatever is asked, pushed, advanced and forgotten in between, in any order."""
    text = 'root ::= ([a-c]{2} [d-f] "g"?)*'
    rng = np.random.default_rng(4)
    everything = np.arange(model.vocab_size, dtype=np.int32)
    grammar = Grammar(model, text)
    emitted: list[int] = []
    ahead: list[int] = []

    def reference(tokens: list[int]) -> np.ndarray:
        state = GrammarState.begin(model, text)
        for token in tokens:
            state = state.after(token)
        return state.allowed(everything)

    def some(tokens: list[int]) -> int:
        ids = reference(tokens).nonzero()[0]
        return int(rng.choice(ids[ids != tiny.EOS]))

    for _ in range(300):
        match rng.integers(4):
            case 0:
                ahead.append(some(emitted + ahead))
                grammar.push(ahead[-1])
            case 1:
                draft = ahead[: rng.integers(len(ahead) + 1)]
                for _ in range(rng.integers(4)):
                    draft.append(some(emitted + draft))
                assert grammar.admit([*draft, 3]) == len(draft)
                ahead = draft
            case 2:
                token = ahead[0] if ahead and rng.random() < 0.7 else some(emitted)
                grammar.advance(token)
                emitted.append(token)
                ahead = ahead[1:] if ahead and ahead[0] == token else []
            case _:
                place = int(rng.integers(len(ahead) + 1))
                assert (grammar.allowed(place)(everything) == reference(emitted + ahead[:place])).all()
    assert len(emitted) > 50


def test_a_token_that_may_not_come_never_reaches_the_library(model: Model) -> None:
    """It would end the process."""
    state = GrammarState.begin(model, 'root ::= "a"')
    for token in (model.tokenize("b")[0], tiny.EOS, 3):
        with pytest.raises(ValueError, match="may not come"):
            state.after(token)
        with pytest.raises(ValueError, match="may not come"):
            state.accept(token)


def test_control_tokens_are_no_text(model: Model) -> None:
    """Their spelling fits the grammar, but the answer's text would lack it."""
    role = next(i for i in range(model.vocab_size) if model.piece(i, special=True) == b"<|role|>")
    state = GrammarState.begin(model, "root ::= .*")
    assert not state.allows(role)
    assert state.allows(model.tokenize("<")[0])
    assert state.allows(tiny.EOS)


# -- the engine --


@pytest.mark.parametrize("text", ["abcabcab", "bcebaefgbce"])
def test_greedy_text_is_the_same_under_every_drafter(make_engine: MakeEngine, text: str) -> None:
    engine = make_engine("target", "draft")
    answers = {
        (mode, length): ask(engine, text, grammar=LETTERS, speculate=mode, draft_length=length)
        for mode in MODES
        for length in ((None,) if mode == "off" else (None, 1, 4))
    }
    plain = answers["off", None]
    assert len(plain.ids) == 40
    assert plain.ids != ask(engine, text).ids
    for answer in answers.values():
        assert answer.ids == plain.ids
        assert answer.started.grammar
        check_sums(answer)
    assert {cycle.drafter for answer in answers.values() for cycle in answer.cycles} >= {"draft", "grammar", "lookup"}


def test_the_target_as_its_own_draft_is_always_right(make_engine: MakeEngine) -> None:
    """C1: under the same grammar the draft model's argmax is the target's."""
    answer = ask(make_engine("target", "twin"), grammar=LETTERS, speculate="draft", draft_length=3)
    drafted = [cycle for cycle in answer.cycles if cycle.drafter == "draft"]
    assert drafted
    assert all(cycle.accepted == cycle.judged == cycle.proposed for cycle in drafted)


def test_forced_tokens_are_free_drafts(make_engine: MakeEngine) -> None:
    """Where one letter is one token, all that is forced stands: four accepted and a bonus."""
    answer = ask(make_engine("target"), grammar=f'root ::= "{"abcdefghij" * 4}"', speculate="lookup", draft_length=4)
    assert answer.end.text == "abcdefghij" * 4
    assert answer.end.reason == "end_of_text"
    drafted = [cycle for cycle in answer.cycles if cycle.drafter != "none"]
    assert [(c.drafter, c.proposed, c.accepted) for c in drafted[:3]] == [("grammar", 4, 4)] * 3
    assert [t.kind for t in answer.tokens if t.cycle == drafted[0].cycle] == ["accepted"] * 4 + ["bonus"]
    assert {t.drafter for t in answer.tokens if t.kind == "accepted"} == {"grammar"}
    check_sums(answer)


def test_the_end_of_a_forced_text_is_left_open_where_it_may_be_a_longer_token(model: Model) -> None:
    """`":` is one token, and after `"` there is a choice; where there is none, but for a blank that nobody sets, or no
    such token, all is proposed."""

    def drafted(text: str, limit: int = 20) -> bytes:
        grammar = Grammar(model, text)
        return b"".join(model.piece(token) for token in GrammarDrafter(model, grammar).draft([], limit).tokens)

    assert drafted('root ::= "name\\"" (":" | ";")') == b"name"
    assert drafted('root ::= "name\\"" (":" | " :")') == b'name":'
    assert drafted('root ::= "name\\":"') == b'name":'
    assert drafted('root ::= "name\\"" (";" | "!")') == b'name"'
    assert drafted('root ::= "name\\":"', limit=3) == b"nam"


def test_nothing_is_drafted_when_speculation_is_off(make_engine: MakeEngine) -> None:
    answer = ask(make_engine("target"), grammar='root ::= "abcdef"', speculate="off")
    assert {cycle.drafter for cycle in answer.cycles} == {"none"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sampling", [GREEDY_ENDLESS, PLAIN_SAMPLING], ids=["greedy", "sampled"])
def test_a_complete_text_ends_the_answer(make_engine: MakeEngine, mode: str, sampling: SamplerSettings) -> None:
    """Though the logit bias forbids every end token: nothing else may come."""
    engine = make_engine("target", "draft")
    answer = ask(engine, grammar='root ::= "ab" [cd] "ef"', speculate=mode, draft_length=8, sampling=sampling)
    assert answer.end.text in ("abcef", "abdef")
    assert answer.end.reason == "end_of_text"
    assert answer.end.stats.tokens == 5
    check_sums(answer)


def test_the_text_may_end_where_the_grammar_lets_it_and_only_there(make_engine: MakeEngine) -> None:
    ends = SamplerSettings(temperature=0.0, logit_bias={tiny.EOS: 1000.0})
    answer = ask(make_engine("target"), grammar='root ::= "ab" "c"*', sampling=ends)
    assert (answer.end.text, answer.end.reason) == ("ab", "end_of_text")


def test_limits_and_stop_strings_cut_as_ever(make_engine: MakeEngine) -> None:
    engine = make_engine("target", "draft")
    cut = ask(engine, grammar='root ::= "abcabcabc"', speculate="draft", draft_length=4, max_tokens=5)
    assert (cut.end.text, cut.end.reason) == ("abcab", "max_tokens")
    stopped = ask(engine, grammar='root ::= "abcabcabc"', speculate="draft", draft_length=4, stop=("ca",))
    assert (stopped.end.text, stopped.end.reason) == ("ab", "stop")
    exact = ask(engine, grammar='root ::= "abc"', speculate="lookup", max_tokens=3)
    assert (exact.end.text, exact.end.reason) == ("abc", "end_of_text")


def test_a_grammar_that_the_vocabulary_cannot_write_is_an_error(make_engine: MakeEngine) -> None:
    """Twelve letters and no more; the engine goes on to the next request."""
    engine = make_engine("target")
    with pytest.raises(EngineError, match="allows no token here"):
        ask(engine, grammar='root ::= "ab" "z"')
    assert ask(engine, max_tokens=3).end.stats.tokens == 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"grammar": "root ::= ("}, "line 1"),
        ({"grammar": ""}, "no rule named root"),
        ({"grammar": 'root ::= a\na ::= b a "y" | "z"\nb ::= c\nc ::= ""'}, "begins with itself"),
        ({"json_schema": "{"}, "not valid JSON"),
        ({"grammar": 'root ::= "a"', "json_schema": "{}"}, "give one of them"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_read(
    make_engine: MakeEngine, fields: dict[str, str], reason: str
) -> None:
    engine = make_engine("target")
    with pytest.raises(EngineError, match=reason):
        next(engine.generate(Request(prompt("abc"), **fields)))  # type: ignore[arg-type]
    assert ask(engine, max_tokens=3).end.stats.tokens == 3


def test_a_prompt_is_reused_across_grammars(make_engine: MakeEngine) -> None:
    """The grammar belongs to the answer, the cache to the prompt."""
    engine = make_engine("target", "draft")
    first = ask(engine, grammar=LETTERS, speculate="draft", draft_length=3)
    ask(engine, grammar="root ::= [ab]*", speculate="draft", draft_length=3)
    free = ask(engine, speculate="draft", draft_length=3)
    again = ask(engine, grammar=LETTERS, speculate="draft", draft_length=3)
    assert again.end.stats.prompt_reused > 0
    assert again.ids == first.ids
    assert free.ids == ask(make_engine("target")).ids


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer"},
        "kind": {"enum": ["alpha", "beta"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "age", "kind", "tags"],
}


@pytest.mark.parametrize("mode", ["off", "lookup", "draft"])
def test_what_comes_out_fits_the_schema(make_engine: MakeEngine, mode: str) -> None:
    engine = make_engine("bytes", "bytes")
    texts = set()
    for seed in range(25):
        answer = ask(
            engine, "tell me", json_schema=json.dumps(PERSON), speculate=mode, draft_length=5, seed=seed,
            max_tokens=None, sampling=SamplerSettings(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0),
        )  # fmt: skip
        value = json.loads(answer.end.text)
        assert answer.end.reason == "end_of_text"
        assert list(value) == ["name", "age", "kind", "tags"]
        assert isinstance(value["name"], str)
        assert isinstance(value["age"], int)
        assert value["kind"] in ("alpha", "beta")
        assert all(isinstance(tag, bool) for tag in value["tags"])
        assert len(value["tags"]) <= 3
        texts.add(answer.end.text)
        check_sums(answer)
    assert len(texts) == 25


@pytest.mark.parametrize("mode", ["lookup", "auto"])
@pytest.mark.parametrize("length", [None, 3, 12])
def test_records_are_the_same_text_under_woven_drafts(make_engine: MakeEngine, mode: str, length: int | None) -> None:
    """Keys and values in turns, one record after the other, each at any temperature of its own seed."""
    engine = make_engine("bytes", "bytes")
    schema = json.dumps({"type": "array", "items": PERSON, "minItems": 3, "maxItems": 3})
    drafters: set[str] = set()
    for seed in range(4):
        fields = {"json_schema": schema, "seed": seed, "max_tokens": 300, "verify": "coupled"}
        fields["sampling"] = SamplerSettings(temperature=0.0 if seed == 0 else 1.0, top_k=0, top_p=1.0, min_p=0.0)
        plain = ask(engine, 'name "abc", kind "beta"', speculate="off", **fields)
        woven = ask(engine, 'name "abc", kind "beta"', speculate=mode, draft_length=length, **fields)
        assert woven.ids == plain.ids
        check_sums(woven)
        drafters |= {token.drafter for token in woven.tokens if token.kind == "accepted"}
    assert {"grammar", "lookup"} <= drafters


def test_what_the_schema_asks_and_no_grammar_can_is_said(make_engine: MakeEngine) -> None:
    answer = ask(make_engine("bytes"), json_schema='{"type": "integer", "minimum": 3}', max_tokens=3)
    assert [event.text for event in answer.events if type(event).__name__ == "Notice"] == [
        "The JSON schema's minimum cannot be put into a grammar and may not be met."
    ]


# -- native memory --


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many native states were made since and not freed."""
    counts = {"made": 0, "freed": 0}

    def counting(name: str, key: str) -> None:
        real = getattr(native, name)

        def call(*arguments: object) -> object:
            counts[key] += 1
            return real(*arguments)

        monkeypatch.setattr(native, name, call)

    counting("llama_sampler_init_grammar", "made")
    counting("llama_sampler_clone", "made")
    counting("llama_sampler_free", "freed")
    return lambda: counts["made"] - counts["freed"] if counts["made"] else -1


def test_every_state_is_freed_however_an_answer_ends(
    make_engine: MakeEngine, living: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine("target", "draft")

    def request(**fields: object) -> Request:
        settings: dict[str, object] = {"sampling": GREEDY_ENDLESS, "speculate": "draft", "draft_length": 4} | fields
        return Request(prompt("abcabc"), grammar=LETTERS, max_tokens=20, **settings)  # type: ignore[arg-type]

    assert len(list(engine.generate(request()))) > 10
    assert living() == 0
    for events in (0, 1, 2, 5):  # abandoned
        answer = engine.generate(request(speculate="auto"))
        for _ in range(events):
            next(answer)
        answer.close()
        assert living() == 0
    for event in engine.generate(request()):  # cancelled
        if getattr(event, "cycle", 0) == 2:
            engine.cancel()
    assert living() == 0
    with pytest.raises(EngineError):  # failed in the middle
        list(engine.generate(Request(prompt("abc"), GREEDY, grammar='root ::= "ab" "z"')))
    assert living() == 0
    with pytest.raises(EngineError):  # refused
        list(engine.generate(request(stop=("",))))
    assert living() in (0, -1)


def test_memory_stays_flat(make_engine: MakeEngine) -> None:
    """500 answers under a grammar of a few hundred rules; without freeing them they would take 100 MB."""
    engine = make_engine("target", "draft")
    grammar = "root ::= " + " | ".join(
        f'"{"abcdefghijkl"[i % 12]}{"lkjihgfedcba"[i % 11 % 12]}" [a-e]' for i in range(500)
    )

    def answers(count: int) -> int:
        for _ in range(count):
            ask(
                engine, grammar=grammar, speculate="draft", draft_length=3, sampling=SamplerSettings(logit_bias=ENDLESS)
            )
        return psutil.Process().memory_info().rss

    before = answers(50)
    assert answers(450) - before < 8 * 2**20
