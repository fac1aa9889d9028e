"""Starts llama-server once for every setting worth comparing with, and runs `localspec bench --peer` against them all.

    python -m tests.tools.peers --server PATH/llama-server --target TARGET.gguf --draft DRAFT.gguf

The servers listen on free ports of this machine only, stay idle while others answer, and end with this program. All are
given what our engine has: threads, flash attention, context. What follows `--` goes to `localspec bench` as it is.
"""

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2

from localspec.engine import waiting
from localspec.engine.waiting import SPIN_COUNT, WAIT_POLICY

OURS = "ours"

READY_S = 300.0
"""A target of several GB on a slow disk, and servers that load at the same time."""

DRAFT = "DRAFT"
"""Stands for the draft's file in `SETTINGS`."""

SETTINGS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "draft-3": ("-md", DRAFT, "--spec-type", "draft-simple", "--spec-draft-n-max", "3"),
    "ngram-simple": ("--spec-type", "ngram-simple"),
    "ngram-4-15": (
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "15",
    ),
    "ngram-mod": ("--spec-type", "ngram-mod"),
    "ngram+draft": (
        "-md", DRAFT, "--spec-type", "ngram-simple,draft-simple", "--spec-ngram-simple-size-n", "4",
        "--spec-ngram-simple-size-m", "15", "--spec-draft-n-max", "3",
    ),
}  # fmt: skip
"""A server's settings by name: as shipped where a flag says nothing else."""

FLASH_ATTN = ("on", "off", "auto")

REMEMBERS = ("ngram-mod",)
"""Settings that keep what earlier answers said: in a second round they would know the answer. Each round gets a server
of its own."""


@dataclass(frozen=True)
class Machine:
    """What all servers are given."""

    server: str
    target: str
    draft: str | None
    threads: int
    context: int
    flash_attn: str

    def command(self, setting: str, port: int) -> list[str]:
        name, flash_attn = split(setting)
        flags = [self.draft or "" if flag == DRAFT else flag for flag in SETTINGS[name]]
        threads, flash_attn = str(self.threads), flash_attn or self.flash_attn
        return [
            self.server, "-m", self.target, "--host", "127.0.0.1", "--port", str(port), "-t", threads, "-tb", threads,
            "-c", str(self.context), "-np", "1", "-fa", flash_attn, "--fit", "off", "--cache-ram", "0",
            "--no-webui", *flags,
        ]  # fmt: skip


def split(setting: str) -> tuple[str, str]:
    """A setting's name and its own flash attention, "" for that of all. Raises SystemExit for what is none."""
    name, _, flash_attn = setting.partition(":")
    if name not in SETTINGS or flash_attn not in ("", *FLASH_ATTN):
        raise SystemExit(f"no such setting: {setting}; there are {', '.join(SETTINGS)}")
    return name, flash_attn


def settings(names: Sequence[str], draft: str | None) -> list[str]:
    """Those of `names` that can be started: without a draft none that needs one."""
    return [setting for setting in names if DRAFT not in SETTINGS[split(setting)[0]] or draft]


def counts(names: Sequence[str], repeats: int) -> dict[str, int]:
    """How many servers each setting needs."""
    return {name: repeats if split(name)[0] in REMEMBERS else 1 for name in names}


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(wait_policy: str) -> dict[str, str]:
    """How OpenMP's threads wait: as our engine's do, or as said; spinning ones (active, the library's default) may
    lose a hundredfold when others want the processor."""
    chosen = {name: value for name, value in os.environ.items() if name not in (WAIT_POLICY, SPIN_COUNT)}
    if wait_policy == OURS:
        waiting.choose(chosen)
    else:
        chosen[WAIT_POLICY] = wait_policy
    return chosen


def start(command: Sequence[str], log: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A server in a session of its own, so that Ctrl+C reaches it through this program alone."""
    with log.open("wb") as out:
        out.write(f"{shlex.join(command)}\n".encode())
        out.flush()
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=variables,
            start_new_session=os.name != "nt",
        )  # fmt: skip


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path, deadline: float) -> None:
    """Until `/health` says ok. Raises SystemExit with the server's last words when it ends or takes too long."""
    with httpx2.Client(trust_env=False, timeout=5) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            try:
                if client.get(f"{url}/health").status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(0.1)
    last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise SystemExit(f"the server at {url} did not start:\n{last}")


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def peer_options(urls: dict[str, list[str]]) -> list[str]:
    """`--peer` for every setting."""
    return [part for name, places in urls.items() for part in ("--peer", f"{name}={','.join(places)}")]


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    own, _, rest = " ".join(map(shlex.quote, arguments)).partition(" -- ")
    parser = argparse.ArgumentParser(prog="python -m tests.tools.peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--server", required=True, help="llama-server's program")
    parser.add_argument("--target", required=True, help="the target's file")
    parser.add_argument("--draft", help="the draft's file; without it the settings that draft are left out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--flash-attn", choices=FLASH_ATTN, default="off", help="of both sides")
    parser.add_argument("--wait-policy", choices=(OURS, "passive", "active"), default=OURS, help="of OpenMP's threads")
    parser.add_argument("--repeats", type=int, default=5)
    told = "settings, between commas; plain:on has flash attention, plain:off none  [%(default)s]"
    parser.add_argument("--only", default=",".join(SETTINGS), help=told)
    parser.add_argument("--dry-run", action="store_true", help="print the commands and start nothing")
    return parser.parse_args(shlex.split(own)), shlex.split(rest)


def main(arguments: Sequence[str] | None = None) -> int:
    options, rest = parse(sys.argv[1:] if arguments is None else arguments)
    names = settings(options.only.split(","), options.draft)
    machine = Machine(
        options.server, options.target, options.draft, options.threads, options.context, options.flash_attn
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        logs = Path(tempfile.mkdtemp(prefix="localspec-peers-"))
        urls: dict[str, list[str]] = {name: [] for name in names}
        started = []
        # Chosen once, and for our engine too: the servers that start keep the machine busy for those that follow.
        chosen = environment(options.wait_policy)
        for name, count in counts(names, options.repeats).items():
            for number in range(count):
                port = free_port()
                command = machine.command(name, port)
                urls[name].append(f"http://127.0.0.1:{port}")
                if options.dry_run:
                    print(shlex.join(command))
                    continue
                log = logs / f"{name}-{number}.log"
                process = start(command, log, chosen)
                stack.callback(end, process)
                started.append((process, urls[name][-1], log))
        bench = [
            sys.executable, "-m", "localspec", "bench", "--target", options.target,
            *(("--draft", options.draft) if options.draft else ()), "--threads", str(options.threads),
            "--ctx", str(options.context), "--flash-attn", options.flash_attn, "--repeats", str(options.repeats),
            *peer_options(urls), *rest,
        ]  # fmt: skip
        if options.dry_run:
            print(shlex.join(bench))
            return 0
        deadline = time.monotonic() + READY_S
        for process, url, log in started:
            wait_until_ready(process, url, log, deadline)
        turns = chosen.get(SPIN_COUNT, "as many as the library likes")
        print(f"{len(started)} servers are ready; their logs are in {logs}", file=sys.stderr)
        print(f"threads wait awake for {turns} turns, then {chosen[WAIT_POLICY]}", file=sys.stderr)
        # Ctrl+C is the measurement's: it prints what it has. A handler, unlike an ignored signal, is not passed on.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            return subprocess.run(bench, env=chosen, check=False).returncode
        finally:
            signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
