"""The exact commands that install or rebuild the native library on this machine, for error messages and `doctor`."""

import importlib.metadata
import platform
import re
import shlex
import sys

from localspec.engine import quirks
from localspec.engine.errors import EngineError

PACKAGE = "llama-cpp-python"

AMX_FLAGS = "-DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'"
"""GCC removes the stores that fill the AMX tile configuration as dead; these two flags keep them."""


def _requirement() -> str:
    """The version of the library this program asks for, as pip spells it."""
    try:
        wanted = importlib.metadata.requires("localspec") or []
    except importlib.metadata.PackageNotFoundError:
        wanted = []
    for line in wanted:
        match = re.match(rf"{PACKAGE}\s*==\s*[\w.]+", line)
        if match:
            return match.group(0).replace(" ", "")
    return PACKAGE


def _with_variable(arguments: str, command: str) -> str:
    if sys.platform == "win32":
        return f'$env:CMAKE_ARGS="{arguments}"; {command}'
    return f'CMAKE_ARGS="{arguments}" {command}'


def _pip(*arguments: str) -> str:
    python = f'& "{sys.executable}"' if sys.platform == "win32" else shlex.quote(sys.executable)
    return f"{python} -m pip install {' '.join(arguments)}"


def build_arguments() -> str:
    """`CMAKE_ARGS` for this machine's processor: `-DGGML_NATIVE=on`, and more where a compiler fault wants it."""
    amx = sys.platform == "linux" and "amx_tile" in quirks.cpu_flags()
    return f"-DGGML_NATIVE=on {AMX_FLAGS}" if amx else "-DGGML_NATIVE=on"


def rebuild_command() -> str:
    """Builds the library again for this processor, whatever pip has in its caches (it ignores `CMAKE_ARGS` there)."""
    pip = _pip("--force-reinstall", "--no-deps", "--no-cache-dir", "--no-binary", PACKAGE, _requirement())
    return _with_variable(build_arguments(), pip)


def install_command() -> str:
    """Builds and installs the library: for Metal on a Mac with Apple's processor, for the CPU elsewhere."""
    metal = sys.platform == "darwin" and platform.machine() == "arm64"
    return _with_variable("-DGGML_METAL=on" if metal else build_arguments(), _pip("--no-cache-dir", _requirement()))


def _from_library(error: BaseException) -> bool:
    """Whether the native library or its bindings are missing or do not load, and not some other import."""
    if isinstance(error, ImportError) and (error.name or "").split(".")[0] == "llama_cpp":
        return True
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "load_shared_library":
            return True
        trace = trace.tb_next
    return False


def cannot_import(error: BaseException) -> EngineError | None:
    """The error to show instead of `error` when it means that llama_cpp is missing or does not load; else None."""
    if not _from_library(error):
        return None
    hint = "" if sys.platform == "darwin" else ' With an NVIDIA card: CMAKE_ARGS="-DGGML_CUDA=on".'
    cause = " ".join(str(error).split())
    return EngineError(
        f"llama.cpp cannot be loaded ({cause}). Install it with: {install_command()} "
        f"It needs a C++ compiler and takes about 10 minutes.{hint}"
    )
