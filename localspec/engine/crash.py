"""What ended the engine's process, in words."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from localspec.engine import advice

_POSIX = {
    "SIGILL": "illegal instruction, one this processor does not have or the compiler got wrong",
    "SIGKILL": "killed from outside, usually because memory ran out; try a smaller model or context",
    "SIGABRT": "a failed assertion inside llama.cpp",
    "SIGSEGV": "segmentation fault, a wrong memory access in native code",
    "SIGBUS": "a mapped file could not be read; did the model file change, or its disk go away?",
    "SIGFPE": "an arithmetic fault in native code",
    "SIGTERM": "told to end from outside",
    "SIGHUP": "told to end from outside",
    "SIGXCPU": "the processor time limit was reached",
    "SIGSYS": "a system call is forbidden here (sandbox)",
}

ILLEGAL_INSTRUCTION = 0xC000001D

_WINDOWS = {
    ILLEGAL_INSTRUCTION: ("STATUS_ILLEGAL_INSTRUCTION", _POSIX["SIGILL"]),
    0xC0000005: ("STATUS_ACCESS_VIOLATION", _POSIX["SIGSEGV"]),
    0xC0000006: ("STATUS_IN_PAGE_ERROR", _POSIX["SIGBUS"]),
    0xC0000017: ("STATUS_NO_MEMORY", "memory ran out; try a smaller model or context"),
    0xC000012D: ("STATUS_COMMITMENT_LIMIT", "memory ran out; try a smaller model or context"),
    0xC00000FD: ("STATUS_STACK_OVERFLOW", "the stack overflowed in native code"),
    0xC0000135: ("STATUS_DLL_NOT_FOUND", "a library that llama.cpp needs is missing"),
    0xC0000142: ("STATUS_DLL_INIT_FAILED", "a library that llama.cpp needs did not start"),
    0xC000013A: ("STATUS_CONTROL_C_EXIT", "told to end from outside"),
    0xC0000409: ("STATUS_STACK_BUFFER_OVERRUN", _POSIX["SIGABRT"]),
    0xC0000374: ("STATUS_HEAP_CORRUPTION", "damaged memory in native code"),
}


def is_illegal_instruction(returncode: int) -> bool:
    """Whether a process that ended with this code met an illegal instruction. `returncode` is `Popen`'s: minus the
    signal on POSIX, an NTSTATUS (signed or not) on Windows."""
    if returncode & 0xFFFFFFFF == ILLEGAL_INSTRUCTION:
        return True
    return sys.platform != "win32" and returncode == -signal.SIGILL


def cause(returncode: int) -> str:
    """Names what ended a process, for example `SIGKILL: killed from outside, ...`."""
    windows = _WINDOWS.get(returncode & 0xFFFFFFFF)
    if windows:
        name, words = windows
        return f"{name}: {words}"
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            return f"signal {-returncode}"
        words = _POSIX.get(name, "ended by this signal")
        return f"{name}: {words}"
    return f"exit status {returncode}"


def native_lines(log: str, count: int = 4) -> list[str]:
    """The last lines native code wrote before the end, oldest first: what Python's fault handler added is left out,
    control characters are replaced, long lines are cut."""
    native = log.split("Fatal Python error:", 1)[0].split("Windows fatal exception:", 1)[0]
    lines = [line.strip() for line in native.splitlines() if line.strip()]
    clean = ("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line) for line in lines[-count:])
    return [line if len(line) <= 200 else f"{line[:199]}…" for line in clean]


def death(why: str, when: str, lines: Sequence[str], log: Path) -> str:
    """One line for the person: what ended the engine `when` ("while loading"), its last words, where the rest is."""
    words = f"The engine's process died {when} ({why})."
    if lines:
        words += f" Its last lines: {' | '.join(lines)}."
    return f"{words} The whole log: {log}"


def wrong_build(returncode: int, when: str) -> str:
    """For a build that meets an illegal instruction with the safest settings too."""
    return (
        f"The engine's process died {when} ({cause(returncode)}), with the safest settings too: llama.cpp was built "
        f"for another processor. Build it for this one: {advice.rebuild_command()}"
    )


def safer_settings() -> str:
    """The notice while the repacked kernels stay off."""
    return (
        "This build of llama.cpp dies of an illegal instruction on this processor, so its repacked kernels stay off: "
        f"it is slower than it could be. A rebuild cures it: {advice.rebuild_command()}"
    )
