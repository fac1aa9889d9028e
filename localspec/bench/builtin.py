"""The workload that comes with the program, all of our own writing: a file a request, in `prompts/CATEGORY/N-ID.md`.

The categories differ in how much of the answer stands in the prompt already; within a category the first request is
the one measured when there is time for one only.
"""

from collections.abc import Iterator
from importlib.resources import files

from localspec.bench.workloads import EDIT, Task

CATEGORIES = (
    EDIT, "code-generation", "chat", "summarization", "question-answering", "extraction", "math", "translation",
)  # fmt: skip

FIGURE_IDS = ("edit-queue", "edit-grid", "edit-measures", "chat-bread", "extraction-hotel")
"""What `bench figures` measures: the same requests in every version, so that its figures can be compared."""


def _read() -> Iterator[Task]:
    folder = files("localspec.bench").joinpath("prompts")
    for category in CATEGORIES:
        for file in sorted(folder.joinpath(category).iterdir(), key=lambda one: one.name):
            identity = file.name.partition("-")[2].removesuffix(".md")
            yield Task(identity, category, file.read_text(encoding="utf-8").removesuffix("\n"))


TASKS = tuple(_read())

FIGURE_TASKS = tuple(task for identity in FIGURE_IDS for task in TASKS if task.id == identity)
