"""From a place in a file to the prompt that has its gap filled in, within the context.

With fill-in-the-middle tokens the model continues in its own layout (`fim.py`). Without them an instruct prompt shows
the text with the gap marked, and the answer's code block is what goes into the gap.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localspec.assist.fim import fim_prompt, fim_stops, has_fim, require_going_on
from localspec.assist.middle import Rules
from localspec.assist.place import Place
from localspec.assist.relevance import Piece
from localspec.chat.attach import Attached
from localspec.chat.splitting import Plain, Splitter
from localspec.chat.templates import ChatTemplate, Message
from localspec.chat.thinking import plan
from localspec.engine.requests import EngineInfo, Segment, SourceText

PREFIX_TOKENS, SUFFIX_TOKENS, NEIGHBOUR_TOKENS = 768, 256, 384
"""What of the file, and usually of others, goes into the prompt: two cores read about a hundred tokens a second, and a
completion that takes longer than typing is none."""

ON_GPU = 4
"""So much more goes in where a GPU reads, many times faster."""

MAX_TOKENS = 256
"""The usual limit of a completion; most end before."""

LEAST_ROOM = 32
"""With fewer tokens left for the file a completion would be a guess at nothing."""

_OVERHEAD = 48
"""Tokens of names and marks around the texts, generously; an instruct prompt's own words come on top."""

_INSTRUCT_OVERHEAD = 160

_WINDOW = 24
"""Characters a token at most, for a first cut before anything is counted."""

Count = Callable[[tuple[Segment, ...]], int]


class NoRoom(Exception):
    """The context is too small for what has to go into the prompt. `str(error)` is one line."""


@dataclass(frozen=True, slots=True)
class FillIn:
    """What to ask the model. `stop` and `keep_control` are for the request; `splitter` tells thoughts apart.

    `native`: the prompt has the model's own tokens, so that the answer is the middle itself. `shown` are the lines of
    the file that are in the prompt, first and last.
    """

    prompt: tuple[Segment, ...]
    sources: tuple[SourceText, ...]
    stop: tuple[str, ...]
    keep_control: tuple[str, ...]
    splitter: Callable[[], Splitter]
    native: bool
    place: Place
    shown: tuple[int, int]

    def middle_of(self, answer: str) -> tuple[int, int]:
        """Where the middle stands in the whole answer: from and to, in characters."""
        return (0, len(answer)) if self.native else _block_in(answer, self.place)

    def is_complete(self, answer: str, rules: Rules) -> bool:
        """Whether nothing that may still come of an answer would go into the gap."""
        start, end = self.middle_of(answer)
        if self.native:
            return rules.complete(answer)
        return _FENCE.search(answer) is not None and (end < len(answer) or rules.complete(answer[start:end]))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """As much of a place's file as fits: its prefix from a line's start, its suffix up to a line's end."""

    place: Place
    tokens: int
    first_line: int


def excerpt_of(info: EngineInfo, count: Count, place: Place, max_tokens: int, fixed: int = 0) -> Excerpt:
    """What of the file goes into the prompt beside `fixed` tokens that must. Raises `NoRoom` and `NoFim`."""
    require_going_on(info)
    overhead = _OVERHEAD if has_fim(info) else _INSTRUCT_OVERHEAD
    room = info.context - max_tokens - overhead - fixed
    if room < LEAST_ROOM:
        taken = f"{fixed} tokens of --context and " if fixed else ""
        raise NoRoom(
            f"the context of {info.context} tokens has no room for {taken}a completion of {max_tokens}: "
            "raise it with --ctx, or lower --max-tokens"
        )
    more = _more(info)
    suffix, behind = _shortened(place.suffix, min(SUFFIX_TOKENS * more, room // 4), count, keep_end=False)
    prefix, before = _shortened(place.prefix, min(PREFIX_TOKENS * more, room - behind), count, keep_end=True)
    first = 1 + place.prefix.count("\n") - prefix.count("\n")
    return Excerpt(Place(prefix, suffix, place.line), before + behind, first)


def room_for_others(
    info: EngineInfo, excerpt: Excerpt, max_tokens: int, fixed: int = 0, wanted: int | None = None
) -> int:
    """Tokens that neighbouring files may have: `wanted` (None: the usual budget), or what is left of the context."""
    overhead = _OVERHEAD if has_fim(info) else _INSTRUCT_OVERHEAD
    left = max(0, info.context - max_tokens - overhead - fixed - excerpt.tokens)
    return min(left, NEIGHBOUR_TOKENS * _more(info) if wanted is None else wanted)


def _more(info: EngineInfo) -> int:
    return ON_GPU if info.gpu_layers else 1


def fill_in(info: EngineInfo, excerpt: Excerpt, name: str, repo: str, others: Sequence[Piece]) -> FillIn:
    """The prompt. `name` is the file's within the project `repo`; `others` are pieces of other files, the best last."""
    place, first = excerpt.place, excerpt.first_line
    shown = (first, place.line + place.suffix.removesuffix("\n").count("\n"))
    sources = (
        SourceText(name, place.prefix, first),
        SourceText(name, place.suffix, place.line),
        *(SourceText(piece.name, piece.text, piece.first_line) for piece in others),
    )
    if has_fim(info):
        extra = [(piece.name, piece.text) for piece in others]
        prompt = fim_prompt(info, place.prefix, place.suffix, extra, name=name, repo=repo)
        stops = fim_stops(info)
        return FillIn(prompt, sources, stops, stops, Plain, True, place, shown)
    template = ChatTemplate.of(info)
    thinking = plan(template, "off")
    prompt = template.render([Message("user", _question(place, name, others))], thinking.variables)
    return FillIn(
        prompt, sources, (), thinking.keep_control, lambda: thinking.splitter(prompt), False, place, shown
    )  # fmt: skip


def _question(place: Place, name: str, others: Sequence[Piece]) -> str:
    mark = _mark(place.prefix + place.suffix)
    suffix = re.search(r"\.\w+$", name)
    ending = suffix.group() if suffix else ""
    blocks = [Attached(piece.name, piece.text, ending).fenced() for piece in others]
    blocks.append(Attached(name, f"{place.prefix}{mark}{place.suffix}", ending).fenced())
    return "\n\n".join(
        [
            f"In {name} below, the mark {mark} stands where text is missing. Write only the missing text, in one code "
            "block: it replaces the mark. Repeat nothing that stands before or after the mark.",
            *blocks,
        ]
    )


def _mark(text: str) -> str:
    """A word for the gap that the text does not have."""
    number = 0
    while (mark := f"<<GAP{number or ''}>>") in text:
        number += 1
    return mark


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n", re.MULTILINE)


def _block_in(answer: str, place: Place) -> tuple[int, int]:
    """The first code block of an answer, to its end or the answer's when it was cut; all of it when there is none.

    Models begin with the line the gap stands in: what it has before the gap is passed over, and the line end before the
    closing fence belongs to the fence.
    """
    start, end = 0, len(answer)
    if opening := _FENCE.search(answer):
        start = opening.end()
        closing = re.compile(rf"^ {{0,3}}{re.escape(opening[1])}[`~]*[ \t]*$", re.MULTILINE).search(answer, start)
        if closing is not None:
            end = max(start, closing.start() - 1)
    before = place.line_start
    if before.strip() and answer.startswith(before, start, end):
        start += len(before)
    elif before.strip() and answer.startswith(before.lstrip(), start, end):
        start += len(before.lstrip())
    elif before and not before.strip() and answer.startswith(before, start, end):
        # The gap is behind the indentation; the answer brings its own.
        start += len(before)
    return start, end


def _shortened(text: str, tokens: int, count: Count, *, keep_end: bool) -> tuple[str, int]:
    """The longest end (or beginning) of `text` that has at most `tokens` tokens, cut at line ends unless a single line
    is too long; and its tokens."""
    if not text:
        return "", 0

    def part(size: int) -> str:
        return text[len(text) - size :] if keep_end else text[:size]

    def tokens_of(size: int) -> int:
        return count((Segment(part(size)),))

    longest = min(len(text), tokens * _WINDOW)
    if longest == len(text) and (whole := tokens_of(longest)) <= tokens:
        return text, whole
    ends = [match.end() for match in re.finditer("\n", text)]
    sizes = sorted(size for size in ((len(text) - end if keep_end else end) for end in ends) if 0 < size <= longest)
    best = _longest(sizes, tokens, tokens_of) or _longest(range(1, longest + 1), tokens, tokens_of)
    return part(best), tokens_of(best) if best else 0


def _longest(sizes: Sequence[int], tokens: int, tokens_of: Callable[[int], int]) -> int:
    """The largest of the ascending `sizes` within `tokens`, by halving; 0 when none is."""
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if tokens_of(sizes[middle]) <= tokens:
            low = middle + 1
        else:
            high = middle
    return sizes[low - 1] if low else 0
