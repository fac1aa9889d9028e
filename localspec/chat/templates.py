"""From messages to a prompt, through the chat template that the model's file brings.

Only the template's own text may become special tokens; what people and files say never does. So the template never
sees a message: each text is replaced by a placeholder, and the output is cut at the placeholders into trusted segments
(the template's) and untrusted ones (the messages'). Role markers typed by a person stay plain text, and a template
cannot react to what a message says: tests such as `'</think>' in content` see an opaque text and answer no.

Trimming is carried over: a placeholder is padded with white space that the template's `trim`, `strip`, `lstrip('\\n')`
and the like remove or leave, and the same is done to the real text. A template that takes a placeholder apart in
another way is refused with `TemplateError`, because its output could not be told from the message any more.

The begin token is left as the template writes it; the engine adds one when the vocabulary wants it and there is none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from localspec.chat.errors import NEXT_STEP, TemplateError
from localspec.engine.requests import EngineInfo, Segment

Role = Literal["system", "user", "assistant"]

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Used when the model's file has no template."""

ENCODER = "this model has an encoder and answers one text"
"""Why such a model does not do what others do."""

_FRONT, _BACK = "\n" * 8, "\n" * 16
"""Padding before and after a placeholder: longer than a template's own runs of newlines, and of two lengths, so that a
run between two placeholders tells which of its sides were trimmed. The inner `\\v` falls only to a full trim."""
_PLACE = re.compile("(\v?)\ue000([0-9]+)\ue001(\v?)")
_LEFTOVER = re.compile("[\v\ue000\ue001]|u000b")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `thoughts` is an assistant's reasoning, kept apart from its answer."""

    role: Role
    text: str
    thoughts: str = ""


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A Jinja chat template and the special texts it may name. `source` None is ChatML. `one_text`: the model has an
    encoder, which reads one text as it is, with no roles and no turns."""

    source: str | None = None
    bos: str = ""
    eos: str = ""
    one_text: bool = False

    @classmethod
    def of(cls, info: EngineInfo) -> "ChatTemplate":
        if info.has_encoder:
            return cls(one_text=True)
        return cls(info.chat_template or None, info.special_tokens.get("bos", ""), info.special_tokens.get("eos", ""))

    def render(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> tuple[Segment, ...]:
        """The prompt for the assistant's next turn.

        A template without a system role gets the system text in the first user turn; one that insists on alternation
        gets equal neighbours merged, and empty assistant turns (a reply cancelled before its first word) left out.
        Raises `TemplateError`, with the template's own message when it has one.
        """
        if self.one_text:
            return _alone(messages)
        refusal: TemplateError | None = None
        for attempt in _attempts(messages):
            try:
                prompt, complete = self._try(attempt, variables or {})
            except TemplateError as error:
                refusal = refusal or error
                continue
            if complete:
                return prompt
        raise refusal or TemplateError(f"the model's chat template leaves the message out; {NEXT_STEP}")

    def _try(self, messages: Sequence[Message], variables: Mapping[str, Any]) -> tuple[tuple[Segment, ...], bool]:
        """The prompt, and whether the system text and the newest message are in it."""
        from localspec.chat.sandbox import run_template

        texts: list[str] = []

        def place(text: str) -> str:
            if not text:
                return ""
            texts.append(text)
            return f"{_FRONT}\v\ue000{len(texts) - 1}\ue001\v{_BACK}"

        turns: list[dict[str, str]] = []
        needed: list[int] = []
        for index, message in enumerate(messages):
            if message.text and (message.role == "system" or index == len(messages) - 1):
                needed.append(len(texts))
            turn = {"role": message.role, "content": place(message.text)}
            if message.thoughts:
                turn["reasoning_content"] = turn["thinking"] = place(message.thoughts)
            turns.append(turn)
        given = {
            "messages": turns,
            "add_generation_prompt": True,
            "bos_token": self.bos,
            "eos_token": self.eos,
            "tools": None,
            "documents": None,
            **variables,
        }
        output = run_template(self.source or CHATML, given)
        seen = {int(number) for _, number, _ in _PLACE.findall(output)}
        return tuple(_cut(output, texts)), seen.issuperset(needed)


def _alone(messages: Sequence[Message]) -> tuple[Segment, ...]:
    """The one text that an encoder reads."""
    if any(message.role == "system" for message in messages):
        raise TemplateError(f"{ENCODER}: a system text has no place in it")
    if len(messages) != 1 or messages[0].role != "user":
        raise TemplateError(f"{ENCODER}: a conversation of several turns has no place in it")
    return (Segment(messages[0].text),)


def _cut(output: str, texts: Sequence[str]) -> list[Segment]:
    """A template's output with its placeholders filled: trusted text between untrusted messages."""
    segments: list[Segment] = []

    def add(text: str, trusted: bool) -> None:
        if trusted and _LEFTOVER.search(text):
            raise TemplateError(f"the model's chat template rewrites the messages; {NEXT_STEP}")
        if segments and segments[-1].trusted is trusted:
            text = segments.pop().text + text
        if text:
            segments.append(Segment(text, trusted))

    gap, *rest = _PLACE.split(output)
    for at in range(0, len(rest), 4):
        front, number, back, following = rest[at : at + 4]
        if int(number) >= len(texts):
            raise TemplateError(f"the model's chat template makes up messages; {NEXT_STEP}")
        whole_front = gap.endswith(_FRONT)
        whole_back = following.startswith(_BACK)
        text = _trimmed(texts[int(number)], str.lstrip, front, whole_front)
        add(gap.removesuffix(_FRONT) if front else gap, True)
        add(_trimmed(text, str.rstrip, back, whole_back), False)
        gap = following.removeprefix(_BACK) if back else following
    add(gap, True)
    return segments


def _trimmed(text: str, strip: Callable[..., str], inner: str, whole: bool) -> str:
    """The text, trimmed on one side as the template trimmed its placeholder there: `inner` is what is left of the
    padding's `\\v`, `whole` whether its newlines are there."""
    if not inner:
        return strip(text)
    return text if whole else strip(text, "\n")


def _attempts(messages: Sequence[Message]) -> list[list[Message]]:
    """The conversation as it is, then in the shapes that stricter templates take."""
    asis = list(messages)
    folded = _folded(asis)
    shapes = [asis, folded, _merged(asis), _merged(folded)]
    return [shape for index, shape in enumerate(shapes) if shape not in shapes[:index]]


def _folded(messages: list[Message]) -> list[Message]:
    """The system text moved to the top of the first user turn."""
    system = "\n\n".join(message.text for message in messages if message.role == "system" and message.text)
    rest = [message for message in messages if message.role != "system"]
    for index, message in enumerate(rest):
        if message.role == "user" and system:
            rest[index] = replace(message, text=f"{system}\n\n{message.text}")
            return rest
    return messages


def _merged(messages: list[Message]) -> list[Message]:
    """Empty assistant turns left out, then neighbours of one role made one."""
    merged: list[Message] = []
    for message in messages:
        if message.role == "assistant" and not message.text:
            continue
        if merged and merged[-1].role == message.role:
            merged[-1] = replace(message, text=f"{merged[-1].text}\n\n{message.text}")
        else:
            merged.append(message)
    return merged
