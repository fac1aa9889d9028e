"""A program that uses the engine and is killed meanwhile: `parent.py MODE PROMPT`. Prints the engine's process id, and
`ready` once the engine is where the test wants it: loading, or past the events before PROMPT blocks."""

import sys
from pathlib import Path

from localspec.engine.client import EngineClient
from localspec.engine.events import Prefill, Token
from localspec.engine.requests import EngineConfig, Request, Segment

mode, prompt = sys.argv[1:]
command = [sys.executable, "-P", str(Path(__file__).with_name("fake.py")), mode]
client = EngineClient(EngineConfig("t.gguf"), host_command=command)


def say(word: str) -> None:
    print(client.pid, word, flush=True)


client.start(lambda fraction: say("ready") if mode == "load-forever" else None)
for event in client.generate(Request((Segment(prompt),))):
    if isinstance(event, Token) or (isinstance(event, Prefill) and prompt in {"prefill", "native"}):
        say("ready")
