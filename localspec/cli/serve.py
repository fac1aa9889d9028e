"""`localspec serve`: the engine for editors and for the other commands, over HTTP on this machine."""

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import options
from localspec.cli.errors import Failure
from localspec.cli.options import Number

if TYPE_CHECKING:
    from localspec.engine.requests import EngineInfo

PORT = 8012
"""Where llama.vim looks when nothing else is set."""

TOKEN_VARIABLE = "LOCALSPEC_SERVE_TOKEN"

MEGABYTE = 1 << 20


@click.command()
@options.model_options
@options.sampling_options
@click.option("--max-tokens", type=Number(int, 1), help="Longest answer when a request names none.")
@options.think_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; beyond loopback needs a token."
)
@click.option("--port", type=Number(int, 0, 65535), default=PORT, show_default=True, help="0: a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help=f"Requests need the token in this file, or in ${TOKEN_VARIABLE}.",
)
@click.option("--token", metavar="TEXT", help="The same on the command line, where other users can see it.")
@click.option("--cors", multiple=True, metavar="ORIGIN", help="Pages of this origin may ask; may be repeated.")
@click.option("--max-body", type=Number(int, 1), default=4, show_default=True, help="Largest request, in megabytes.")
@click.option(
    "--timeout",
    type=Number(float, 0.0, above=True),
    default=600.0,
    show_default=True,
    help="Longest answer, in seconds.",
)
def serve(**values: Any) -> int:
    """Serve the model to editors, in OpenAI's and llama-server's ways, until Ctrl+C.

    Answers are made one at a time. `localspec run` and the other commands use this engine while it runs.
    """
    from localspec.cli import session, settings
    from localspec.cli.terminal import StatusLine, say
    from localspec.server import listen, runtime
    from localspec.server.app import build
    from localspec.server.asking import Limits
    from localspec.server.desk import Desk, Loaded
    from localspec.server.embedded import running_engine
    from localspec.server.guard import Policy, is_loopback

    token = _token(values["token"], values["token_file"])
    for origin in values["cors"]:
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s*]+", origin):
            raise Failure(f"--cors {origin}: an origin is like http://localhost:3000, without a path; there is no `*`")
    host = "127.0.0.1" if values["host"] == "localhost" else values["host"]
    if token is None and not is_loopback(host):
        raise Failure(f"--host {host} can be reached from other machines: give a --token-file")
    if values["token"]:
        say("--token is visible to everybody on this machine (`ps`): --token-file is not")
    try:
        socket = listen.bind(host, values["port"])
    except OSError as error:
        raise Failure(f"cannot listen on {host}:{values['port']} ({error.strerror or error}): try --port 0") from None
    held = settings.in_force(values)
    status = StatusLine()
    choice = session.choose(values)
    client, info = session.start(choice, status)
    try:
        loaded = Loaded(choice.config, info, choice.name, choice.speculate, held)
        desk = Desk(client, loaded, revive=client.restart)
        wildcard = host in ("0.0.0.0", "::")
        private = runtime.new_token()
        policy = Policy(private, token, _names(host, wildcard), wildcard, frozenset(values["cors"]))
        limits = Limits(values["max_body"] * MEGABYTE, values["timeout"])
        listener = listen.Listener(build(desk, policy, _log, limits=limits), socket, desk)
        file: Path | None = None

        def up() -> None:
            nonlocal file
            try:
                # Commands ask on 127.0.0.1: an address of another network card is not for them.
                if wildcard or host == "127.0.0.1":
                    file = runtime.publish(running_engine(loaded, listener.port, private, "serve"))
            except OSError as error:
                say(f"other commands will not find this engine: {error.strerror or error}")
            _tell(info, choice.name, _url(host, listener.port), token is not None)

        try:
            listener.serve_here(up)
        finally:
            if file is not None:
                runtime.withdraw(file)
    finally:
        status.clear()
        client.close()
    return 0


def _token(given: str | None, file: Path | None) -> str | None:
    """The token clients must send; None when none was asked for. Raises `Failure`."""
    # The engine's process needs not know it.
    token = os.environ.pop(TOKEN_VARIABLE, None)
    if file is not None:
        try:
            token = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"--token-file {file}: {getattr(error, 'strerror', None) or 'no text'}") from None
    elif given is not None:
        token = given
    if token is None:
        return None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Failure("the token must be of letters, digits and signs, without spaces")
    return token


def _names(host: str, wildcard: bool) -> frozenset[str]:
    """What this server may be called in a Host header, beside its numeric addresses."""
    import socket

    from localspec.server.guard import LOOPBACK

    own = socket.gethostname().lower()
    return frozenset((*LOOPBACK, *((own, f"{own}.local") if wildcard else (host.lower(),))))


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _tell(info: "EngineInfo", name: str, url: str, has_token: bool) -> None:
    """Where it is and how to use it, on stdout."""
    from localspec.assist.fim import has_fim
    from localspec.chat.looks import drafts_with

    draft = drafts_with(info.drafter, info.draft)
    models = info.target + (f" with {draft}" if draft else "")
    key = "the token" if has_token else "any text"
    vim = f"let g:llama_config = {{'endpoint': '{url}/infill'{', ' + repr('api_key') + ': ...' if has_token else ''}}}"
    click.echo(f"{name}: {models}, context {info.context}")
    click.echo(f"  listening   {url}")
    click.echo(f"  OpenAI      base URL {url}/v1, model {name}, API key: {key}")
    click.echo(f"  llama.vim   {vim if has_fim(info) else 'not with this model: it has no fill-in-the-middle tokens'}")
    click.echo(f"  figures     {url}/metrics")
    click.echo("Ctrl+C ends it.")
    sys.stdout.flush()


def _log(line: str) -> None:
    from localspec.cli.terminal import write_quietly

    write_quietly(sys.stderr, f"{time.strftime('%H:%M:%S')} {line}\n")
