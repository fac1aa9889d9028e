"""From a file and an instruction to questions that fit the context."""

from collections.abc import Sequence
from dataclasses import replace

from localspec.assist import edit_prompt, region
from localspec.assist.blocks import fitting
from localspec.assist.edit_file import CannotEdit, EditFile
from localspec.assist.edit_job import Budget, EditJob, core_of
from localspec.assist.region import Region, lines_of
from localspec.chat.attach import Attached
from localspec.engine.requests import Segment, SourceText

GROWTH = 1.25
"""What an edit is expected to make of a text's tokens: room for the answer is planned with it."""
SEAMS = 8
"""Tokens by which a prompt and its pieces may differ."""
SPARE = 96
"""Tokens of an answer besides the text: the fences, and a sentence or two around the block."""


def plan(
    file: EditFile, instruction: str, lines: str | None, context_files: Sequence[Attached], budget: Budget
) -> list[EditJob]:
    """The questions that edit `file`, or its `lines` (`A-B`), as instructed; one when everything fits the context, else
    one for each stretch of blocks that fits.

    Raises `CannotEdit` when there are no such lines, or a block is too large for the context (with the numbers).
    """
    instruction = instruction.strip()
    if not instruction:
        raise CannotEdit("the instruction is empty: say what is to be changed")
    all_lines = lines_of(file.text)
    asked = region.parse(lines, len(all_lines)) if lines is not None else region.whole(all_lines)
    asked = region.core(all_lines, asked)
    planner = _Planner(file, instruction, tuple(context_files), budget, all_lines)
    if planner.fits(asked):
        return [planner.job(asked)]
    parts = list(fitting(all_lines, asked, planner.fits))
    for part in parts:
        planner.require(part)
    parts = [region.core(all_lines, part) for part in parts if planner.has_text(part)]
    return [replace(planner.job(part), part=number, parts=len(parts)) for number, part in enumerate(parts, 1)]


class _Planner:
    """Prompts for the regions of one file, and whether they fit."""

    def __init__(
        self,
        file: EditFile,
        instruction: str,
        context_files: tuple[Attached, ...],
        budget: Budget,
        lines: list[str],
    ) -> None:
        self._file, self._instruction, self._budget, self._lines = file, instruction, budget, lines
        self._context = tuple(replace(one, text=region.unified(one.text)) for one in context_files)
        self._sources = tuple(SourceText(one.name or "", one.text) for one in self._context)
        self._core = core_of(file)
        self._question_tokens = budget.count(budget.segments(self._question(Region(1, 0))))

    def has_text(self, part: Region) -> bool:
        return bool("".join(self._lines[part.first - 1 : part.last]).strip())

    def fits(self, part: Region) -> bool:
        """Whether the part can be asked for; the question around it is counted once, which is exact but for a token or
        two at the seams."""
        own = self._budget.count((Segment(self._old(part)),))
        return self._question_tokens + own + SEAMS + _answer_tokens(own) <= self._budget.context

    def require(self, part: Region) -> None:
        """Raises `CannotEdit` with the numbers when the part does not fit."""
        needed, own = self._needed(part)
        if needed > self._budget.context:
            several = part.last > part.first
            shorter = "give fewer lines with --lines" if several else "one line is the least that can be edited"
            also = ", fewer --context files" if self._context else ""
            size = f"{part} {'have' if several else 'has'} {own:,} tokens"
            raise CannotEdit(
                f"{self._file.name}: {size}, and editing them takes {needed:,} of a context of "
                f"{self._budget.context:,}: {shorter}{also}, or raise --ctx"
            )

    def job(self, part: Region) -> EditJob:
        """The question for a part that fits."""
        old = self._old(part)
        segments = self._budget.segments(self._question(part))
        tokens, own = self._budget.count(segments), self._budget.count((Segment(old),))
        room = max(1, self._budget.context - tokens - 1)
        # Nothing bounds what is written from nothing, or thought before it; a copy that runs on is cut.
        free = not old.strip() or self._budget.thinking.thinks
        limit = self._budget.max_tokens or (room if free else 2 * own + 1024)
        sources = (*self._sources, SourceText(self._file.name, old, part.first, rewritten=True))
        return EditJob(self._file, part, old, segments, tokens, min(room, limit), sources, self._budget.thinking)

    def _needed(self, part: Region) -> tuple[int, int]:
        """Tokens of prompt and answer together, and of the part's own text."""
        own = self._budget.count((Segment(self._old(part)),))
        return self._budget.count(self._budget.segments(self._question(part))) + _answer_tokens(own), own

    def _old(self, part: Region) -> str:
        return region.unified("".join(self._lines[part.first - 1 : part.last]))

    def _question(self, part: Region) -> str:
        name = "" if self._file.path is None else self._file.path.name
        ask = edit_prompt.for_whole if part == self._core else edit_prompt.for_part
        return ask(self._instruction, name, self._old(part), self._file.suffix, self._context)


def _answer_tokens(own: int) -> int:
    """Room to plan for the answer to a text of `own` tokens."""
    return int(own * GROWTH) + SPARE
