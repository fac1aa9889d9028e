"""What code-assist gains on the starter pair: `python -m tests.real.assist_speed [RUNS]`.

Every answer is made plainly and with `auto`, in turns, in one engine: twelve small edits as `localspec edit` asks them,
and three extractions bounded by a JSON schema. Then a command beside a running `serve`: what it takes to the first
token beyond reading the prompt.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from localspec import paths
from localspec.assist import edit, edit_file
from localspec.bench.builtin import TASKS
from localspec.bench.paired import GREEDY, last_event
from localspec.engine.client import EngineClient
from localspec.engine.events import Stats
from localspec.engine.requests import EngineConfig, Request
from localspec.models import store
from tests.real.conftest import STARTER, prompt_for
from tests.real.edit_cases import CASES

TEXT = {"type": "string"}
ORDER = {
    "customer": TEXT,
    "items": {"type": "array", "items": {"type": "object", "properties": {
        "product": TEXT, "quantity": {"type": "number"}, "unit": TEXT}, "required": ["product", "quantity", "unit"]}},
    "deliver_on": {"type": ["string", "null"]},
    "address": {"type": ["string", "null"]},
    "notes": {"type": ["string", "null"]},
}  # fmt: skip
INCIDENT = {"time": TEXT, "pump": TEXT, "severity": {"enum": ["info", "warning", "alarm"]}, "what": TEXT, "done": TEXT}
NUMBER = {"type": ["number", "null"]}
READING = {"time": TEXT, "pump": TEXT, "pressure_bar": NUMBER, "flow_m3_h": NUMBER}
GUEST = {"guest": TEXT, "room": {"type": "integer"}, "nights": {"type": "integer"}, "breakfast": {"type": "boolean"}}


def rows(properties: dict[str, object]) -> dict[str, object]:
    """An array of such objects."""
    item = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "array", "items": item}


SCHEMAS = {
    "extract-orders": rows(ORDER),
    "extract-log": {
        "type": "object",
        "properties": {"incidents": rows(INCIDENT), "readings": rows(READING)},
        "required": ["incidents", "readings"],
    },
    "extraction-hotel": rows(GUEST),
}
LONGEST = 160


def compared(answer: Callable[[Request], Stats], request: Request, runs: int) -> tuple[float, Stats]:
    """The median ratio of decode speeds, and the figures of the last answer with `auto`."""
    from dataclasses import replace

    ratios = []
    for number in range(runs):
        speeds: dict[str, float] = {}
        for mode in ("off", "auto") if number % 2 == 0 else ("auto", "off"):
            stats = answer(replace(request, speculate=mode))
            speeds[mode] = stats.tokens_per_s or 0.0
            if mode == "auto":
                last = stats
        ratios.append(speeds["auto"] / speeds["off"])
    return median(ratios), last


def main(runs: int) -> None:
    pair = store.resolve(STARTER)
    # What a person's engine knows: the costs measured on this machine.
    config = EngineConfig(str(pair.target), str(pair.draft), context=4096, cache_dir=str(paths.cache_dir()))
    with EngineClient(config) as client:
        info = client.start()

        def answer(request: Request) -> Stats:
            return last_event(client.generate(request)).stats

        gains, cycles = [], []
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES:
                path = Path(folder) / case.name
                path.write_bytes(case.text.encode())
                budget = edit.Budget.of(info, client.count)
                (job,) = edit.plan(edit_file.read(path), case.instruction, case.lines, [], budget)
                gain, stats = compared(answer, job.request(Request(prompt=(), sampling=edit.SAMPLING)), runs)
                gains.append(gain)
                cycles.append(stats.tokens_per_cycle or 0.0)
                print(f"edit {case.name:16} {gain:.2f}x, {cycles[-1]:.2f} tokens a cycle, {stats.tokens} tokens")
        print(f"edits: median {median(gains):.2f}x, {median(cycles):.2f} tokens a cycle")
        gains = []
        for task in TASKS:
            if task.id in SCHEMAS:
                schema = json.dumps(SCHEMAS[task.id])
                request = Request(prompt_for(info, task.prompt), GREEDY, max_tokens=LONGEST, json_schema=schema)
                gain, stats = compared(answer, request, runs)
                gains.append(gain)
                print(f"schema {task.id:16} {gain:.2f}x, {stats.tokens_per_cycle:.2f} tokens a cycle")
        print(f"extraction with a schema: median {median(gains):.2f}x")
    beside_a_server(runs)


def beside_a_server(runs: int) -> None:
    """Time from the command to its first token, less what the engine says reading took."""
    serve = [sys.executable, "-m", "localspec", "serve", "--pair", STARTER, "--port", "8497", "--ctx", "4096"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "Ctrl+C" in line:
                break
        extra = []
        for number in range(runs + 1):
            begun = time.perf_counter()
            ask = [
                sys.executable,
                "-m",
                "localspec",
                "run",
                "--json",
                "--max-tokens",
                "4",
                f"Say hello, number {number}.",
            ]
            run = subprocess.Popen(ask, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert run.stdout is not None
            first: float | None = None
            for line in run.stdout:
                event = json.loads(line)
                if event["type"] == "token" and first is None:
                    first = time.perf_counter() - begun
                elif event["type"] == "end" and first is not None:
                    extra.append(first - event["stats"]["ttft_s"])
            run.wait()
        print("first token beyond reading, beside serve: " + ", ".join(f"{s:.2f} s" for s in extra))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
