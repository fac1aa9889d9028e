"""How tokens join: known cases of prose, code and other scripts, and what a lookup makes of them."""

import pytest

from localspec.engine.drafters.base import Place
from localspec.engine.drafters.joints import JOINTS, Joint, Joints, joint
from localspec.engine.drafters.lookup import Lookup
from localspec.engine.lookup_acceptance import JOINED, STRETCHES, prior


@pytest.mark.parametrize(
    ("before", "token", "expected"),
    [
        (" the", " lake", "word"),
        (" un", "likely", "inner"),
        ("x", "2", "digit"),
        (" in", " ", "blank"),
        ("    ", "    ", "blank"),
        (" lake", ".\n", "stop"),
        (" lake", ".", "stop"),
        (" lake", "!\"", "stop"),
        (" lake.", " The", "sentence"),
        ("?\"", " she", "sentence"),
        (".\n", "The", "sentence"),
        (".\n\n", "-", "sentence"),
        (" lake", ",", "comma"),
        (" lake,", " and", "clause"),
        (":\n", "return", "clause"),
        ("self", ".name", "sign"),
        (".", "name", "word"),
        ("(", "self", "word"),
        (")", ":\n", "comma"),
        ("x", "\n", "line"),
        ("x", "\n    ", "line"),
        ("", " The", "word"),
        ("湖", "很", "word"),
        ("。", "湖", "sentence"),
        ("，", "湖", "clause"),
        ("湖", "。", "stop"),
        (" Stra", "ße", "inner"),
    ],
)  # fmt: skip
def test_joints_of_known_texts(before: str, token: str, expected: Joint) -> None:
    assert joint(before.encode(), token.encode()) == expected


def test_a_part_of_a_character_is_within_a_word_and_a_control_token_unknown() -> None:
    assert joint(b" caf", "é".encode()[:1]) == "inner"
    assert joint(b" caf", b"") == "unknown"


def test_each_pair_is_read_once() -> None:
    read: list[int] = []

    def piece(token: int) -> bytes:
        read.append(token)
        return b" word"

    joints = Joints(piece)
    assert joints.between(1, 2) == joints.between(1, 2) == "word"
    assert read == [1, 2]
    assert joints.between(1, -1) == Joints().between(1, 2) == "unknown"


class Texts:
    """A vocabulary of whole words."""

    def piece(self, token: int) -> bytes:
        return TEXT[token]

    def tokenize(self, text: str) -> list[int]:
        return [TEXT.index(text.encode())]


TEXT = [b" a", b" lake", b".", b" The", b" boat", b" a", b" lake"]


def test_a_lookup_draft_says_how_its_tokens_join() -> None:
    lookup = Lookup(vocabulary=Texts())
    lookup.begin([0, 1, 2, 3, 4])
    lookup.accept([0, 1])
    draft = lookup.draft((), 3)
    assert list(draft.tokens) == [2, 3, 4]
    assert [place.joint for place in draft.places] == ["stop", "sentence", "word"]


def test_in_code_there_are_no_sentences() -> None:
    joints = Joints(Texts().piece)
    assert joints.between(2, 3) == "sentence"
    assert joints.between(2, 3, in_code=True) == "clause"
    assert joints.between(1, 2, in_code=True) == "stop"


@pytest.mark.parametrize("copied", [1, 3, 8, 30])
def test_a_copy_breaks_off_at_the_end_of_a_sentence_and_not_within_a_word(copied: int) -> None:
    rates = {kind: prior(Place(copied, joint=kind)) for kind in JOINTS}
    assert rates["sentence"] < rates["word"] < rates["inner"]
    # Behind a single token anything may come.
    assert rates["stop"] < rates["word"] or copied == 1


def test_every_joint_but_the_unknown_has_a_rate_for_each_length() -> None:
    assert set(JOINED) == set(JOINTS) - {"unknown"}
    assert {len(rates) for rates in JOINED.values()} == {len(STRETCHES) + 1}
