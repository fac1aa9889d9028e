"""`localspec models check`: what is right and wrong with model files and with a pair of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from localspec import paths
from localspec.cli.errors import FAILED
from localspec.cli.output import print_json, progress_bars
from localspec.cli.terminal import one_line
from localspec.models import catalog, store
from localspec.models import settings as model_settings
from localspec.models.errors import ModelError
from localspec.models.partial import hash_file, human
from localspec.models.progress import Job, Meter, Moved, PullEvent


@dataclass
class Finding:
    """One file's findings: `good` sentences, and `bad` ones with the next step."""

    path: Path
    good: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


def check_specs(specs: Sequence[str], *, with_hash: bool, as_json: bool) -> int:
    """Check each file and, when there are two, whether they are a pair. Answers the exit code."""
    found = _paths_of(specs[0]) if len(specs) == 1 else [_target_of(spec) for spec in specs]
    findings = [_check_file(path, with_hash) for path in found]
    pair = _check_pair(findings) if len(findings) == 2 and not any(one.bad for one in findings) else None
    if as_json:
        print_json({"files": [asdict(one) for one in findings], "pair": pair})
    else:
        for one in findings:
            click.echo(one_line(str(one.path)))
            for sentence in one.good:
                click.echo(f"  ok     {one_line(sentence)}")
            for sentence in one.bad:
                click.echo(f"  WRONG  {one_line(sentence)}")
        if pair:
            click.echo(one_line(f"{'a pair' if pair['compatible'] else 'NO PAIR'}: {pair['reason']}"))
            if pair["note"]:
                click.echo(f"  note: {one_line(pair['note'])}")
    return FAILED if any(one.bad for one in findings) or (pair and not pair["compatible"]) else 0


def _paths_of(spec: str) -> list[Path]:
    """The files that `spec` means, whether they are sound or not."""
    known = catalog.load()
    if pair := known.pairs.get(spec):
        files = known.files_of(pair)
        missing = [file.key for file in files if store.find(file) is None]
        if missing:
            raise ModelError(f"{' and '.join(missing)} not on this disk: fetch with `localspec models pull {spec}`")
        return [path for file in files if (path := store.find(file))]
    return [store.locate(spec, model_settings.load())]


def _target_of(spec: str) -> Path:
    pair = catalog.load().pairs.get(spec)
    return store.locate(pair.target if pair else spec, model_settings.load())


def _check_file(path: Path, with_hash: bool) -> Finding:
    from localspec.models.gguf_split import read_model

    finding = Finding(path)
    try:
        header = read_model(path)
    except ModelError as error:
        finding.bad.append(str(error))
        return finding
    name = f" {header.name}" if header.name else ""
    finding.good.append(
        f"header: {header.architecture}{name}, {header.quantisation or 'mixed'}, {header.block_count} layers, "
        f"{header.vocab_size:,} tokens, context {header.context_length:,}"
    )
    finding.good.append(f"{len(header.tensors)} tensors within {human(header.file_bytes)}")
    expected = _expected_hash(path, header.file_bytes)
    if with_hash and expected:
        hashed = _hash(path)
        if hashed == expected:
            finding.good.append(f"sha256 {hashed}")
        else:
            finding.bad.append(f"sha256 {hashed} instead of {expected}: remove the file and fetch it again")
    elif with_hash:
        finding.good.append(f"sha256 {_hash(path)} (nothing to compare it with)")
    return finding


def _expected_hash(path: Path, size: int) -> str | None:
    """The sha256 that the menu or the note of the download has for this file."""
    for file in catalog.load().files.values():
        if file.sha256 and (store.find(file) == path or (file.name == path.name and file.size == size)):
            return file.sha256
    return store.fetched_hash(path)


def _hash(path: Path) -> str:
    with progress_bars() as bars:
        task = bars.add_task(one_line(f"reading {path.name}"), total=path.stat().st_size)

        def show(event: PullEvent) -> None:
            if isinstance(event, Moved):
                bars.update(task, completed=event.done)

        job = Job(show)
        return hash_file(path, job, Meter(job, "", path.name, "disk", path.stat().st_size))


def _check_pair(findings: list[Finding]) -> dict[str, Any]:
    from localspec.models.pairs import check_pair

    target, draft = (one.path for one in findings)
    return asdict(check_pair(target, draft, paths.cache_dir()))
