"""Verdicts about this build of the native library on this processor, remembered between runs.

One verdict exists: the build dies of an illegal instruction with the repacked kernels, and lives without them. It holds
for the pair of library build and processor it was seen on, and for no other: a rebuilt library starts fresh.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from localspec.engine.memo import Memo

FILE_NAME = "quirks.json"


def _native_files() -> Iterator[Path]:
    """The native library's files, found without importing the package (which would load them)."""
    override = os.environ.get("LLAMA_CPP_LIB_PATH")
    if override:
        folder = Path(override)
    else:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or spec.origin is None:
            return
        folder = Path(spec.origin).parent / "lib"
    for file in sorted(folder.glob("*")):
        if file.suffix in {".so", ".dylib", ".dll"}:
            yield file


def library_key() -> str:
    """Names the library build: its version, and a digest of its files' names, sizes and times."""
    try:
        version = importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    digest = hashlib.sha256()
    for file in _native_files():
        facts = file.stat()
        digest.update(f"{file.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return f"{version}-{digest.hexdigest()[:16]}"


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo."""
    fields: dict[str, str] = {}
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.strip():
                    break
                name, _, value = line.partition(":")
                fields[name.strip()] = value.strip()
    except OSError:
        return {}
    return fields


def _sysctl(name: str) -> str:
    try:
        done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def cpu_flags() -> frozenset[str]:
    """The instruction sets the processor names; empty where the system does not tell."""
    if sys.platform == "darwin":
        return frozenset(_sysctl("machdep.cpu.leaf7_features").lower().split())
    fields = _cpuinfo()
    return frozenset((fields.get("flags") or fields.get("Features") or "").split())


def cpu_key() -> str:
    """Names the processor: its model, and a digest of its instruction sets."""
    if sys.platform == "darwin":
        model = _sysctl("machdep.cpu.brand_string")
    else:
        model = _cpuinfo().get("model name", "")
    model = model or platform.processor() or platform.machine()
    digest = hashlib.sha256(" ".join(sorted(cpu_flags())).encode())
    return f"{model}-{digest.hexdigest()[:16]}"


def _key() -> str:
    return f"{library_key()} on {cpu_key()}"


def needs_plain_buffers(state_dir: Path) -> bool:
    """Whether this build was seen to die with the repacked kernels on this processor, and to live without."""
    file = state_dir / FILE_NAME
    if not file.exists():
        return False
    verdict = Memo(file).get(_key())
    return isinstance(verdict, dict) and verdict.get("extra_bufts") is False


def remember_plain_buffers(state_dir: Path) -> None:
    """Stores that verdict; when it cannot be written, it will be found again."""
    Memo(state_dir / FILE_NAME).put(_key(), {"extra_bufts": False})
