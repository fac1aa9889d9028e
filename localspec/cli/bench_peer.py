"""What `localspec bench --peer` does: the same prompts to our engine and to running llama-servers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from localspec.cli import bench_common as common
from localspec.cli.bench_about import About
from localspec.cli.bench_words import MISSING, number
from localspec.cli.errors import INTERRUPTED, Failure
from localspec.engine.requests import Speculate

if TYPE_CHECKING:
    from localspec.bench.contest import Contest, Verdict
    from localspec.bench.peer import Peers, Setting

ROUNDS = 5
"""A setting is chosen on half of them and judged on the other half."""

OTHERS = {"full": False, "temp": (), "cost_curve": None, "html": None, "save": None, "verbose": False}
"""Options of `localspec bench` that say nothing here, with what they are when they are not given."""


def compare(peers: Sequence[str], cold: bool, given: dict[str, Any]) -> int:
    """Measure and print. `peers` are texts as `Peer.parse` reads them; `given` are the options of `localspec bench`,
    None where nothing was said. Answers the exit code."""
    from localspec.bench import contest, peer, suite
    from localspec.bench.paired import Mode
    from localspec.bench.peer_server import Peer, PeerError
    from localspec.bench.resting import rest
    from localspec.cli import bench_suite, session
    from localspec.cli.interrupts import Interrupts
    from localspec.cli.terminal import StatusLine, say

    try:
        asked = [Peer.parse(text) for text in peers]
    except ValueError as error:
        raise click.UsageError(f"--peer: {error}") from None
    if len({one.name for one in asked}) < len(asked):
        raise click.UsageError("--peer: two peers have the same name")
    if given["offline"] and (away := [one.name for one in asked if not one.here]):
        raise click.UsageError(f"--offline, and the peer {away[0]} is not on this machine")
    for name, unsaid in OTHERS.items():
        if given[name] != unsaid:
            raise click.UsageError(f"--peer compares greedy answers in a table: --{name.replace('_', '-')} does not "
                                   "belong here")  # fmt: skip
    way: Speculate = given["speculate"] or "auto"
    length, workload = given["draft_length"], given["workload"]
    if way == "off":
        raise click.UsageError("--peer compares our speculation with theirs: --speculate off leaves nothing to compare")
    tasks = suite.first_of_each(common.tasks_of(workload), given["prompts"] or (None if workload else 1))
    choice = session.choose(given | {"speculate": way})
    client, info = session.start(choice, StatusLine())
    servers = peer.Peers.connect(asked)
    held = contest.Contest()
    try:
        with common.Bar() as bar, Interrupts(client.cancel) as interrupts:
            setting = peer.Setting(
                tasks, Mode(way if length is None else f"{way} {length}", way, length), given["repeats"] or ROUNDS,
                given["max_tokens"] or 64, common.prompting_for(info), not cold, lambda: interrupts.hit,
                bar.show, lambda: rest(client.pid, lambda: interrupts.hit),
            )  # fmt: skip
            try:
                for note in servers.check(client, info.target, setting):
                    say(note)
            except PeerError as error:
                raise Failure(str(error)) from None
            bench_suite.calibrate(client, bar, lambda: interrupts.hit)
            peer.measure(held, client, servers, setting)
    finally:
        servers.close()
        client.close()
        for reason in servers.failed.values():
            say(f"left out from there on: {reason}")
        if held.answers:
            _print(held, servers, About.now(info, choice.config), setting, given["as_json"])
    if interrupts.hit:
        say("interrupted: what was measured until then is shown")
        return INTERRUPTED
    return 0


def as_json_value(held: "Contest") -> dict[str, Any]:
    """All figures as JSON values. `speedup`: over our plain decoding of the same round. `against_best`: our speed over
    that of the peer's best setting, `chosen` on the odd rounds and on the even ones, each judged on the others. A
    peer's name begins with @; `ours` and `plain` are our own two ways."""
    from localspec.bench.contest import OURS, PLAIN

    ways = [OURS, *held.peers]

    def verdict(found: "Verdict | None") -> dict[str, Any] | None:
        return None if found is None else {"ratio": found.ratio, "chosen": found.chosen}

    return {
        "rounds": len(held.rounds),
        "categories": [
            {
                "category": category,
                "prompts": [task.id for task in held.tasks(category)],
                "speedup": {way: held.category_ratio(way, PLAIN, category) for way in ways},
                "against_best": verdict(held.against_best(category)),
            }
            for category in held.categories
        ],
        "mean": {way: held.overall(way, PLAIN) for way in ways},
        "accepted_of_proposed": {way: held.accepted_share(way) for way in ways},
        "mean_against_best": held.mean_against_best(),
        "against_best_single": verdict(held.against_best_single()),
        "answers": [
            {
                "id": one.task.id, "way": one.way, "round": one.round, "tokens": one.tokens,
                "seconds": one.seconds, "proposed": one.proposed, "accepted": one.accepted,
            }
            for one in held.answers
        ],
    }  # fmt: skip


def _print(held: "Contest", peers: "Peers", about: About, setting: "Setting", as_json: bool) -> None:
    from localspec.cli.output import print_json

    if as_json:
        facts = {"ours": setting.ours.name, "cache_prompt": setting.cache_prompt, "failed": peers.failed}
        print_json(about.as_json() | facts | as_json_value(held))
        return
    for line in about.lines():
        click.echo(line)
    click.echo(common.shown(f"ours: {setting.ours.name}; peers: {', '.join(map(_name, held.peers))}"))
    click.echo(f"Greedy, decode only, in turns; cache_prompt {str(setting.cache_prompt).lower()}. Speed-ups over our "
               "own plain decoding of the same round\n")  # fmt: skip
    _print_table(held)
    for line in _sentences(held):
        click.echo(common.shown(line))


def _print_table(held: "Contest") -> None:
    from localspec.bench.contest import OURS, PLAIN
    from localspec.cli.output import print_table

    ways = [OURS, *held.peers]
    headings = ("category", *(_name(way) for way in ways), "ours / best", "best setting")
    rows = []
    for category in held.categories:
        against = held.against_best(category)
        speedups = (number(held.category_ratio(way, PLAIN, category), ".2f", "x") for way in ways)
        rows.append((category, *speedups, number(against.ratio if against else None), _chosen(against)))
    means = (number(held.overall(way, PLAIN), ".2f", "x") for way in ways)
    rows.append(("geometric mean", *means, number(held.mean_against_best()), ""))
    shares = (number(held.accepted_share(way), ".0%") for way in ways)
    rows.append(("accepted of proposed", *shares, "", ""))
    print_table(headings, rows, right=headings[1:-1])


def _sentences(held: "Contest") -> list[str]:
    lines = []
    single = held.against_best_single()
    if single is not None:
        lines.append(f"\nAgainst the best single setting ({_chosen(single)}): {single.ratio:.2f} times as fast, "
                     "geometric mean over the categories.")  # fmt: skip
    else:
        lines.append("\nToo little was measured to choose a best setting on other rounds than those compared.")
    for peer in held.peers:
        same, compared = held.same_text(peer)
        if same < compared:
            lines.append(f"{_name(peer)}: {compared - same} of {compared} texts part from ours at some token (another "
                         "build, or a pass of another width, rounds otherwise).")  # fmt: skip
    return lines


def _name(way: str) -> str:
    return way.removeprefix("@")


def _chosen(verdict: "Verdict | None") -> str:
    if verdict is None:
        return MISSING
    return " or ".join(dict.fromkeys(_name(one) for one in verdict.chosen))
