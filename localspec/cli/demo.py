"""`localspec demo`: one code edit, decoded plainly and then speculatively by one engine, side by side in figures."""

import sys
from typing import Any

import click

from localspec.chat import looks
from localspec.cli import options, render
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.options import Number
from localspec.engine.events import Finished, Stats
from localspec.engine.requests import Request, SamplerSettings, Speculate

INSTRUCTION = "Rename the class `Shelf` to `Bookcase`, add type hints everywhere, and answer with the whole file only."

CODE = '''\
"""A small lending library."""

import datetime


class Shelf:
    """Books in order, and who has which."""

    def __init__(self, name, days=21):
        self.name = name
        self.days = days
        self.books = {}
        self.loans = {}

    def add(self, number, title):
        if number in self.books:
            raise ValueError(f"number {number} is taken by {self.books[number]}")
        self.books[number] = title

    def lend(self, number, reader, today=None):
        if number not in self.books:
            raise KeyError(f"there is no book {number} on {self.name}")
        if number in self.loans:
            raise ValueError(f"{self.books[number]} is lent already")
        start = today or datetime.date.today()
        due = start + datetime.timedelta(days=self.days)
        self.loans[number] = (reader, due)
        return due

    def give_back(self, number):
        reader, due = self.loans.pop(number)
        return reader

    def overdue(self, today):
        late = []
        for number, (reader, due) in self.loans.items():
            if due < today:
                late.append((self.books[number], reader, (today - due).days))
        return sorted(late)
'''


@click.command()
@options.model_options
@click.option("--max-tokens", type=Number(int, 2), default=600, show_default=True, help="Longest answer of each run.")
@options.color_option("As in `localspec run`.")
def demo(**values: Any) -> int:
    """Decode the same code edit plainly, then speculatively, and compare the two in a table.

    Greedy, in one engine. The second run finds the prompt in the cache, so only the first one's time to the first token
    includes reading it.
    """
    from localspec.chat.conversation import Conversation
    from localspec.chat.templates import ChatTemplate
    from localspec.chat.thinking import plan
    from localspec.cli import session, settings
    from localspec.cli.answering import TextSink, follow
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say

    held = settings.in_force(values)
    mode = render.mode_for(held.color, sys.stdout)
    choice = session.choose(values)
    if choice.speculate == "off":
        raise Failure("the demo compares plain decoding with speculation: --speculate off leaves nothing to compare")
    chosen = options.left_to_the_program(held)
    status = StatusLine()
    client, info = session.start(choice, status)
    runs: list[tuple[Finished, str]] = []
    try:
        thinking = plan(ChatTemplate.of(info), "off")
        talk = Conversation()
        talk.ask(f"{INSTRUCTION}\n\n```python\n{CODE}```")
        prompt = talk.prompt(ChatTemplate.of(info), thinking)
        kinds: tuple[Speculate, ...] = ("off", choice.speculate)
        for speculate in kinds:
            click.echo("Speculative decoding" if runs else "Plain decoding")
            sink = TextSink(mode, lambda started: render.start_line(info, started, chosen))
            request = Request(
                prompt=prompt,
                sampling=SamplerSettings(temperature=0.0),
                speculate=speculate,
                draft_length=held.draft_length if runs else None,
                max_tokens=values["max_tokens"],
                keep_control=thinking.keep_control,
            )
            with Interrupts(client.cancel) as interrupts:
                events = interrupts.watch(client.generate(request))
                finished, text, _ = follow(events, thinking.splitter(prompt), sink, status)
            click.echo()
            if interrupts.hit:
                say("interrupted: there is nothing to compare")
                return INTERRUPTED
            runs.append((finished, text))
    finally:
        status.clear()
        client.close()
    (plain, plain_text), (fast, fast_text) = runs
    _print_table(plain.stats, fast.stats, mode)
    click.echo(_same_text(plain_text, fast_text))
    return 0


def ratio(plain: Stats, fast: Stats) -> float | None:
    """Decode speed of the second run over that of the first; None when either has none."""
    if not plain.tokens_per_s or fast.tokens_per_s is None:
        return None
    return fast.tokens_per_s / plain.tokens_per_s


def rows(plain: Stats, fast: Stats) -> list[tuple[str, str, str]]:
    """The table: what, plain, speculative."""
    reused = f"{fast.prompt_reused} of {fast.prompt_tokens}"
    baseline = "1.00x" if plain.tokens_per_s else looks.MISSING
    return [
        ("tokens/s", looks.number(plain.tokens_per_s), looks.number(fast.tokens_per_s)),
        ("speed-up over the plain run", baseline, looks.number(ratio(plain, fast), ".2f", "x")),
        ("acceptance rate", looks.MISSING, looks.share(fast.acceptance_rate)),
        ("tokens per cycle", looks.number(plain.tokens_per_cycle, ".2f"), looks.number(fast.tokens_per_cycle, ".2f")),
        ("time to first token", looks.number(plain.ttft_s, ".2f", " s"), looks.number(fast.ttft_s, ".2f", " s")),
        ("prompt tokens reused", f"{plain.prompt_reused} of {plain.prompt_tokens}", reused),
        ("tokens", str(plain.tokens), str(fast.tokens)),
    ]


def _print_table(plain: Stats, fast: Stats, mode: render.Mode) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column()
    for title in ("plain", "speculative"):
        table.add_column(Text(title), justify="right")
    for cells in rows(plain, fast):
        table.add_row(*map(Text, cells))
    Console(file=sys.stdout, no_color=mode != "color", highlight=False, markup=False, emoji=False).print(table)


def _same_text(plain: str, fast: str) -> str:
    if plain == fast:
        return "Both runs wrote the same text."
    same = next((at for at, (a, b) in enumerate(zip(plain, fast, strict=False)) if a != b), min(len(plain), len(fast)))
    return (
        f"The texts are the same up to character {same}; from there another of two nearly equal tokens was taken "
        "(wider passes round a little differently)."
    )
