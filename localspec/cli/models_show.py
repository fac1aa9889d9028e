"""How the menu, what a scan found, and proposed drafts are shown."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from localspec.cli.output import print_json, print_table
from localspec.cli.terminal import StatusLine, aside, one_line, say
from localspec.models.hardware import Machine
from localspec.models.heads import describe
from localspec.models.partial import human
from localspec.models.rows import FileState, Row
from localspec.models.selfdraft import SelfDraft
from localspec.models.toml_blocks import Problem

UNKNOWN = "–"


def list_as_table(
    rows: Sequence[Row],
    singles: Sequence[FileState],
    made: Sequence[SelfDraft],
    machine: Machine,
    problems: Sequence[Problem],
) -> None:
    """The menu for a person, on stdout."""
    del problems  # said on stderr by the caller
    headings = ("NAME", "HERE", "FITS", "SIZE", "PAIR", "MEASURED HERE", "LICENCE", "FOR")
    print_table(headings, [_line(row) for row in rows], right=("SIZE",), whole=("NAME", "SIZE"))
    if singles:
        click.echo("\nWithout a draft of their own (prompt lookup still helps):")
        lines = [(one.file.key, _here(one.state, [one]), _size(one.file.size), one.file.licence or UNKNOWN,
                  "; ".join(filter(None, (one.file.note, describe(one.header) if one.header else None))))
                 for one in singles]  # fmt: skip
        print_table(("NAME", "HERE", "SIZE", "LICENCE", "NOTE"), lines, right=("SIZE",), whole=("NAME", "SIZE"))
    if made:
        click.echo("\nDrafts made of a model's own layers (--speculate self):")
        print_table(
            ("MODEL", "KEPT", "SIZE", "GUESSES", "A TOKEN COSTS", "WORTH USING HERE"),
            [_self_draft(one) for one in made],
            right=("SIZE",), whole=("KEPT", "SIZE"),
        )  # fmt: skip
    click.echo()
    gpus = "".join(f", {gpu.description or gpu.name} with {human(gpu.total)}" for gpu in machine.gpus if not gpu.shared)
    click.echo(one_line(f"This machine: {human(machine.ram_free)} of {human(machine.ram_total)} memory free{gpus}."))
    click.echo("Fetch one with `localspec models pull NAME`.")


def list_as_json(
    rows: Sequence[Row],
    singles: Sequence[FileState],
    made: Sequence[SelfDraft],
    machine: Machine,
    problems: Sequence[Problem],
) -> None:
    """The menu for scripts: one JSON object."""
    print_json(
        {
            "pairs": [_row_data(row) for row in rows],
            "files": [_file_data(one) for one in singles],
            "self_drafts": [self_draft_data(one) for one in made],
            "machine": asdict(machine),
            "problems": [{**asdict(one), "text": str(one)} for one in problems],
        }
    )


def _line(row: Row) -> tuple[str, ...]:
    measured = ", ".join(f"{category} {speedup:.1f}x" for category, speedup in row.measured.items())
    return (
        row.pair.key,
        _here(row.state, row.files),
        row.fit.verdict if row.fit else UNKNOWN,
        _size(row.size),
        row.compatible,
        measured or UNKNOWN,
        " / ".join(dict.fromkeys(one.file.licence or UNKNOWN for one in row.files)),
        row.pair.purpose,
    )


def _here(state: str, files: Iterable[FileState]) -> str:
    if state == "here":
        return "yes"
    if state != "partly":
        return state if state == "target only" else "no"
    done = sum((one.file.size or 0) if one.path else one.partial for one in files)
    total = sum(one.file.size or 0 for one in files)
    return f"{done / total:.0%}" if total else "partly"


def _size(size: int | None) -> str:
    return human(size) if size is not None else UNKNOWN


def _row_data(row: Row) -> dict[str, Any]:
    return {
        **asdict(row.pair),
        "state": row.state,
        "size": row.size,
        "to_fetch": row.to_fetch,
        "fits": row.fit.verdict if row.fit else None,
        "fit": asdict(row.fit) if row.fit else None,
        "verdict": row.verdict,
        "compatibility": row.compatible,
        "measured": row.measured,
        "files": [_file_data(one) for one in row.files],
    }


def _file_data(one: FileState) -> dict[str, Any]:
    file = one.file
    return {
        "key": file.key, "name": file.name, "state": one.state, "path": one.path, "partial": one.partial,
        "size": file.size, "sha256": file.sha256, "licence": file.licence, "quantisation": file.quantisation,
        "architecture": file.architecture, "mtp_heads": one.header.mtp_heads if one.header else None,
    }  # fmt: skip


def _self_draft(one: SelfDraft) -> tuple[str, ...]:
    found = one.measured
    kept, size = f"{one.kept} of {one.layers} layers", human(one.size)
    if found is None:
        return one.target.name, kept, size, UNKNOWN, UNKNOWN, "not measured"
    worth = f"{'yes' if found.worth else 'no'}, {found.expected:.2f}x at best"
    return one.target.name, kept, size, f"{found.agreement:.0%}", f"{found.token_cost:.2f}", worth


def self_draft_data(one: SelfDraft) -> dict[str, Any]:
    """A draft made of a model's own layers, for scripts."""
    return {
        "target": one.target, "path": one.path, "size": one.size, "layers": one.layers, "kept": one.kept,
        "left_out": one.left_out, "measured": asdict(one.measured) if one.measured else None,
    }  # fmt: skip


def quoted(path: Path) -> str:
    """A path as a shell takes it."""
    return one_line(shlex.quote(str(path)))


def show_drafts(target: Path, *, quiet: bool = False) -> list[str]:
    """Say what could draft for `target`; the paths and names, best first."""
    from localspec.models import drafts
    from localspec.models import settings as model_settings

    found = drafts.propose(target, model_settings.load())
    if not quiet and found.here:
        say("drafts on this disk with the same vocabulary, best first:")
        for path in found.here:
            aside(f"- {path}")
    if not quiet and found.menu:
        say("drafts on the menu of the same family (`localspec models pull NAME`):")
        for file in found.menu:
            aside(f"- {file.key} ({_size(file.size)})")
    return [*map(str, found.here), *(file.key for file in found.menu)]


def show_scan(as_json: bool) -> None:
    """What other programs have on this disk."""
    from localspec import paths
    from localspec.models import settings as model_settings
    from localspec.models.scan import scan

    settings = model_settings.load()
    for problem in settings.problems:
        say(str(problem))
    status = StatusLine()
    status.show("looking into the model folders on this disk")
    found = scan(settings.folders, cache_dir=paths.cache_dir())
    pairs = found.pairs  # reads the vocabularies
    status.clear()
    if as_json:
        print_json(
            {
                "files": [
                    {"name": one.name, "program": one.program, "also": one.also, "path": one.path, "size": one.size,
                     "architecture": one.header.architecture, "quantisation": one.header.quantisation,
                     "mtp_heads": one.header.mtp_heads}
                    for one in found.files
                ],
                "pairs": [
                    {"target": one.target.path, "draft": one.draft.path, "share": one.share,
                     "reason": one.verdict.reason, "note": one.verdict.note}
                    for one in pairs
                ],
                "broken": [{"program": one.program, "path": one.path, "reason": one.reason} for one in found.broken],
                "left_out": found.left_out,
            }
        )  # fmt: skip
        return
    for one in found.files:
        programs = ", ".join((one.program, *one.also))
        click.echo(one_line(f"{programs}: {one.name} ({human(one.size)}, {one.header.quantisation or UNKNOWN})"))
        if heads := describe(one.header):
            click.echo(f"  {one_line(heads)}")
        click.echo(f"  {one_line(str(one.path))}")  # whole, to be copied: the terminal wraps it
    if not found.files:
        click.echo("No model files of other programs on this disk; `models.folders` in the settings names more places.")
    for pair in pairs:
        click.echo(one_line(f"pair: {pair.target.name} with draft {pair.draft.name} ({pair.share:.0%} of its size)"))
        click.echo(f"  localspec models add NAME --target {quoted(pair.target.path)} --draft {quoted(pair.draft.path)}")
    for broken in found.broken:
        say(broken.reason)
    if found.left_out:
        aside(f"{found.left_out} further files are no language models (projectors, adapters, embeddings)")
