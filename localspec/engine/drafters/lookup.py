"""Prompt lookup: what followed the last time these tokens stood here, proposed again (Saxena 2023; the index is that of
SAM Decoding, Hu et al. 2024, see `automaton.py`)."""

from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import Literal

from localspec.engine.blocks import Block, Vocabulary
from localspec.engine.drafters.automaton import Match, SuffixIndex, Walk
from localspec.engine.drafters.base import Draft, Ground, Place
from localspec.engine.drafters.course import ON_COURSE, Course
from localspec.engine.drafters.fences import Fences
from localspec.engine.drafters.joints import Joint, Joints
from localspec.engine.drafters.renames import Edit, Renames

MIN_MATCH = 1
"""A single token recurs everywhere, but what follows it often does too: a bracket, an indentation, a name."""

SHORT = 6
"""Of what followed a match shorter than this the most frequent is proposed, of longer ones the latest."""

MANY = 1024
"""Of more different continuations none is frequent enough to be worth counting them all, at every cycle."""

TRIED = 8
"""Continuations of one end of the text that are tried where not all may come."""

SURE = 4
"""Tokens that an edit made again counts as having copied: what comes behind it stood wherever the edit did."""

_APART = -1
"""Stands between two texts of the index that do not follow each other; no token."""


class Lookup:
    """Drafts by the longest match, of equally long ones by the latest: the newest version of an edited text counts.

    Behind an edit in a long copy the match is short and may be anywhere; there the copy is resumed where it was left,
    and where the text comes to a place that was edited before, the edit is made again. Proposes nothing when fewer
    than `min_match` tokens match, and nothing past one of `ends`, which ends the answer. By the texts of a `vocabulary`
    it knows where a copy may break off, and finds a renamed word however it is cut into tokens. Costs microseconds,
    native memory none.
    """

    name: Literal["lookup"] = "lookup"

    def __init__(
        self,
        min_match: int = MIN_MATCH,
        ends: frozenset[int] = frozenset(),
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self._min_match, self._ends = min_match, ends
        self._vocabulary = vocabulary
        self._reset([])

    def _reset(self, texts: Sequence[Sequence[int]]) -> None:
        piece = self._vocabulary.piece if self._vocabulary is not None else None
        self._joints, self._fences = Joints(piece), Fences(piece)
        self._index = SuffixIndex()
        # By position: written by the model, as far as it was seen doing so.
        self._answers = bytearray()
        self._course = self._new_course()
        self._closings: dict[int, tuple[int, ...]] = {}
        # Where a block of the prompt begins that an answer's first one may give back.
        self._given_back: int | None = None
        self._texts = [list(text) for text in texts]
        for text in self._texts:
            for token in (*text, _APART):
                self._extend(token)
        self.offset = self.answer = len(self._index.tokens)

    def begin(self, tokens: Sequence[int], texts: Sequence[Sequence[int]] = (), blocks: Sequence[Block] = ()) -> None:
        """Index `tokens`, the conversation, and before it `texts`, which are only looked up. A copy of one of `blocks`
        ends with it.

        When they continue what is indexed already only the rest is added. `offset` is where the conversation begins
        among the positions of a draft.
        """
        prompt = tokens
        known = self._index.tokens[self.offset :]
        if [list(text) for text in texts] == self._texts and list(tokens[: len(known)]) == known:
            tokens = tokens[len(known) :]
        else:
            self._reset(texts)
        for token in tokens:
            self._extend(token)
        self.answer = len(self._index.tokens)
        self._fences.begin(prompt)
        self._course = self._new_course()
        self._closings = {self.offset + block.end: block.closing for block in blocks}
        expected = [block.start for block in blocks if block.rewritten]
        for start in expected:
            self._course.expect(self.offset + start)
        self._given_back = None if expected else self._fences.start

    def _new_course(self) -> Course:
        known = self._vocabulary
        return Course(Renames(known.piece, known.tokenize) if known is not None else None)

    def _extend(self, token: int, *, answer: bool = False) -> None:
        self._index.extend(token)
        self._answers.append(answer)

    def _is_own(self, position: int, copied: int) -> bool:
        """Whether a copy from there, of `copied` tokens so far, is of the model's own words. A long one of an earlier
        answer is of a text that it was asked to go on with."""
        return position >= self.answer or (copied < ON_COURSE and bool(self._answers[position]))

    def draft(self, history: Sequence[int], limit: int) -> Draft:
        """What followed the longest match, or follows the edit of a copy; at most `limit` tokens. A match that reaches
        to the end of the text goes on into the draft itself, so that a repetition is continued."""
        if limit <= 0:
            return Draft(())
        state = next(self._index.states(), 0)
        match = self._index.match(state) if state else Match(0, 0)
        if match.length < ON_COURSE and (resumed := self._course.resume(self._index.tokens)) is not None:
            position, agreed, ground = resumed
            return self._written(_Writer(self, position, agreed, 0, ground, edits=True), limit, match.length)
        on = self._course.on
        # A match elsewhere must be longer than the course's own run to say more: the course led here from further back.
        if on is not None and (
            match.length <= max(on[1], ON_COURSE - 1)
            if on[0] != match.position
            else match.length < min(on[1], ON_COURSE)
        ):
            return self._written(_Writer(self, on[0], on[1], 0, "resumed", edits=True), limit, match.length)
        if match.length < self._min_match:
            return Draft(())
        position = match.position
        if match.length < SHORT:
            position = self._most_frequent(state, position)
        on_course = on is not None and on[0] == position
        return self._written(
            _Writer(self, position, match.length, state, "match", edits=on_course), limit, match.length
        )

    def joint(self, before: int, token: int) -> Joint:
        """How `token` joins on to `before`, where the answer stands."""
        return self._joints.between(before, token, in_code=self._fences.within)

    def walk(self) -> Walk:
        """From the end of the text, for `guess`."""
        return self._index.walk()

    def behind(self, place: int, limit: int) -> list[int]:
        """At most `limit` tokens of the conversation before the answer, from `place` on."""
        return self._index.tokens[self.offset + place : min(self.offset + place + limit, self.answer)]

    def guess(self, walk: Walk, allows: Callable[[int], bool]) -> tuple[int, Place, int] | None:
        """What followed the longest end of `walk` that was followed by a token that `allows`: the latest such token, of
        short ends the most frequent; what speaks for it, and its position."""
        index = self._index
        for state, length in walk.ends():
            if length < self._min_match:
                break
            known = [pair for pair in index.followers(state).items() if pair[0] != _APART]
            weight = index.count if length < SHORT else lambda other: index.match(other).position
            for token, behind in nlargest(TRIED, known, key=lambda pair: weight(pair[1])):
                if allows(token):
                    position = index.match(behind).position - 1
                    own = self._is_own(position, length)
                    return token, Place(length, index.count(state), index.count(behind), own=own), position
        return None

    def _most_frequent(self, state: int, latest: int) -> int:
        """The latest place where the state's text went on as it mostly did; `latest` when nothing is more frequent."""
        index = self._index
        following = index.followers(state)
        if len(following) > MANY:
            return latest
        best = index.step(state, index.tokens[latest])
        for token, candidate in following.items():
            if token != _APART and index.count(candidate) > index.count(best):
                best = candidate
        return index.match(best).position - 1

    def _written(self, writer: "_Writer", limit: int, match_length: int) -> Draft:
        while len(writer.tokens) < limit and writer.write():
            if writer.tokens[-1] in self._ends:
                break
        if not writer.tokens:
            return Draft(())
        tokens, places, positions = writer.tokens[:limit], writer.places[:limit], writer.positions[:limit]
        return Draft(tokens, None, match_length, places[0].ground, places, positions)

    def accept(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._extend(token, answer=True)
            self._course.follow(self._index.tokens, next(self._index.matches(), None))
            if self._fences.wrote(token) and self._given_back is not None:
                self._course.expect(self.offset + self._given_back)

    def close(self) -> None:
        self._reset([])


class _Writer:
    """Writes a draft of `lookup` from `position` on, noting what speaks for each token.

    `copied` tokens before it agree; `state` is theirs in the index, 0 when nothing is to be counted. `edits`: the known
    ones are made on the way, as in a text that is being edited; elsewhere a phrase is quoted as it is.
    """

    def __init__(self, lookup: Lookup, position: int, copied: int, state: int, ground: Ground, *, edits: bool) -> None:
        self._lookup, self._index = lookup, lookup._index
        self._position, self._copied, self._state, self._ground = position, copied, state, ground
        self._edits = edits
        self.tokens: list[int] = []
        self.places: list[Place] = []
        self.positions: list[int] = []
        self._closed = False

    def write(self) -> bool:
        """One token more, or those of an edit; False where the text ends."""
        if self._closed:
            return False
        closings = self._lookup._closings
        if self._position in closings:
            return self._close(closings[self._position])
        token = self._at(self._position)
        if token == _APART:
            return False
        edit = self._edit()
        if edit is not None and edit.tried.likely and not self._stands(edit.new):
            self._make(edit)
            return True
        following = self._index.step(self._state, token) if self._state else 0
        seen = same = 1
        if following:
            seen, same = self._index.count(self._state), self._index.count(following)
        own = self._lookup._is_own(self._position, self._copied)
        self._put(token, Place(self._copied, seen, same, self._ground, own, self._joint(token)), self._position)
        self._position += 1
        self._copied += 1
        self._state = following
        return True

    def _close(self, closing: Sequence[int]) -> bool:
        for number, token in enumerate(closing):
            self._put(token, Place(self._copied + number, ground=self._ground), -1)
        self._closed = True
        return True

    def _make(self, edit: Edit) -> None:
        place = Place(0, edit.tried.made + edit.tried.kept, edit.tried.made, "renamed")
        for token in edit.new:
            self._put(token, place, -1)
        self._position += len(edit.old)
        # When the edit stands, so does the copy it was made in.
        self._copied, self._state, self._ground = max(self._copied, SURE), 0, "resumed"

    def _put(self, token: int, place: Place, position: int) -> None:
        self.tokens.append(token)
        self.places.append(place)
        self.positions.append(position)

    def _edit(self) -> Edit | None:
        tokens = self._index.tokens
        if not self._edits or self._position >= len(tokens):
            return None
        return self._lookup._course.edit_at(tokens, self._position)

    def _joint(self, token: int) -> Joint:
        before = self.tokens or self._index.tokens
        return self._lookup.joint(before[-1], token) if before else "unknown"

    def _at(self, position: int) -> int:
        """The token there: behind the end of the text the draft itself goes on."""
        tokens = self._index.tokens
        return tokens[position] if position < len(tokens) else self.tokens[position - len(tokens)]

    def _stands(self, stretch: Sequence[int]) -> bool:
        return tuple(self._index.tokens[self._position : self._position + len(stretch)]) == stretch
