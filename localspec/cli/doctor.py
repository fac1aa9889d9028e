"""`localspec doctor`: what is installed, what the native library says of itself, which models are here, what blocks."""

import importlib.metadata
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from localspec import __version__, paths
from localspec.cli.terminal import one_line, visible

PACKAGES = ("llama-cpp-python", "numpy", "textual", "huggingface-hub", "click", "rich", "jinja2")
PROBE = "from localspec.engine.llama import start_library; print(start_library())"
PROBE_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `blocks`: nothing can be answered until it is cured."""

    state: Literal["ok", "note", "blocks"]
    what: str
    text: str


@click.command()
def doctor() -> int:
    """Check what this installation needs. Exit code 1 when something blocks, and what to do about it."""
    findings = [*_versions(), _library(), *_directories(), *_models()]
    width = max(len(finding.what) for finding in findings)
    signs = {"ok": "ok     ", "note": "note   ", "blocks": "BLOCKS "}
    for finding in findings:
        click.echo(signs[finding.state] + visible(f"{finding.what.ljust(width)}  {one_line(finding.text)}"))
    return 1 if any(finding.state == "blocks" for finding in findings) else 0


def _versions() -> list[Finding]:
    from localspec.engine.advice import install_command

    findings = [
        Finding("ok", "localspec", __version__),
        Finding("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
    ]
    for name in PACKAGES:
        try:
            findings.append(Finding("ok", name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            command = install_command() if name == "llama-cpp-python" else f"python -m pip install {name}"
            findings.append(Finding("blocks", name, f"is not installed: {command}"))
    return findings


def _library() -> Finding:
    """The native library, asked in a process of its own: importing it may be what kills."""
    from localspec.engine import crash

    what = "llama.cpp"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", PROBE], capture_output=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding("blocks", what, f"does not answer within {PROBE_TIMEOUT_S} s")
    except OSError as error:
        return Finding("blocks", what, f"cannot be asked: {error.strerror or error}")
    if done.returncode == 0:
        return Finding("ok", what, done.stdout.decode("utf-8", "replace").strip())
    if crash.is_illegal_instruction(done.returncode):
        return Finding("blocks", what, crash.wrong_build(done.returncode, "while starting"))
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    return Finding("blocks", what, f"cannot be started: {last[0] if last else f'exit code {done.returncode}'}")


def _directories() -> list[Finding]:
    places = {
        "config": paths.config_dir(),
        "data": paths.data_dir(),
        "state": paths.state_dir(),
        "cache": paths.cache_dir(),
    }
    return [_writable(name, place) for name, place in places.items()]


def _writable(name: str, place: Path) -> Finding:
    """Whether files can be made there: tried with one that leaves no trace, in the nearest folder that exists."""
    ancestor = place
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    try:
        with tempfile.TemporaryFile(dir=ancestor):
            return Finding("ok", name, str(place))
    except OSError as error:
        reason = error.strerror or str(error)
    state: Literal["note", "blocks"] = "blocks" if name == "data" else "note"
    return Finding(state, name, f"{place} cannot be written ({reason}): set {paths.HOME_VARIABLE} to a folder that can")


def _models() -> list[Finding]:
    from localspec.models import catalog, store

    menu = catalog.load()
    findings = [Finding("note", "menu", str(problem)) for problem in menu.problems]
    here = {key: path for key, file in menu.files.items() if (path := store.find(file)) is not None and path.exists()}
    if here:
        heads = [Finding("ok", "MTP heads", f"{key} {words}") for key, path in here.items() if (words := _heads(path))]
        return [*findings, Finding("ok", "models here", ", ".join(here)), *heads]
    starter = menu.starter()
    hint = f"`localspec models pull {starter.key}` fetches the starter pair" if starter else "see `localspec models`"
    return [*findings, Finding("note", "models here", f"none yet: {hint}; `--target FILE` uses one of yours")]


def _heads(path: Path) -> str | None:
    """What the file's MTP heads are good for; None without any."""
    from localspec.models import heads

    header = heads.of_file(path)
    return heads.describe(header) if header else None
