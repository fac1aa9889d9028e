"""From a file and an instruction to questions that fit the context."""

from collections.abc import Sequence
from dataclasses import replace

from localspec.assist import edit_prompt, region
from localspec.assist.blocks import blocks, pack
from localspec.assist.edit_file import CannotEdit, EditFile
from localspec.assist.edit_job import Budget, EditJob, core_of
from localspec.assist.region import Region, lines_of
from localspec.chat.attach import Attached
from localspec.engine.requests import Segment, SourceText

GROWTH = 1.25
"""What an edit is expected to make of a text's tokens: room for the answer is planned with it."""
SPARE = 96
"""Tokens of an answer besides the text: the fences, and a sentence or two around the block."""
AROUND = (1_000_000, 300, 100, 40, 12, 0)
"""Lines before and after a part that are shown for reference: as many as fit, in these steps."""


def plan(
    file: EditFile, instruction: str, lines: str | None, context_files: Sequence[Attached], budget: Budget
) -> list[EditJob]:
    """The questions that edit `file`, or its `lines` (`A-B`), as instructed; one when everything fits the context, else
    one for as many blocks as fit each.

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
    parts = list(pack(blocks(all_lines, asked), planner.fits))
    for part in parts:
        planner.require(part)
    parts = [core for part in parts if (core := region.core(all_lines, part)) and planner.has_text(core)]
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
        self._core = core_of(file)

    def has_text(self, part: Region) -> bool:
        return bool("".join(self._lines[part.first - 1 : part.last]).strip())

    def fits(self, part: Region) -> bool:
        """Whether the part can be asked for, with nothing around it."""
        needed, _ = self._needed(part)
        return needed <= self._budget.context

    def require(self, part: Region) -> None:
        """Raises `CannotEdit` with the numbers when the part does not fit."""
        needed, own = self._needed(part)
        if needed > self._budget.context:
            shorter = "give fewer lines with --lines" if part.last > part.first else "this line cannot be edited"
            also = ", fewer --context files" if self._context else ""
            raise CannotEdit(
                f"{self._file.name}: {part} have {own:,} tokens, and editing them takes {needed:,} of a context of "
                f"{self._budget.context:,}: {shorter}{also}, or raise --ctx"
            )

    def job(self, part: Region) -> EditJob:
        """The question for a part that fits, with as much around it as fits too."""
        old = self._old(part)
        _, own = self._needed(part)
        answer = _answer_tokens(own)
        for around in AROUND:
            question, sources = self._question(part, around)
            segments = self._budget.segments(question)
            tokens = self._budget.count(segments)
            if tokens + answer <= self._budget.context or around == 0 or part == self._core:
                break
        room = max(1, self._budget.context - tokens - 1)
        # Nothing bounds what is written from nothing, or thought before it; a copy that runs on is cut.
        free = not old.strip() or self._budget.thinking.thinks
        limit = self._budget.max_tokens or (room if free else 2 * own + 1024)
        return EditJob(self._file, part, old, segments, tokens, min(room, limit), sources, self._budget.thinking)

    def _needed(self, part: Region) -> tuple[int, int]:
        """Tokens of prompt and answer together, and of the part's own text."""
        question, _ = self._question(part, 0)
        own = self._budget.count((Segment(self._old(part)),))
        return self._budget.count(self._budget.segments(question)) + _answer_tokens(own), own

    def _old(self, part: Region) -> str:
        return region.unified("".join(self._lines[part.first - 1 : part.last]))

    def _question(self, part: Region, around: int) -> tuple[str, tuple[SourceText, ...]]:
        file, old = self._file, self._old(part)
        sources = [SourceText(one.name or "", one.text) for one in self._context]
        own = SourceText(file.name, old, part.first)
        name = "" if file.path is None else file.path.name
        if part == self._core:
            question = edit_prompt.for_whole(self._instruction, name, old, file.suffix, self._context)
            return question, (*sources, own)
        first, last = max(1, part.first - around), min(len(self._lines), part.last + around)
        before = self._old(Region(first, part.first - 1))
        after = self._old(Region(part.last + 1, last))
        question = edit_prompt.for_part(self._instruction, name, before, old, after, file.suffix, self._context)
        if before.strip():
            sources.append(SourceText(file.name, before, first))
        if after.strip():
            sources.append(SourceText(file.name, after, part.last + 1))
        return question, (*sources, own)


def _answer_tokens(own: int) -> int:
    """Room to plan for the answer to a text of `own` tokens."""
    return int(own * GROWTH) + SPARE
