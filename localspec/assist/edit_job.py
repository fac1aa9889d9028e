"""The values of an edit: what fits the context, one question, and what its answer came to."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from localspec.assist import region
from localspec.assist.edit_file import CannotEdit, EditFile
from localspec.assist.region import Region, lines_of
from localspec.chat.splitting import Splitter
from localspec.chat.templates import ChatTemplate, Message
from localspec.chat.thinking import Think, Thinking
from localspec.chat.thinking import plan as plan_thinking
from localspec.engine.requests import EngineInfo, Request, SamplerSettings, Segment, SourceText

SAMPLING = SamplerSettings(temperature=0.0)
"""How edits are sampled unless the person says otherwise: the most likely text, and no penalty on repeating, because
an edit repeats its prompt."""

_SPELLING = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]")
"""How vocabularies spell control tokens: `<|im_end|>`, `<pad>`, `[INST]`. Those that are none are no matter."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a model can take: `context` in tokens, `count` gives a prompt's tokens. `max_tokens` bounds each answer."""

    context: int
    count: Callable[[tuple[Segment, ...]], int]
    template: ChatTemplate
    thinking: Thinking
    max_tokens: int | None = None

    @classmethod
    def of(
        cls,
        info: EngineInfo,
        count: Callable[[tuple[Segment, ...]], int],
        *,
        think: Think = "auto",
        max_tokens: int | None = None,
    ) -> "Budget":
        """The budget of a loaded engine. Raises `CannotEdit` for a model that cannot write a file's text back."""
        if info.has_encoder:
            raise CannotEdit(f"{info.target} has an encoder and answers one text: it cannot edit files")
        template = ChatTemplate.of(info)
        return cls(info.context, count, template, plan_thinking(template, think), max_tokens)

    def segments(self, question: str) -> tuple[Segment, ...]:
        """The prompt for a question. Raises `TemplateError`."""
        return self.template.render([Message("user", question)], self.thinking.variables)


@dataclass(frozen=True, slots=True)
class EditJob:
    """One question: lines `region` of `file`, whose text is `old` (line ends unified, blank lines at the ends left
    out). It is number `part` of `parts` of its file. `max_tokens` bounds the answer, estimated generously.

    `sources` are the texts in the prompt, so that copied tokens can be named with file and line.
    """

    file: EditFile
    region: Region
    old: str
    prompt: tuple[Segment, ...]
    prompt_tokens: int
    max_tokens: int
    sources: tuple[SourceText, ...]
    thinking: Thinking
    part: int = 1
    parts: int = 1

    def request(self, base: Request) -> Request:
        """The engine's request: the prompt and its bounds, everything else as in `base`."""
        limit = self.max_tokens if base.max_tokens is None else min(base.max_tokens, self.max_tokens)
        keep = (*self.thinking.keep_control, *self._spelled())
        return replace(base, prompt=self.prompt, keep_control=keep, sources=self.sources, max_tokens=limit)

    def splitter(self) -> Splitter:
        """A fresh splitter of thoughts and answer."""
        return self.thinking.splitter(self.prompt)

    def _spelled(self) -> list[str]:
        """What looks like a control token in the texts: a model may answer with the token itself where they spell it,
        and without its spelling the new text would silently lack it."""
        texts = [segment.text for segment in self.prompt if not segment.trusted]
        found = dict.fromkeys(spelling for text in texts for spelling in _SPELLING.findall(text))
        return [spelling for spelling in found if spelling not in self.thinking.keep_control]

    @property
    def whole(self) -> bool:
        return self.region == core_of(self.file)


@dataclass(frozen=True, slots=True)
class EditResult:
    """What an answer came to: `text` is the region's new text with the file's own line ends, None when the answer
    cannot be used, for the reason `problem`. `prose` is what the answer said around the block."""

    job: EditJob
    text: str | None
    prose: str = ""
    problem: str = ""

    @property
    def changed(self) -> bool:
        return self.text is not None and self.text != inside(self.job)


def core_of(file: EditFile) -> Region:
    """All lines of the file but the blank ones at its ends."""
    lines = lines_of(file.text)
    return region.core(lines, region.whole(lines))


def inside(job: EditJob) -> str:
    """The region as the file has it."""
    return region.cut(lines_of(job.file.text), job.region)[1]
