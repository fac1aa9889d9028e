"""Models that think before they answer: how to ask for it, and how to tell thoughts from the answer as they stream.

Whether a template belongs to such a model is read off its text (does it name a thinking marker?) and off what it does:
it is rendered with the switch on and off, and only a difference in the prompt counts as a switch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from localspec.chat.errors import TemplateError
from localspec.chat.splitting import ChannelSplitter, MarkerSplitter, Plain, Splitter
from localspec.chat.templates import ENCODER, ChatTemplate, Message
from localspec.engine.requests import Segment

Think = Literal["auto", "on", "off"]

ON: Mapping[str, Any] = {"enable_thinking": True, "thinking": True}
OFF: Mapping[str, Any] = {"enable_thinking": False, "thinking": False, "thinking_budget": 0}
"""Every name that public templates use for the switch; a template reads its own and ignores the others."""

MARKERS = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
)
"""How thoughts begin and end, as texts."""

CHANNELS = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")
"""gpt-oss: every message names its channel, `analysis`, `commentary` or `final`."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """What one request does about thoughts.

    `variables` go to the template, `keep_control` to the engine's request; `note` is a sentence for the person when the
    wish could not be met. `thinks` tells whether the template is one of a thinking model, `resumes` whether the model
    can go on with an answer: an encoder would read it as part of the text.
    """

    thinks: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)
    keep_control: tuple[str, ...] = ()
    note: str | None = None
    markers: tuple[str, str] | None = None
    channels: bool = False
    resumes: bool = True

    def splitter(self, prompt: Sequence[Segment]) -> Splitter:
        """A fresh splitter for the answer to `prompt`, which may have opened the thought already."""
        if self.channels:
            return ChannelSplitter()
        if self.markers is None:
            return Plain()
        return MarkerSplitter(*self.markers, opened=_opened(prompt, *self.markers))

    def answer_at_once(self, prompt: tuple[Segment, ...]) -> tuple[tuple[Segment, ...], Splitter]:
        """The prompt for an answer without thoughts, also where the template leaves no choice, and what splits it.

        For an answer whose whole text is bounded (by a grammar): a thought that the prompt opens is closed empty, and
        where every message names its channel the prompt names it.
        """
        if self.channels:
            return (*prompt, Segment("<|channel|>final<|message|>", True)), ChannelSplitter(final=True)
        if self.markers is not None and _opened(prompt, *self.markers):
            return (*prompt, Segment(f"\n{self.markers[1]}\n\n", True)), Plain()
        return prompt, Plain()

    def resume(self, prompt: tuple[Segment, ...], thoughts: str, text: str) -> tuple[tuple[Segment, ...], Splitter]:
        """The prompt for going on with an answer that was stopped, and what splits the rest of it.

        The markers are trusted text, so they become the tokens they were; what the model said itself is not. Raises
        `TemplateError` where nothing can be gone on with.
        """
        if not self.resumes:
            raise TemplateError(f"{ENCODER}: an answer that was stopped cannot be gone on with")
        said: list[Segment] = []
        thinks = bool(thoughts) and not text
        if self.channels:
            if thoughts:
                said += [Segment("<|channel|>analysis<|message|>", True), Segment(thoughts)]
            if text:
                then = "<|end|><|start|>assistant" if thoughts else ""
                said += [Segment(f"{then}<|channel|>final<|message|>", True), Segment(text)]
            return (*prompt, *said), ChannelSplitter(final=not thinks)
        if self.markers is None or not thoughts:
            return (*prompt, Segment(text)), Plain()
        opening, closing = self.markers
        if not _opened(prompt, opening, closing):
            said.append(Segment(f"{opening}\n", True))
        said.append(Segment(thoughts))
        if thinks:
            return (*prompt, *said), MarkerSplitter(opening, closing, opened=True)
        return (*prompt, *said, Segment(f"{closing}\n\n", True), Segment(text)), Plain()


def plan(template: ChatTemplate, think: Think) -> Thinking:
    """How to meet `think` with this template. "auto" leaves the choice to the template."""
    source = template.source or ""
    channels = "<|channel|>" in source and "analysis" in source
    markers = None if channels else next((pair for pair in MARKERS if pair[1] in source), None)
    if not channels and markers is None:
        note = "this model's chat template knows no thinking: --think on changes nothing" if think == "on" else None
        return Thinking(note=note, resumes=not template.one_text)
    keep = CHANNELS if channels else (markers[0].removesuffix("thought"), markers[1]) if markers else ()
    variables: Mapping[str, Any] = {"auto": {}, "on": ON, "off": OFF}[think]
    note = None
    if think != "auto" and not _switches(template):
        variables = {}
        if think == "off":
            note = "this model's chat template has no switch for thinking: it may think all the same"
    return Thinking(True, variables, keep, note, markers, channels)


def _switches(template: ChatTemplate) -> bool:
    """Whether the prompt differs between thinking on and off."""
    question = (Message("user", "?"),)
    try:
        return template.render(question, ON) != template.render(question, OFF)
    except TemplateError:
        return False


def _opened(prompt: Sequence[Segment], opening: str, closing: str) -> bool:
    """Whether the prompt's last trusted text leaves a thought open."""
    last = prompt[-1] if prompt else Segment("")
    return last.trusted and last.text.rfind(opening) > last.text.rfind(closing)
