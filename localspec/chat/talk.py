"""A chat a person goes on with: its turns, the prompts they become, and their way into the history.

Nothing is said twice and nothing is lost: an edited question or a regenerated answer becomes a branch beside the old
one in the history.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.chat.errors import HistoryError
from localspec.chat.history import History
from localspec.chat.recording import Recorder
from localspec.chat.splitting import Splitter
from localspec.chat.templates import ChatTemplate, Message
from localspec.chat.thinking import Thinking
from localspec.chat.turns import Turn
from localspec.engine.requests import EngineInfo, Segment


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine is asked, and what tells thoughts from the answer in what it says."""

    segments: tuple[Segment, ...]
    splitter: Splitter


class Talk:
    """`turns` is the branch that is shown. `chat_id` is None until the first question is kept; `problem` says why the
    chat is not kept, None while it is. `model` is what would choose the same models again (`Choice.again`); it is kept
    with the chat."""

    def __init__(
        self, history: History, turns: Sequence[Turn] = (), chat_id: int | None = None, system: str = ""
    ) -> None:
        self.history = history
        self.turns = list(turns)
        self.chat_id = chat_id
        self.system = system
        self.model: tuple[str, str | None] | None = None
        self.problem: str | None = None

    def copy(self) -> "Talk":
        """The same chat, to try what would be said next without saying it."""
        return Talk(self.history, self.turns, self.chat_id, self.system)

    # -- what is said next -------------------------------------------------------------------------------------------

    def ask(self, text: str) -> Turn:
        """A new question; returns the answer to be made."""
        self.turns += [Turn("user", text), answer := Turn("assistant")]
        return answer

    def take_back(self) -> str:
        """The last question and what there is of its answer, out of the chat; returns the question's text."""
        while self.turns and self.turns[-1].role == "assistant":
            self.turns.pop()
        return self.turns.pop().text if self.turns else ""

    def regenerate(self) -> Turn | None:
        """Another answer to the last question; None without one. The old answer stays in the history."""
        last = next((at for at in range(len(self.turns) - 1, -1, -1) if self.turns[at].role == "user"), None)
        if last is None:
            return None
        del self.turns[last + 1 :]
        self.turns.append(answer := Turn("assistant"))
        return answer

    def edit(self, turn: Turn, text: str) -> Turn:
        """Another question in place of an earlier one; what came after stays in the history as a branch."""
        del self.turns[self.turns.index(turn) :]
        return self.ask(text)

    def resumable(self) -> Turn | None:
        """The last answer when it stopped before its end, to be continued."""
        last = self.turns[-1] if self.turns else None
        return last if last is not None and last.role == "assistant" and last.stopped and last.parts else None

    # -- prompts -----------------------------------------------------------------------------------------------------

    def prompt(self, template: ChatTemplate, thinking: Thinking, dropped: int = 0) -> Prompt:
        """The prompt for the last answer, without the first `dropped` turns; an answer that has begun is continued.

        Raises `TemplateError`; the chat stays as it is.
        """
        answer = self.turns[-1]
        system = [Message("system", self.system)] if self.system else []
        # An encoder reads a question by itself; that earlier turns are no part of it was said when it was loaded.
        turns = self.turns[-2:-1] if template.one_text else self.turns[dropped:-1]
        messages = [*system, *(turn.message for turn in turns)]
        segments = template.render(messages, thinking.variables)
        if answer.parts:
            return Prompt(*thinking.resume(segments, answer.thoughts, answer.text))
        return Prompt(segments, thinking.splitter(segments))

    # -- keeping (in the answer's thread) ----------------------------------------------------------------------------

    def recorder(self, answer: Turn, info: EngineInfo) -> Recorder:
        """Keeps what is new of the chat, and then the answer as it comes. Never raises because of the history."""
        try:
            parent = self._keep(info)
        except HistoryError as error:
            self.problem = str(error)
            self.history, self.chat_id = History.in_memory(), None
            for turn in self.turns:
                turn.id = None
            parent = self._keep(info)
        assert self.chat_id is not None
        return Recorder(self.history, self.chat_id, parent, answer)

    def _keep(self, info: EngineInfo) -> int | None:
        """Every turn but the last into the history; returns the last one's parent."""
        target, draft = self.model or (info.target, info.draft)
        if self.chat_id is None:
            self.chat_id = self.history.create(target=target, draft=draft, system=self.system).id
        elif self.model is not None:
            self.history.update(self.chat_id, target=target, draft=draft, system=self.system)
        parent: int | None = None
        for turn in self.turns[:-1]:
            if turn.id is None:
                self.history.add(self.chat_id, turn, parent)
            parent = turn.id
        return parent
