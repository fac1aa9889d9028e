"""`localspec run`: one answer to stdout."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.chat.settings import Settings
from localspec.chat.splitting import Plain, Splitter
from localspec.cli import options
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.json_command import JsonCommand
from localspec.cli.options import Number
from localspec.engine.requests import EngineInfo, Request, Segment, Speculate

if TYPE_CHECKING:
    from localspec.cli.keeping import Kept
    from localspec.cli.prompt import Asked
    from localspec.cli.session import Engine


@click.command(cls=JsonCommand)
@click.argument("prompt", required=False)
@options.model_options
@options.sampling_options
@options.shared_option
@options.bound_options
@click.option("--max-tokens", type=Number(int, 1), help="Longest answer.  [default: until it ends]")
@click.option("--stop", multiple=True, metavar="TEXT", help="End the answer before this text; may be repeated.")
@options.think_option
@click.option("--system", metavar="TEXT", help="System text.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A text file to answer about; may be repeated.",
)
@click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with the last chat.")
@click.option("--no-history", is_flag=True, help="Do not keep this on the disk.")
@click.option("--raw", is_flag=True, help="No chat template: the model continues the text.")
@options.provenance_color
@click.option("--json", "as_json", is_flag=True, help="One event a line, as JSON.")
def run(prompt: str | None, **values: Any) -> int:
    """Answer PROMPT, or the text piped in, on stdout.

    With both, PROMPT is the instruction and the piped text stands below it:

        cat file.py | localspec run "Add type hints to this file."

    What is said is kept (see `localspec chats`); -c goes on with it.
    """
    from localspec.cli import keeping, render, session, settings
    from localspec.cli import prompt as prompts
    from localspec.cli.answering import JsonSink, Sink, TextSink, follow
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say

    if values["raw"] and (values["system"] or values["think"] in ("on", "off")):
        raise click.UsageError("--raw uses no chat template: --system and --think have nowhere to go")
    if values["raw"] and values["go_on"]:
        raise click.UsageError("--raw is not part of a chat: -c has nothing to go on with")
    if values["go_on"]:
        values = keeping.options_of_last(values)
    bound = options.bound(values)
    held = settings.in_force(values)
    if bound:
        # Thoughts would have to fit the grammar too.
        held = replace(held, think="off")
    asked = prompts.read_prompt(prompt, values["files"], raw=values["raw"])
    if any(not stop for stop in values["stop"]):
        raise Failure("--stop must not be empty")
    choice = session.choose(values)
    status = StatusLine()
    kept: keeping.Kept | None = None
    client, info = session.engine(choice, status)
    try:
        if info.has_encoder and values["go_on"]:
            raise Failure(f"{info.target} has an encoder and answers one text: -c has nothing to go on with")
        if not values["raw"]:
            keep = held.history and not values["no_history"]
            kept = keeping.go_on(values, held, keep) if values["go_on"] else keeping.begin(held, keep)
            keeping.restore(kept, client)
        request, splitter = _request(asked, values, held, choice.speculate, client, info, kept, bound)
        chosen = options.left_to_the_program(held)
        told = kept.session if kept is not None else None
        sink: Sink
        if values["as_json"]:
            sink = JsonSink(told)
        else:
            mode = render.mode_for(held.color, sys.stdout)
            sink = TextSink(mode, lambda started: render.start_line(info, started, chosen), session=told)
        if kept is not None:
            sink = keeping.KeepingSink(sink, kept, info, choice)
        with Interrupts(client.cancel) as interrupts:
            finished, answer, thoughts = follow(interrupts.watch(client.generate(request)), splitter, sink, status)
        if finished.reason == "context_full":
            say(f"the answer is cut: the context of {info.context} tokens is full (raise it with --ctx)")
        if kept is not None:
            keeping.report(kept)
        if interrupts.hit or finished.reason == "cancelled":
            say("interrupted: the answer is not complete")
            return INTERRUPTED
        if kept is not None:
            keeping.save(kept, client, finished)
        if thoughts and not answer:
            say("the answer ended inside the model's thoughts: raise --max-tokens, or use --think off")
        return 0
    finally:
        status.clear()
        client.close()
        if kept is not None:
            kept.talk.history.close()


def _request(
    asked: "Asked",
    values: dict[str, Any],
    held: Settings,
    speculate: Speculate,
    client: "Engine",
    info: EngineInfo,
    kept: "Kept | None",
    bound: dict[str, str],
) -> tuple[Request, Splitter]:
    """The engine's request, and what tells thoughts from the answer. `kept` None: the text as it is. `bound`: fields of
    the request that bound the answer's text."""
    from localspec.chat.attach import sources_in
    from localspec.chat.templates import ChatTemplate
    from localspec.chat.thinking import plan
    from localspec.cli import keeping
    from localspec.cli.terminal import say

    prompt: tuple[Segment, ...] = (Segment(asked.text),)
    sources = asked.sources
    splitter: Splitter = Plain()
    keep: tuple[str, ...] = ()
    if kept is not None:
        template = ChatTemplate.of(info)
        text = asked.one_text if template.one_text else asked.text
        thinking = plan(template, held.think)
        if thinking.note and values["think"]:
            say(thinking.note)
        earlier = (turn.text for turn in kept.talk.turns if turn.role == "user")
        sources = (*(source for text in earlier for source in sources_in(text)), *sources)
        kept.talk.ask(text)
        made = keeping.prompt_for(kept, template, thinking, client, info, held)
        prompt, splitter, keep = made.segments, made.splitter, thinking.keep_control
        if bound:
            prompt, splitter = thinking.answer_at_once(prompt)
    request = replace(held, speculate=speculate).request(prompt, keep_control=keep, stop=values["stop"])
    return replace(request, sources=sources, **bound), splitter  # type: ignore[arg-type]  # texts, by name
