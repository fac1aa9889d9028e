"""Drafts woven of forced and copied tokens: in turns, all admitted, each with what speaks for it."""

from collections.abc import Sequence

import numpy as np
import pytest

from localspec.engine.drafters.base import Draft, Place
from localspec.engine.drafters.grammar import GrammarDrafter
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.drafters.woven import Weaver
from localspec.engine.grammar import Grammar
from localspec.engine.llama import Model
from localspec.engine.lookup_acceptance import LookupAcceptance
from localspec.engine.strategy import Experience, Strategy
from tests import tiny
from tests.engine.test_strategy import Known

ROWS = r"""root ::= "[" row ("," " "? row)* "]"
row ::= "{\"name\":" " "? "\"" [a-zA-Z .,]* "\"," " "? "\"age\":" " "? [0-9]+ "}"
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Bytes, letters, and longer tokens of both a sentence and its JSON."""
    longer = ('":', '",', "▁an", "an", "na", '"name', "age", "},", '{"')
    tokens = tiny.vocabulary(26, with_bytes=True, extra=longer)
    path = tiny.write_llama(tmp_path_factory.mktemp("woven") / "model.gguf", tokens=tokens)
    return Model(str(path), vocab_only=True)


def cut(model: Model, text: str) -> list[int]:
    return model.tokenize("\n" + text)[1:]


class Text:
    """An answer under `ROWS` so far, behind a prompt."""

    def __init__(self, model: Model, prompt: str, answer: str, grammar: str = ROWS) -> None:
        self.model = model
        self.grammar = Grammar(model, grammar)
        self.forced, self.lookup = GrammarDrafter(model, self.grammar), Lookup()
        self.prompt = cut(model, prompt)
        self.lookup.begin(self.prompt)
        self.forced.begin(self.prompt)
        self.write(cut(model, answer))

    def write(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.grammar.advance(token)
        self.lookup.accept(tokens)
        self.forced.accept(tokens)

    def draft(self, limit: int = 31, rate: float = 0.99) -> Draft:
        """As if everything stood: `LEAST` does not cut it."""
        return Weaver(self.forced, self.lookup, lambda place: rate).draft((), limit)

    def drafted(self, limit: int = 31) -> str:
        return b"".join(map(self.model.piece, self.draft(limit).tokens)).decode()


def test_what_is_forced_and_what_was_copied_take_turns(model: Model) -> None:
    """Key, the value that followed it, its close, the next key: in one draft."""
    text = Text(model, "some prompt", '[{"name":"anna","age":7},{"')
    draft = text.draft()
    assert b"".join(map(model.piece, draft.tokens)).startswith(b'name":"anna","age":7},')
    grounds = [place.ground for place in draft.places]
    turns = [ground for number, ground in enumerate(grounds) if number == 0 or ground != grounds[number - 1]]
    assert turns[0] == "forced"
    assert turns.count("forced") >= 2
    assert {"opening", "match", "closing"} & set(turns)
    assert text.grammar.admit(draft.tokens) == len(draft.tokens)


@pytest.mark.parametrize(("answer", "expected"), [('[{"name": "b', '", "age": '), ('[{"name":"b', '","age":')])
def test_blanks_are_set_as_the_text_sets_them(model: Model, answer: str, expected: str) -> None:
    text = Text(model, "", answer)
    text.write(cut(model, expected[:2]))
    assert text.drafted().startswith(expected[2:])


def test_a_blank_that_nobody_set_yet_ends_the_draft(model: Model) -> None:
    assert Text(model, "", '[{"').drafted() == 'name":'


def test_a_value_that_begins_like_a_word_of_the_prompt_goes_on_as_the_prompt_does(model: Model) -> None:
    """Behind a blank the word is other tokens than behind a quote: `an` and not ` an`."""
    text = Text(model, "we saw dan and anton petrov there", '[{"name":"ant')
    assert text.drafted().startswith("on petrov there")
    places = text.draft().places
    assert {place.ground for place in places[:2]} == {"piece"}


def test_the_next_such_word_is_taken_once_one_was_copied(model: Model) -> None:
    text = Text(model, "first ann lee then ann moor", '[{"name":"an')
    assert text.drafted().startswith("n lee")
    text.forced.copied(len(cut(model, "first ann lee")))
    assert text.drafted().startswith("n moor")


def test_where_nothing_is_copied_a_value_is_closed_where_the_last_one_was(model: Model) -> None:
    text = Text(model, "some prompt", '[{"name":"bo","age":7},{"name":"x')
    assert not text.draft().tokens or text.draft().places[0].ground == "closing"
    text.write(cut(model, "y"))
    draft = text.draft()
    assert draft.places[0] == Place(1, 1, 1, "closing")
    assert b"".join(map(model.piece, draft.tokens)).startswith(b'","age":')


def test_a_grammar_that_forces_nothing_leaves_copies_as_they_are(model: Model) -> None:
    text = Text(model, "anna saw bo and anna", " saw", grammar="root ::= [a-zA-Z ]*")
    draft = text.draft()
    assert {place.ground for place in draft.places} == {"match"}
    assert list(draft.tokens[:4]) == text.lookup.draft((), 4).tokens


def test_a_draft_ends_where_it_hardly_stands(model: Model) -> None:
    text = Text(model, "some prompt", '[{"name":"anna","age":7},{"')
    assert 1 <= len(text.draft(rate=0.3).tokens) < len(text.draft(rate=0.99).tokens)


def test_without_copies_only_what_is_forced_is_drafted(model: Model) -> None:
    text = Text(model, "some prompt", '[{"name":"anna","age":7},{"')
    draft = Weaver(text.forced, None, lambda place: 0.99).draft((), 31)
    assert b"".join(map(model.piece, draft.tokens)) == b'name":"'
    assert {place.ground for place in draft.places} == {"forced"}


@pytest.mark.parametrize("seed", range(6))
def test_every_draft_is_admitted_and_copied_from_where_it_says(model: Model, seed: int) -> None:
    """Along random texts of the grammar, at random limits, by estimates that are learnt on the way."""
    rng = np.random.default_rng(seed)
    text = Text(model, "anna berg, 12, and dan moor. anton lee is 7", "[")
    rates = LookupAcceptance()
    rates.begin(bounded=True)
    everything = np.arange(model.vocab_size, dtype=np.int32)
    woven = 0
    for _ in range(60):
        limit = int(rng.integers(1, 12))
        draft = Weaver(
            text.forced, text.lookup, lambda place: 0.97 if place.ground == "forced" else rates.rate(place)
        ).draft((), limit)
        assert len(draft.tokens) == len(draft.places) == len(draft.positions) <= limit
        assert text.grammar.admit(draft.tokens) == len(draft.tokens)
        known = [*text.lookup._index.tokens, *draft.tokens]
        for token, place, position in zip(draft.tokens, draft.places, draft.positions, strict=True):
            if position >= 0 and place.ground == "match":
                assert known[position] == token
        woven += len({place.ground for place in draft.places}) > 1
        choices = text.grammar.allowed(0)(everything).nonzero()[0]
        stands = int(rng.integers(len(draft.tokens) + 1))
        chosen = [*draft.tokens[:stands]]
        text.write(chosen)
        choices = [i for i in text.grammar.allowed(0)(everything).nonzero()[0] if i not in model.end_tokens]
        if not choices or text.grammar.is_complete():
            break
        text.write([int(rng.choice(choices))])
    assert woven > 0
    text.forced.close()
    text.grammar.close()


def test_a_forced_token_says_nothing_of_copies(model: Model) -> None:
    """Whatever becomes of it, the estimates of copies stay; its own moves."""
    text = Text(model, "some prompt", '[{"')
    experience = Experience()
    strategy = Strategy("lookup", 4, Known(), text.lookup, None, experience, None, text.forced)
    places = [Place(2), Place(9), Place(1, ground="opening"), Place(2, ground="piece"), Place(1, ground="closing")]
    before = [experience.lookup.rate(place) for place in places]
    proposal = strategy.propose((), 4, 0.0)
    assert proposal.drafter == "grammar"
    rate = text.forced.rate
    wrong = cut(model, '"')
    text.grammar.admit(())
    strategy.learn(proposal, 1, 0, [*wrong])
    assert [experience.lookup.rate(place) for place in places] == before
    assert text.forced.rate < rate


def test_tokens_are_named_by_who_proposed_them(model: Model) -> None:
    text = Text(model, "some prompt", '[{"name":"anna","age":7},{"')
    strategy = Strategy("lookup", 20, Known(), text.lookup, None, Experience(), None, text.forced)
    proposal = strategy.propose((), 20, 0.0)
    assert proposal.drafter == "lookup"
    names = [proposal.drafter_of(place) for place in range(len(proposal.draft.tokens))]
    assert names[0] == "grammar"
    assert set(names) == {"grammar", "lookup"}
