"""`localspec bench drafts`: the drafts at hand for one target, ranked by the wall clock."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli.bench_about import About
from localspec.cli.bench_words import MISSING, bar, number
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.cli.options import Number
from localspec.engine.requests import MAX_DRAFT_LENGTH

if TYPE_CHECKING:
    from localspec.bench.drafts import Candidate, Ranking, Row
    from localspec.engine.client import EngineClient
    from localspec.engine.requests import EngineConfig, EngineInfo

CONTEXT = 2048
"""Tokens: room for the built-in requests, and little memory an engine."""


@click.command("drafts")
@click.argument("target", required=False)
@click.option(
    "--draft", "more", multiple=True, metavar="FILE|OWNER/REPO[:QUANT]",
    help="A draft to rank as well; may be given more than once.",
)  # fmt: skip
@click.option(
    "--most", type=Number(int, 0, 99), default=4, show_default=True, help="How many of the drafts found on this disk."
)
@click.option(
    "--length", type=Number(int, 1, MAX_DRAFT_LENGTH), default=3, show_default=True,
    help="The fixed draft length beside the automatic one.",
)  # fmt: skip
@common.workload_option
@click.option(
    "--prompts", type=Number(int, 1), default=3, show_default=True,
    help="How many requests, each the first of a category.",
)  # fmt: skip
@common.repeats_option(3)
@common.max_tokens_option(64)
@click.option(
    "--ctx", type=Number(int, 1), default=CONTEXT, show_default=True, help="Context of each engine, in tokens."
)
@click.option("--threads", type=Number(int, 1, 1024, auto=True), metavar="N|auto", help="[default: auto]")
@common.json_option
def drafts(
    target: str | None,
    more: tuple[str, ...],
    most: int,
    length: int,
    workload: Path | None,
    prompts: int,
    repeats: int,
    max_tokens: int,
    ctx: int,
    threads: int | str | None,
    as_json: bool,
) -> int:
    """Rank the drafts at hand, lookup and no draft at all for TARGET: a pair, a model's key, FILE or
    OWNER/REPO[:QUANT]; without it the starter's target.

    Drafts at hand are the files on this disk whose vocabulary fits. Each is loaded with a target of its own, as many as
    the memory holds together, and measured with automatic lengths and with a fixed one. A smaller draft that agrees
    less can win.

    Takes three to four minutes on two cores with the starter's target and one draft, and one and a half for every
    further draft; interrupted, it prints what it has.
    """
    from localspec.bench import drafts as bench
    from localspec.bench import ksweep
    from localspec.cli import session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import say
    from localspec.engine import machine

    tasks = ksweep.few(common.tasks_of(workload), prompts)
    config, found = _files(target, more, most, {"ctx": ctx, "threads": threads})
    found_candidates = bench.candidates(found, length)
    ready = [replace(one, needs=_memory(config, one)) for one in found_candidates]
    together = bench.groups(ready, machine.free_memory())
    clients: list[EngineClient] = []
    infos: list[EngineInfo] = []

    def start(candidate: "Candidate") -> Any:
        draft = str(candidate.draft) if candidate.draft else None
        longest = max(length, config.max_draft_length)
        # The same name that the answering commands load their engine by.
        client = session.EngineClient(  # type: ignore[attr-defined]
            replace(config, draft=draft, max_draft_length=longest)
        )
        clients.append(client)
        info = client.start()
        infos.append(info)
        common.check_room(tasks, client, info)
        return client, common.prompting_for(info)

    def stop() -> None:
        for client in clients:
            client.cancel()

    ranking = bench.Ranking()
    try:
        with common.Bar() as progress, Interrupts(stop) as interrupts:
            setting = bench.Setting(start, tasks, repeats, max_tokens, lambda: interrupts.hit, progress.show)
            bench.measure(ranking, together, setting)
    finally:
        for client in clients:
            client.close()
        for name, reason in ranking.failed.items():
            say(f"{name} could not be loaded: {reason}")
        if ranking.measured:
            about = About.now(replace(infos[0], draft=None), config)
            _print(ranking, about, [task.id for task in tasks], len(together), as_json)
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    if not ranking.measured:
        raise Failure("no engine could be loaded, so nothing was measured")
    return 0


def _files(
    target: str | None, more: tuple[str, ...], most: int, values: dict[str, Any]
) -> "tuple[EngineConfig, list[Path]]":
    """The target's engine configuration, and the drafts to rank. Raises `ModelError` or `Failure`."""
    from localspec import paths
    from localspec.cli import settings
    from localspec.cli.terminal import say
    from localspec.models import catalog, store
    from localspec.models import drafts as near
    from localspec.models import settings as model_settings
    from localspec.models.pairs import check_pair

    held = settings.in_force(values | {"target": target})
    starter = catalog.load().starter()
    spec = target or held.pair or (starter.key if starter else None)
    if spec is None:
        raise Failure("the menu has no starter pair: name a target")
    places = model_settings.load(offline=True)
    resolved = store.resolve(spec, settings=places)
    asked = [store.resolve(one, settings=places).target for one in more]
    for path in asked:
        verdict = check_pair(resolved.target, path, paths.cache_dir())
        if not verdict.compatible:
            raise Failure(f"{path.name} cannot draft for {resolved.target.name}: {verdict.reason}")
    own = [resolved.draft] if resolved.draft else []
    here = list(dict.fromkeys([*own, *near.propose(resolved.target, places).here]))
    if len(here) > most:
        left = ", ".join(path.name for path in here[most:])
        say(f"not ranked, because --most is {most}: {left}")
    chosen = list({path.resolve(): path for path in [*asked, *here[:most]]}.values())
    return held.engine_config(str(resolved.target), None, str(paths.cache_dir())), chosen


def _memory(config: "EngineConfig", candidate: "Candidate") -> int:
    from localspec.bench import drafts as bench

    files = [Path(config.target), *([candidate.draft] if candidate.draft else [])]
    return bench.memory_needed(files, config.context or CONTEXT, config.kv_type)


def _print(ranking: "Ranking", about: About, prompts: list[str], loads: int, as_json: bool) -> None:
    from localspec.bench import drafts as bench
    from localspec.cli.output import print_json, print_table

    rows = ranking.rows()
    if as_json:
        print_json(about.as_json() | {"prompts": prompts, "failed": ranking.failed, "interleaved": loads == 1,
                                      "rows": [asdict(row) for row in rows]})  # fmt: skip
        return
    for line in about.lines():
        click.echo(line)
    click.echo(common.shown(f"prompts: {', '.join(prompts)}"))
    beside = "all engines side by side" if loads == 1 else f"in {loads} groups, because the memory holds no more"
    click.echo(f"Speed-up over plain decoding in the same engine, greedy; {beside}\n")
    top = max([1.0, *(row.speedup for row in rows if row.speedup is not None)])
    shown = [(row.speedup or 0.0, _cells(row, top)) for row in rows]
    none = ("none", MISSING, "1.00x", "", bar(1.0, top), MISSING, "1.00", MISSING)
    shown.append((1.0, none))
    shown.sort(key=lambda one: -one[0])
    headings = ("draft", "length", "speed-up", "95 %", "", "accepted", "tokens/cycle", "cost a token")
    print_table(headings, [cells for _, cells in shown], right=headings[1:4] + headings[5:])
    click.echo()
    click.echo(common.shown(verdict(rows)))
    if found := bench.smaller_wins(rows):
        fast, agreeing = found
        click.echo(common.shown(
            f"At a fixed length {fast.candidate} beats {agreeing.candidate}, though fewer of its tokens are accepted "
            f"({fast.acceptance_rate:.0%} against {agreeing.acceptance_rate:.0%}): it costs "
            f"{number(fast.draft_cost)} of a plain pass a token, the other {number(agreeing.draft_cost)}."
        ))  # fmt: skip


def _cells(row: "Row", top: float) -> tuple[str, ...]:
    ends = f"{row.low:.2f}-{row.high:.2f}" if row.low is not None and row.high is not None else MISSING
    length = "automatic" if row.draft_length is None else str(row.draft_length)
    return (
        row.candidate, length, number(row.speedup, ".2f", "x"), ends, bar(row.speedup, top),
        number(row.acceptance_rate, ".0%"), number(row.tokens_per_cycle), number(row.draft_cost),
    )  # fmt: skip


def verdict(rows: "list[Row]") -> str:
    """The winner in a sentence; one whose interval reaches down to plain decoding has not won."""
    best = rows[0] if rows else None
    if best is None or best.speedup is None:
        return "Nothing is known yet."
    if round(best.speedup, 2) <= 1 or (best.low is not None and best.low <= 1):
        return "Nothing is clearly faster than plain decoding on these requests."
    length = "automatic lengths" if best.draft_length is None else f"length {best.draft_length}"
    if best.low is None:
        return f"Measured only once, so nothing is sure: {best.candidate} with {length} came to {best.speedup:.2f}x."
    return f"Fastest: {best.candidate} with {length}, {best.speedup:.2f}x."
