"""A conversation and the prompt it becomes."""

from dataclasses import dataclass, field

from localspec.chat.templates import ChatTemplate, Message
from localspec.chat.thinking import Thinking
from localspec.engine.requests import Segment


@dataclass(slots=True)
class Conversation:
    """Turns in order, the system text apart. An assistant's thoughts stay beside its answer: whether they go into the
    next prompt is the template's decision (most drop them)."""

    system: str = ""
    messages: list[Message] = field(default_factory=list)

    def ask(self, text: str) -> None:
        self.messages.append(Message("user", text))

    def answered(self, text: str, thoughts: str = "") -> None:
        self.messages.append(Message("assistant", text, thoughts))

    def prompt(self, template: ChatTemplate, thinking: Thinking | None = None) -> tuple[Segment, ...]:
        """The prompt for the next answer; raises `TemplateError` and leaves the conversation as it is."""
        system = [Message("system", self.system)] if self.system else []
        return template.render([*system, *self.messages], thinking.variables if thinking else None)
