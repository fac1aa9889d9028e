"""From what a person wants said to a request that fits: files read, tokens counted, in a thread of the caller's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.chat.attach import mentions, read, sources_in, with_files
from localspec.chat.budget import Budget, fit, room_wanted
from localspec.chat.pairing import Choice
from localspec.chat.session import Use
from localspec.chat.settings import Settings
from localspec.chat.splitting import Splitter
from localspec.chat.talk import Talk
from localspec.chat.templates import ChatTemplate
from localspec.chat.thinking import plan
from localspec.chat.turns import Turn
from localspec.engine.requests import EngineInfo, Request, Segment

Count = Callable[[tuple[Segment, ...]], int]


@dataclass(frozen=True, slots=True)
class Ready:
    """A talk that ends with the answer to be made, and how to ask for it. `budget` says what does not go along."""

    talk: Talk
    answer: Turn
    request: Request
    splitter: Splitter
    budget: Budget
    use: Use = "chat"


def with_attachments(text: str, folder: Path) -> str:
    """A question with the files it mentions below it. Raises `CannotAttach`."""
    files = [read(path, spelled) for spelled, path in mentions(text, folder)]
    return with_files(text, files) if files else text


def prepare(talk: Talk, answer: Turn, info: EngineInfo, choice: Choice, settings: Settings, count: Count) -> Ready:
    """The request for `answer`, the last turn of `talk`.

    Raises `TemplateError` and `EngineError`; nothing is changed by it.
    """
    template = ChatTemplate.of(info)
    thinking = plan(template, settings.think)

    def tokens(dropped: int) -> int:
        return count(talk.prompt(template, thinking, dropped).segments)

    budget = fit(talk.turns[:-1], tokens, info.context, room_wanted(info.context, settings.max_tokens))
    prompt = talk.prompt(template, thinking, budget.dropped)
    request = settings.request(prompt.segments, suggested=choice.speculate, keep_control=thinking.keep_control)
    asked = (turn.text for turn in talk.turns[budget.dropped : -1] if turn.role == "user")
    sources = (source for text in asked for source in sources_in(text))
    request = replace(request, sources=tuple(sources))
    return Ready(talk, answer, request, prompt.splitter, budget)


def sizes(text: str, folder: Path, count: Count) -> Sequence[tuple[str, int | str]]:
    """The files a text mentions, each with its tokens, or with the reason why it cannot be attached."""
    from localspec.chat.attach import CannotAttach

    found: list[tuple[str, int | str]] = []
    for spelled, path in mentions(text, folder):
        try:
            found.append((spelled, count((Segment(read(path, spelled).fenced()),))))
        except CannotAttach as error:
            found.append((spelled, str(error)))
    return found
