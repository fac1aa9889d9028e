"""Edits by a model: from files and an instruction to questions, and from answers to new texts.

`plan` cuts a file into jobs that fit the context, `take` makes an answer into the new text of a job's region or says
why not, and `edited` puts the regions back. Nothing outside the regions is touched: the new text is made of the old
one's own lines. Nothing here knows of engines, terminals or screens.
"""

from collections.abc import Sequence

from localspec.assist import answer_checks, region
from localspec.assist.answer import find
from localspec.assist.edit_file import CannotEdit as CannotEdit
from localspec.assist.edit_file import EditFile
from localspec.assist.edit_job import SAMPLING as SAMPLING
from localspec.assist.edit_job import Budget as Budget
from localspec.assist.edit_job import EditJob as EditJob
from localspec.assist.edit_job import EditResult as EditResult
from localspec.assist.edit_job import inside
from localspec.assist.edit_plan import plan as plan
from localspec.assist.region import lines_of
from localspec.engine.events import Reason


def take(job: EditJob, answer_text: str, reason: Reason) -> EditResult:
    """The new text of the job's region out of a complete answer; `reason` is why the answer ended."""
    cut = {
        "max_tokens": f"the answer was cut at {job.max_tokens:,} tokens",
        "context_full": "the answer was cut: the context is full",
        "cancelled": "the answer was interrupted",
    }.get(reason)
    if cut:
        return EditResult(job, None, answer_text.strip("\n"), cut)
    found = find(answer_text, job.old)
    if found.code is None:
        return EditResult(job, None, found.prose, found.problem)
    new = _without_surroundings(job, region.unified(found.code))
    new = _without_blank_ends(new)
    if job.old.strip() and not new.strip():
        return EditResult(job, None, found.prose, "the answer's code block is empty")
    if (gap := answer_checks.elision(job.old, new)) is not None:
        return EditResult(job, None, found.prose, f"the answer leaves text out ({gap!r})")
    new = answer_checks.reindented(job.old, new)
    return EditResult(job, region.with_ends(inside(job), new, region.newline_of(job.file.text)), found.prose)


def edited(file: EditFile, results: Sequence[EditResult]) -> str:
    """The file's text with every result put in the place of its region. Every result must have a text.

    Raises `CannotEdit` when results are missing their text or do not belong to the file.
    """
    lines = lines_of(file.text)
    out: list[str] = []
    at = 0
    for result in sorted(results, key=lambda result: result.job.region.first):
        place = result.job.region
        if result.text is None or result.job.file != file or place.first - 1 < at:
            raise CannotEdit(f"{file.name}: {result.problem or 'the edits do not fit together'}")
        out += [*lines[at : place.first - 1], result.text]
        at = place.last
    return "".join(out + lines[at:])


def _without_surroundings(job: EditJob, new: str) -> str:
    """A model that was asked for a part and answers with the whole text (which stood in a context file): the part
    alone, when the text around it is all there."""
    if job.whole:
        return new
    before, _, after = region.cut(lines_of(region.unified(job.file.text)), job.region)
    before, after, text = before.strip("\n"), after.strip("\n"), new.strip("\n")
    if len(before) + len(after) <= len(text) and text.startswith(before) and text.endswith(after):
        return text[len(before) : len(text) - len(after)]
    return new


def _without_blank_ends(new: str) -> str:
    """`new` without blank lines at its ends, which the region has none of."""
    lines = lines_of(new)
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    if not lines:
        return ""
    text = "".join(lines)
    return text if text.endswith("\n") else text + "\n"
