"""`localspec models check`: what is right and wrong with model files and with a pair of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from localspec import paths
from localspec.cli.errors import FAILED
from localspec.cli.models_progress import Spoken
from localspec.cli.output import print_json, progress_bars
from localspec.cli.terminal import one_line
from localspec.models import catalog, selfdraft, store
from localspec.models import settings as model_settings
from localspec.models.errors import ModelError, plain
from localspec.models.fit import Fit, fit
from localspec.models.gguf import Header
from localspec.models.hardware import read_machine
from localspec.models.heads import describe
from localspec.models.partial import hash_file, human
from localspec.models.progress import Job, Meter, Moved, PullEvent
from localspec.models.rows import CONTEXT


@dataclass
class Finding:
    """One file's findings: `good` sentences, `notes` on what is of no use, and `bad` ones with the next step. `header`
    None: it cannot be read."""

    path: Path
    good: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    header: Header | None = None


def check_specs(specs: Sequence[str], *, with_hash: bool, as_json: bool) -> int:
    """Check each file and, when there are two, whether they are a pair. Answers the exit code."""
    findings = (
        _of_spec(specs[0], with_hash) if len(specs) == 1
        else [_check_file(path, with_hash) for path in [_target_of(spec) for spec in specs]]
    )  # fmt: skip
    sound = not any(one.bad for one in findings)
    pair = _check_pair(findings) if len(findings) == 2 and sound else None
    fitting = _fit(findings) if sound and (len(findings) == 1 or (pair and pair["compatible"])) else None
    if as_json:
        files = [{
            "path": one.path, "good": one.good, "notes": one.notes, "bad": one.bad,
            "mtp_heads": one.header.mtp_heads if one.header else None,
        } for one in findings]  # fmt: skip
        print_json({"files": files, "pair": pair, "fit": fitting and asdict(fitting)})
    else:
        for one in findings:
            click.echo(one_line(str(one.path)))
            for sentence in one.good:
                click.echo(f"  ok     {one_line(sentence)}")
            for sentence in one.notes:
                click.echo(f"  note   {one_line(sentence)}")
            for sentence in one.bad:
                click.echo(f"  WRONG  {one_line(sentence)}")
        if pair:
            verdict = "a pair" if pair["compatible"] else f"NO PAIR (rule: {pair['rule']})"
            click.echo(one_line(f"{verdict}: {pair['reason']}"))
            if pair["note"]:
                click.echo(f"  note: {one_line(pair['note'])}")
        if fitting:
            click.echo(one_line(_fit_in_words(fitting, _context(findings))))
    return 0 if sound and (pair is None or pair["compatible"]) else FAILED


def _of_spec(spec: str, with_hash: bool) -> list[Finding]:
    """The files that `spec` means, whether they are sound or not; of a pair also the one that is not here."""
    pair = catalog.load().pairs.get(spec)
    if pair is None:
        return [_check_file(store.locate(spec, model_settings.load()), with_hash)]
    files = catalog.load().files_of(pair)
    if all(store.find(file) is None for file in files):
        keys = " and ".join(file.key for file in files)
        raise ModelError(f"{keys} not on this disk: fetch with `localspec models pull {spec}`")
    return [
        _check_file(path, with_hash) if (path := store.find(file))
        else Finding(store.place(file), bad=[f"not on this disk: fetch it with `localspec models pull {spec}`"])
        for file in files
    ]  # fmt: skip


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
    finding.header = header
    name = f" {header.name}" if header.name else ""
    layers = f"{header.block_count} layers"
    if header.has_encoder:
        layers = f"an encoder of {layers} and a decoder of {header.decoder_block_count}"
    finding.good.append(
        f"header: {header.architecture}{name}, {header.quantisation or 'mixed'}, {layers}, "
        f"{header.vocab_size:,} tokens, context {header.context_length:,}"
    )
    if heads := describe(header):
        (finding.good if header.mtp_heads else finding.notes).append(heads)
    finding.good.append(f"{len(header.tensors)} tensors within {human(header.file_bytes)}")
    if (of := selfdraft.made_of(header)) is not None:
        finding.good.append(
            f"a draft made of the layers of {plain(of, 100)}: for --speculate self, no model to talk to"
        )
    elif (made := selfdraft.find(path)) is not None:
        worth = "not measured" if made.measured is None else "worth using" if made.measured.worth else "not worth using"
        finding.good.append(f"self-draft here: {made.kept} of {made.layers} layers, {human(made.size)}, {worth} here")
    expected = _expected_hash(path, header.file_bytes)
    if with_hash and expected:
        hashed = _hash(path)
        if hashed == expected:
            finding.good.append(f"sha256 {hashed}")
        else:
            finding.bad.append(f"sha256 {hashed} instead of {expected}: remove the file and fetch it again")
    elif with_hash:
        hashed = _hash(path)
        same = next((file.key for file in catalog.load().files.values() if file.sha256 == hashed), None)
        finding.good.append(f"sha256 {hashed} ({f'that of {same}' if same else 'nothing to compare it with'})")
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

        spoken = Spoken()

        def show(event: PullEvent) -> None:
            if isinstance(event, Moved) and bars.disable:
                spoken.at(event)
            elif isinstance(event, Moved):
                bars.update(task, completed=event.done)

        job = Job(show)
        return hash_file(path, job, Meter(job, "", path.name, "disk", path.stat().st_size))


def _check_pair(findings: list[Finding]) -> dict[str, Any]:
    from localspec.models.pairs import check_pair

    target, draft = (one.path for one in findings)
    return asdict(check_pair(target, draft, paths.cache_dir()))


def _fit(findings: list[Finding]) -> Fit | None:
    """Whether the files fit this machine, target first."""
    headers = [one.header for one in findings if one.header is not None]
    if len(headers) != len(findings):
        return None
    draft = headers[1] if len(headers) > 1 else None
    return fit(headers[0], draft, _context(findings), "f16", read_machine(paths.cache_dir()))


def _context(findings: list[Finding]) -> int:
    """Tokens the verdict is for: the menu's, or what an encoder's text and answer take at most."""
    header = findings[0].header
    known = header.longest_sequence if header is not None and header.has_encoder else 0
    return min(CONTEXT, known or CONTEXT)


def _fit_in_words(found: Fit, context: int) -> str:
    verdict = {"fits": "fits", "tight": "only just fits", "no": "does not fit this machine"}[found.verdict]
    text = f"{verdict}: with {context:,} tokens of context it {found.sentence}"
    if found.largest_context:
        text += f"; the longest context that fits is {found.largest_context:,} tokens"
    if found.gpu_layers or found.draft_gpu_layers:
        text += f"; layers on the GPU: {found.gpu_layers} of the target"
        text += f", {found.draft_gpu_layers} of the draft" if found.draft else ""
    return text
