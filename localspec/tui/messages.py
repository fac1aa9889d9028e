"""What the parts of the app tell each other. All are handled by the app or by its chat screen."""

from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from textual.message import Message

from localspec.chat.settings import Settings
from localspec.tui.engine import EngineState

if TYPE_CHECKING:
    from localspec.models.catalog import ModelFile


@dataclass
class PairChosen(Message):
    """Load this: a pair's name, a file, or a hub reference; `draft` likewise, None for the pair's own. The chat stays.

    `speculate` and the rest come from the settings.
    """

    spec: str
    draft: str | None = None


@dataclass
class SettingsChanged(Message):
    """These hold from now on; the model is loaded again when it has to be."""

    settings: Settings


@dataclass
class ChatOpened(Message):
    """Show this chat of the history, and go on with it. `message_id` is the last message of the branch to show."""

    chat_id: int
    message_id: int | None = None


@dataclass
class PromptSuggested(Message):
    """Put this into the prompt box; `send` sends it at once."""

    text: str
    send: bool = False


@dataclass
class EngineStateChanged(Message):
    """The engine is loading, ready, answering or broken."""

    state: EngineState


@dataclass
class DownloadsChanged(Message):
    """The download called `name` began, moved or ended."""

    name: str


@dataclass
class ConsentAsked(Message):
    """A download waits for the person's word on a licence: put it into `answer`."""

    file: "ModelFile"
    answer: "SimpleQueue[bool]"


class EventsReady(Message):
    """Events of the answer wait in the keeper; posted once until they are taken."""
