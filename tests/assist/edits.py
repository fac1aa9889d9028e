"""Files, budgets and answers for the tests of edits: a token is a word or a run of white space."""

import re
from pathlib import Path

from hypothesis import HealthCheck, settings

from localspec.assist import edit, edit_file
from localspec.assist.edit_file import EditFile
from localspec.assist.edit_job import Budget, EditJob
from localspec.chat.templates import ChatTemplate
from localspec.chat.thinking import Thinking
from localspec.engine.requests import Segment

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For properties: how long an example takes says nothing on a busy machine."""


def count(prompt: tuple[Segment, ...]) -> int:
    return sum(len(re.findall(r"\s+|\S+", segment.text)) for segment in prompt)


def budget(context: int = 4096, **given: int) -> Budget:
    return Budget(context, count, ChatTemplate(), Thinking(), **given)


def file_of(text: str, name: str = "code.py") -> EditFile:
    return edit_file.of_bytes(text.encode(), name, Path(name))


def job_for(text: str, lines: str | None = None, name: str = "code.py") -> EditJob:
    """The one question for a text, or for some of its lines."""
    (job,) = edit.plan(file_of(text, name), "Change it.", lines, [], budget())
    return job


def block(code: str, language: str = "python") -> str:
    """An answer with the code in a block; the fence stands on a line of its own."""
    return f"```{language}\n{code.removesuffix(chr(10))}\n```"


def prompt_text(job: EditJob) -> str:
    return "".join(segment.text for segment in job.prompt)
