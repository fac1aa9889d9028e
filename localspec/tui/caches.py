"""The engine's caches of chats: kept when a chat is left, taken up when one is opened, so that it is not read again.

All of it happens in threads while the person reads or types; a question that comes meanwhile waits in the engine.
"""

import threading
from collections.abc import Callable
from functools import partial

from localspec.chat.kv import KvStore
from localspec.tui.engine import EngineKeeper, EngineLike

LAST_SAVE_S = 0.4
"""How long leaving the program may wait for the last chat's caches: it must feel instant, and a gigabyte does not fit
into that; such a chat is read again."""


class ChatCaches:
    """Methods are for the app's thread and return at once, except `close`. `store` gives None when nothing is kept."""

    def __init__(self, keeper: EngineKeeper, store: Callable[[], KvStore | None]) -> None:
        self._keeper, self._store = keeper, store
        self._unsaved: tuple[int, int] | None = None

    def answered(self, chat_id: int | None, tokens: int) -> None:
        """The engine's caches hold this chat now, `tokens` of it, and nothing on the disk does."""
        self._unsaved = None if chat_id is None else (chat_id, tokens)

    def loaded(self, chat_id: int | None) -> None:
        """A model was loaded, its caches empty, while this chat is shown."""
        self._unsaved = None
        self._switch(chat_id)

    def opened(self, chat_id: int | None) -> None:
        """The person turned to another chat (None: a new one)."""
        if self._unsaved is None or self._unsaved[0] != chat_id:
            self._switch(chat_id)

    def close(self) -> None:
        """Keeps the caches of the last chat when that is quickly done."""
        thread = self._switch(None) if self._keeper.state.phase == "ready" else None
        if thread is not None:
            thread.join(LAST_SAVE_S)

    def _switch(self, chat_id: int | None) -> threading.Thread | None:
        left, self._unsaved = self._unsaved, None
        store = self._store()
        if store is None or (left is None and chat_id is None):
            return None
        return self._keeper.between(partial(_switched, store, left, chat_id))


def _switched(store: KvStore, left: tuple[int, int] | None, opened: int | None, client: EngineLike) -> None:
    if left is not None:
        store.save(client, *left)
    if opened is not None:
        store.restore(client, opened)
