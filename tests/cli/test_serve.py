"""`localspec serve` as a process, with the real engine on a tiny model; and what it refuses before it loads one."""

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from tests.cli.processes import DEADLINE_S, POSIX_SIGNALS, ROOT, Start, until
from tests.cli.streams import CommandLine, failed

HELLO: list[Any] = [{"role": "user", "content": "abc"}]


class Served:
    """A server's process, and where it listens."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        self.said: list[str] = []
        for line in process.stdout:
            self.said.append(line)
            if line.startswith("Ctrl+C"):
                break
        found = re.search(r"listening +(http://\S+)", "".join(self.said))
        assert found, process.communicate()[1]
        self.url = found[1]

    def client(self, key: str = "any") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str, float]:
        """Exit code, what it said on stderr, and the seconds it took."""
        begun = time.monotonic()
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, err, time.monotonic() - begun


Serve = Callable[..., Served]


@pytest.fixture
def serve(start: Start, long_model: Path) -> Serve:
    def serve(*arguments: str, **environment: str) -> Served:
        command = ["serve", "--target", str(long_model), "--threads", "1", "--port", "0", *arguments]
        return Served(start("localspec", *command, environment=environment, text=True))

    return serve


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "localspec", "run", *arguments], cwd=ROOT, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@POSIX_SIGNALS
def test_editors_and_commands_use_one_engine(serve: Serve, long_model: Path, home: Path) -> None:
    server = serve("--ctx", "512")
    (file,) = (home / "state" / "engines").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    answer = server.client().chat.completions.create(model="x", messages=HELLO, temperature=0, max_tokens=8, seed=1)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    stream = server.client().chat.completions.create(
        model="x", messages=HELLO, temperature=0, max_tokens=8, seed=1, stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == answer.choices[0].message.content
    options = ["--target", str(long_model), "--temp", "0", "--max-tokens", "8", "--threads", "1", "abc"]
    shared, own = (
        run("--json", "--no-history", *options),
        run("--json", "--no-history", "--no-server", "--ctx", "512", *options),
    )
    texts = [json.loads(done.stdout.splitlines()[-1])["text"] for done in (shared, own)]
    assert texts == [text, text]
    code, err, _ = server.end()
    assert code == 0
    assert len(re.findall("POST /v1/chat/completions 200", err)) == 2
    assert len(re.findall("POST /localspec/generate 200", err)) == 1
    assert not file.exists()


@POSIX_SIGNALS
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_in_the_middle_of_an_answer_and_leaves_nothing(serve: Serve, home: Path, how: signal.Signals) -> None:
    server = serve("--ctx", "30000")
    children = psutil.Process(server.process.pid).children(recursive=True)
    assert children
    stream = server.client().chat.completions.create(model="x", messages=HELLO, stream=True, logit_bias={"2": -100})
    next(iter(stream))
    code, err, _ = server.end(how)
    assert code == 0
    assert "Traceback" not in err
    with pytest.raises((openai.APIError, Exception), match=r"ending|closed|peer"):
        for _ in stream:
            pass
    gone, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert (len(gone), alive) == (len(children), [])
    assert list((home / "state" / "engines").iterdir()) == []


@POSIX_SIGNALS
def test_an_interrupt_of_a_command_stops_its_answer_and_not_the_server(
    serve: Serve, start: Start, long_model: Path
) -> None:
    """S4, with the engine in another process."""
    server = serve("--ctx", "30000")
    command = start(
        "localspec", "run", "--target", str(long_model), "--threads", "1", "--no-history", "--temp", "0", "ab"
    )
    assert command.stdout is not None
    first = command.stdout.read(1)
    command.send_signal(signal.SIGINT)
    rest, err = command.communicate(timeout=DEADLINE_S)
    assert command.returncode == 130
    assert first + rest
    assert err.endswith(b"interrupted: the answer is not complete\n")
    answer = server.client().chat.completions.create(model="x", messages=HELLO, max_tokens=2)
    assert answer.choices
    _, log, _ = server.end()
    assert "POST /localspec/generate 200" in log


@POSIX_SIGNALS
def test_a_killed_server_leaves_no_engine_and_is_not_found(serve: Serve, long_model: Path, home: Path) -> None:
    server = serve("--ctx", "512")
    children = psutil.Process(server.process.pid).children(recursive=True)
    server.process.kill()
    server.process.wait()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert alive == []
    done = run("--target", str(long_model), "--max-tokens", "2", "--no-history", "--threads", "1", "abc")
    assert (done.returncode, bool(done.stdout)) == (0, True)
    assert list((home / "state" / "engines").iterdir()) == []


@POSIX_SIGNALS
def test_the_token_is_needed_and_seen_nowhere(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    server = serve("--token-file", str(file), LOCALSPEC_SERVE_TOKEN="0ther")
    for wrong in ("any", "0ther"):
        with pytest.raises(openai.AuthenticationError):
            server.client(wrong).models.list()
    assert server.client("s3cret").models.list().data[0].owned_by == "localspec"
    (child,) = psutil.Process(server.process.pid).children()
    assert "LOCALSPEC_SERVE_TOKEN" not in child.environ()
    assert "s3cret" not in " ".join(psutil.Process(server.process.pid).cmdline())
    _, err, _ = server.end()
    assert "s3cret" not in err + "".join(server.said)


@POSIX_SIGNALS
def test_an_engine_that_is_killed_comes_back_once(serve: Serve) -> None:
    server = serve("--ctx", "512")
    (child,) = psutil.Process(server.process.pid).children()
    child.kill()
    child.wait(DEADLINE_S)

    def answered() -> bool:
        try:
            return bool(server.client().chat.completions.create(model="x", messages=HELLO, max_tokens=2).choices)
        except openai.InternalServerError:
            return False

    assert not answered()
    until(answered, "the engine was loaded again")


class TestRefusals:
    def test_no_other_machine_without_a_token(self, cli: CommandLine, model: Path) -> None:
        for host in ("0.0.0.0", "::", "192.168.0.1", "example.com"):
            failed(cli.run("serve", "--target", str(model), "--host", host), host, "--token-file")
        assert cli.engines == []

    def test_a_port_that_is_taken(self, cli: CommandLine, model: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            failed(cli.run("serve", "--target", str(model), "--port", port), port, "--port 0")
        assert cli.engines == []

    @pytest.mark.parametrize("origin", ["*", "http://page/", "page", "http://*.page", "null"])
    def test_an_origin_that_would_never_match_or_always(self, cli: CommandLine, model: Path, origin: str) -> None:
        failed(cli.run("serve", "--target", str(model), "--cors", origin), "--cors", origin)
        assert cli.engines == []

    @pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"\xff", "é".encode()])
    def test_a_token_that_is_none(self, cli: CommandLine, model: Path, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "token"
        file.write_bytes(content)
        failed(cli.run("serve", "--target", str(model), "--token-file", str(file)), "token")

    def test_a_token_file_that_is_not_there(self, cli: CommandLine, model: Path, tmp_path: Path) -> None:
        failed(cli.run("serve", "--target", str(model), "--token-file", str(tmp_path / "none")), "No such file")


def test_help_loads_no_server() -> None:
    code = (
        "import sys; from localspec.cli.main import main\n"
        "import localspec.cli.serve, localspec.cli.session\n"
        "try: main(['serve', '--help'])\n"
        "except SystemExit: pass\n"
        "print('loaded:', sorted({'starlette', 'uvicorn', 'anyio', 'asyncio', 'http.client'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")
