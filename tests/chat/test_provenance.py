"""Packing where tokens came from: nothing is lost, damage is seen."""

import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.provenance import DRAFTERS, KINDS, cycle_json, pack, part_of, source_of, token_json, unpack
from localspec.chat.splitting import Part
from localspec.engine.events import Cycle, Source, Token
from tests.chat.chats import answer

shares = st.text(max_size=6)
sources = st.none() | st.builds(Source, st.sampled_from(["a.py", "prompt", "ä/b.md"]), st.integers(1, 10**6))
parts = st.builds(
    lambda number, kind, drafter, cycle, ticks, control, text, thought, source: Part(
        Token(number, thought + text, kind, drafter, cycle, ticks / 10_000, control, source), text, thought
    ),
    st.integers(0, 200_000), st.sampled_from(KINDS), st.sampled_from(DRAFTERS), st.integers(0, 5000),
    st.integers(0, 10**8), st.booleans(), shares, shares, sources,
)  # fmt: skip
cycles = st.builds(
    Cycle, st.integers(1, 5000), st.sampled_from(DRAFTERS), st.integers(0, 64), shares, st.integers(0, 64),
    st.integers(0, 64), st.integers(0, 65), st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 64),
    st.none() | st.floats(0, 64), st.none() | st.floats(0, 64), sources,
)  # fmt: skip


@given(st.lists(parts, max_size=20), st.lists(cycles, max_size=10))
def test_what_was_packed_comes_back(some: list[Part], told: list[Cycle]) -> None:
    text, thoughts = "".join(part.text for part in some), "".join(part.thought for part in some)
    assert unpack(pack(some, told), text, thoughts) == (some, told)


@given(parts, cycles)
def test_an_exported_token_reads_back(part: Part, cycle: Cycle) -> None:
    assert part_of(json.loads(json.dumps(token_json(part)))) == part
    line = json.loads(json.dumps(cycle_json(cycle)))
    assert Cycle(**{**line, "source": source_of(line["source"])}) == cycle


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "damaged"),
        (b"not compressed", "damaged"),
        (zlib.compress(b"{}"), "damaged"),
        (zlib.compress(b"[]"), "damaged"),
        (zlib.compress(b'{"form": 99}'), "newer"),
        (zlib.compress(b"{"), "Expecting"),
    ],
)
def test_damage_is_a_value_error(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        unpack(data, "", "")


def test_another_text_is_refused() -> None:
    turn = answer()
    data = pack(turn.parts, turn.cycles)
    assert unpack(data, turn.text, "") == (turn.parts, turn.cycles)
    with pytest.raises(ValueError, match="another text"):
        unpack(data, turn.text + "x", "")


def test_a_cycle_kept_before_a_field_existed_gets_the_default() -> None:
    turn = answer()
    columns = json.loads(zlib.decompress(pack(turn.parts, turn.cycles)))
    del columns["cycles"]["match_length"]
    _, old = unpack(zlib.compress(json.dumps(columns).encode()), turn.text, "")
    assert old == [replace(cycle, match_length=0) for cycle in turn.cycles]


def test_an_answer_kept_before_sources_were_told_of_has_none() -> None:
    turn = answer()
    turn.parts[1] = replace(turn.parts[1], token=replace(turn.parts[1].token, source=Source("a.py", 3)))
    columns = json.loads(zlib.decompress(pack(turn.parts, turn.cycles)))
    del columns["source"], columns["sources"], columns["cycles"]["source"]
    parts, cycles = unpack(zlib.compress(json.dumps(columns).encode()), turn.text, "")
    assert [part.token.source for part in parts] == [None] * len(turn.parts)
    assert cycles == turn.cycles


@pytest.mark.parametrize("line", [{"name": "a"}, {"name": 1, "line": 1}, {"name": "a", "line": "1"}, "a:1", []])
def test_what_is_no_source_is_refused(line: object) -> None:
    with pytest.raises(ValueError, match="copied from"):
        source_of(line)


def test_a_token_takes_a_few_bytes() -> None:
    turn = answer()
    many = [
        replace(part, token=replace(part.token, cycle=n, t=n / 50, source=Source("a.py", n // 9)))
        for n, part in enumerate(turn.parts * 400)
    ]
    assert len(pack(many, turn.cycles)) < 8 * len(many)
