"""`localspec chats`: the history from the shell."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from localspec.chat.history import History
from localspec.chat.history_rows import Chat
from localspec.cli.errors import Failure
from localspec.cli.terminal import one_line, say

FORMATS = ("markdown", "json", "html")


@click.group()
def group() -> None:
    """List, search, show and export the chats on this disk. The app keeps them, and so does `localspec run`."""


@contextmanager
def _open() -> Iterator[History]:
    """The history; a command that is about it has nothing to do without."""
    history = History.open()
    try:
        if history.problem:
            raise Failure(history.problem)
        yield history
    finally:
        history.close()


as_json = click.option("--json", "as_json", is_flag=True, help="As JSON.")
limit = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N chats.")


@group.command("list")
@limit
@as_json
def list_chats(limit: int | None, as_json: bool) -> None:
    """The chats, the latest first."""
    from localspec.chat.export_words import when
    from localspec.cli.output import print_json, print_table

    with _open() as history:
        chats = history.chats(limit)
    if as_json:
        print_json([_facts(chat) for chat in chats])
    elif chats:
        rows = [
            (str(chat.id), when(chat.updated), str(chat.messages), _model(chat), chat.title or "Untitled chat")
            for chat in chats
        ]
        print_table(("chat", "last used", "messages", "model", "title"), rows, right=("chat", "messages"))
    else:
        say('there are no chats yet: `localspec run "your question"` begins one')


@group.command()
@click.argument("words", nargs=-1, required=True)
@limit
@as_json
def search(words: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Chats in which all WORDS occur, in the title or in one message.

    Quotes inside an argument keep words together: localspec chats search '"merge sort" python'
    """
    from localspec.cli.output import print_json, print_table

    with _open() as history:
        hits = history.search(" ".join(words), limit or 100)
        chats = {hit.chat: history.chat(hit.chat) for hit in hits}
    if as_json:
        print_json([_facts(chats[hit.chat]) | {"hit": asdict(hit)} for hit in hits])
    elif hits:
        rows = [
            (str(hit.chat), chats[hit.chat].title or "Untitled chat", hit.snippet if hit.message else "(the title)")
            for hit in hits
        ]
        print_table(("chat", "title", "found"), rows, right=("chat",))
    else:
        say(f"no chat has {' '.join(words)!r}")


@group.command()
@click.argument("chat_id", metavar="[CHAT]", type=int, required=False)
@click.option("--color", type=click.Choice(("auto", "always", "never", "marks")), help="As in `localspec run`.")
@as_json
def show(chat_id: int | None, color: str | None, as_json: bool) -> None:
    """A chat by its number (see `chats list`); without one the latest. On a terminal in its colours."""
    from localspec.chat.export_json import to_json
    from localspec.cli import settings
    from localspec.cli.chats_show import print_chat
    from localspec.cli.output import print_json
    from localspec.cli.render import mode_for

    with _open() as history:
        chat = _the(history, chat_id)
        if as_json:
            print_json(to_json(history, chat.id))
            return
        chosen: Any = color or settings.load().settings().color
        print_chat(chat, history.turns(chat.id), mode_for(chosen, sys.stdout))


@group.command()
@click.argument("chat_id", metavar="[CHAT]", type=int, required=False)
@click.option("--format", "form", type=click.Choice(FORMATS), help="[default: by the file's name, else markdown]")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="[default: standard output]")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def export(chat_id: int | None, form: Any, output: Path | None, force: bool) -> None:
    """Write a chat as Markdown, as JSON with every token (`chats import` reads it), or as HTML with its colours."""
    from localspec.chat.export import SUFFIXES
    from localspec.chat.export import export as exported
    from localspec.models.partial import write_atomically

    form = form or (SUFFIXES.get(output.suffix.lower()) if output else None) or "markdown"
    with _open() as history:
        text = exported(history, _the(history, chat_id).id, form)
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists() and not force:
        raise Failure(f"{output} is there already: name another file, or use --force")
    write_atomically(output, text)
    say(f"written to {output}")


@group.command("import")
@click.argument("file", type=click.Path(path_type=Path))
def import_chat(file: Path) -> None:
    """Add a chat that was exported as JSON."""
    from localspec.chat.export_json import from_json

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8 text") from None
    with _open() as history:
        say(f"added as chat {from_json(history, text)}")


@group.command()
@click.argument("chat_id", metavar="CHAT", type=int)
@click.argument("title")
def rename(chat_id: int, title: str) -> None:
    """Give a chat another TITLE."""
    if not one_line(title):
        raise Failure("a title needs at least one character")
    with _open() as history:
        history.update(chat_id, title=title)


@group.command()
@click.argument("chat_ids", metavar="CHAT...", type=int, nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(chat_ids: tuple[int, ...], yes: bool) -> None:
    """Remove chats, with all their branches, for good."""
    from localspec.chat.kv import KvStore
    from localspec.cli.terminal import is_terminal

    with _open() as history:
        chats = [history.chat(chat_id) for chat_id in dict.fromkeys(chat_ids)]
        for chat in chats:
            title = one_line(chat.title) or "Untitled chat"
            if not yes:
                if not is_terminal(sys.stdin):
                    raise Failure("deleting cannot be undone: add --yes to do it without being asked")
                click.confirm(f"Delete chat {chat.id}, {title}?", abort=True, err=True)
            history.delete(chat.id)
            KvStore(0).forget(chat.id)
            say(f"deleted chat {chat.id}, {title}")


def _the(history: History, chat_id: int | None) -> Chat:
    if chat_id is not None:
        return history.chat(chat_id)
    chat = history.last()
    if chat is None:
        raise Failure('there are no chats yet: `localspec run "your question"` begins one')
    return chat


def _model(chat: Chat) -> str:
    """A file by its name alone."""
    return Path(chat.target or "").name.removesuffix(".gguf")


def _facts(chat: Chat) -> dict[str, Any]:
    return {**asdict(chat), "settings": dict(chat.settings)}
