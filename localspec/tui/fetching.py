"""What the app does about its downloads: it asks for consent, tells the screens, and begins to chat with the first."""

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from localspec.chat.visible import one_line
from localspec.tui import messages
from localspec.tui.downloads import ANSWER_POLL_S, Download, Downloads

if TYPE_CHECKING:
    from collections.abc import Callable

    from localspec.models.catalog import ModelFile
    from localspec.tui.app import LocalspecApp


class Fetching:
    """The app's side of its downloads. `pull` is for tests."""

    def __init__(self, app: "LocalspecApp", pull: "Callable[..., Any] | None" = None) -> None:
        self._app = app
        self._said: dict[str, str] = {}
        self.downloads = Downloads(
            lambda name: app.post_message(messages.DownloadsChanged(name)), self._ask_consent, pull
        )

    def changed(self, name: str) -> None:
        """A download began, moved or ended."""
        download = self.downloads.get(name)
        if download is None:
            return
        self._note(download)
        if download.phase == "done" and self._said.get(name) != "told":
            self._said[name] = "told"
            self._arrived(download)
        for screen in self._app.screen_stack:
            if told := getattr(screen, "downloads_changed", None):
                told(name)

    def consent_asked(self, message: messages.ConsentAsked) -> None:
        """Ask the person."""
        from localspec.tui.screens.dialogs import ConfirmScreen

        file = message.file
        where = f"\nRead it at {file.licence_url}" if file.licence_url else ""
        text = f"{file.key} comes under the licence {file.licence}, which asks for your consent.{where}"

        def answered(yes: bool | None) -> None:
            message.answer.put(bool(yes))

        question = ConfirmScreen("Do you agree to this licence?", text, yes="I agree", no="Do not fetch")
        self._app.push_screen(question, answered)

    def _note(self, download: Download) -> None:
        line = download.error or download.said or (download.step if download.step.startswith("looking") else "")
        if download.phase == "done":
            line = "is here"
        if line and self._said.get(download.name) not in (line, "told"):
            self._said[download.name] = line
            self._app.journal.add(f"{download.name}: {one_line(line)}")

    def _arrived(self, download: Download) -> None:
        app = self._app
        if download.use and app.engine.choice is None and app.engine.phase in ("none", "broken"):
            app.choose_pair(download.name, first=True)
        else:
            app.notify(f"{download.name} is here: F3 and Enter chat with it.", markup=False)

    def _ask_consent(self, file: "ModelFile", cancel: threading.Event) -> bool:
        """In the download's thread: wait for the person's word, or for the end of the download."""
        answer: SimpleQueue[bool] = SimpleQueue()
        self._app.post_message(messages.ConsentAsked(file, answer))
        while not cancel.is_set():
            try:
                return answer.get(timeout=ANSWER_POLL_S)
            except Empty:
                continue
        return False
