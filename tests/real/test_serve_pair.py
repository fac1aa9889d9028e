"""`localspec serve` on the starter pair, with the official client and as llama.vim asks."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.test_serve import Served
from tests.real.conftest import STARTER, Pair
from tests.real.test_run_pair import ROOT, run

pytestmark = pytest.mark.real

CODE = """\
def add(a, b):
    return a + b


def sub(a, b):
    return a - b
"""


@pytest.fixture
def server(starter_on_menu: Pair) -> Iterator[Served]:
    process = subprocess.Popen(
        [sys.executable, "-m", "localspec", "serve", "--pair", STARTER, "--port", "0", "--temp", "0", "--ctx", "2048"],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    served = Served(process)
    yield served
    served.end()


def ask(server: Served, path: str, body: Any) -> Any:
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=500) as reply:
        return json.load(reply)


def test_the_official_client_editors_and_the_command_line(server: Served) -> None:
    client = server.client()
    messages: list[Any] = [{"role": "user", "content": f"Add a function mul. Answer with the whole file.\n\n{CODE}"}]
    predicted = client.chat.completions.create(
        model="x", messages=messages, max_tokens=80, prediction={"type": "content", "content": CODE}
    )
    plain = client.chat.completions.create(model="x", messages=messages, max_tokens=80, seed=1)
    text = predicted.choices[0].message.content
    assert text is not None
    assert "def mul(a, b):" in text
    assert (plain.choices[0].message.content or "")[:60] == text[:60]
    assert predicted.usage is not None
    details = predicted.usage.completion_tokens_details
    assert details is not None
    assert details.accepted_prediction_tokens is not None
    assert 0 < details.accepted_prediction_tokens < predicted.usage.completion_tokens

    schema = {
        "type": "object", "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
        "required": ["city", "population"], "additionalProperties": False,
    }  # fmt: skip
    city = client.chat.completions.create(
        model="x", messages=[{"role": "user", "content": "Name a large city."}], max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
    ).choices[0].message.content  # fmt: skip
    assert set(json.loads(city or "")) == {"city", "population"}

    gap = {"input_prefix": "def fib(n):\n    if n < 2:\n        return n\n", "input_suffix": "\n\nprint(fib(10))\n",
           "prompt": "    return ", "n_predict": 24, "n_indent": 4, "stream": False}  # fmt: skip
    answer = ask(server, "/infill", gap)
    assert answer["content"].replace(" ", "").startswith("fib(n-1)+fib(n-2)")

    end = json.loads(run("--json", "--no-history", "--max-tokens", "8", "Say hello.").stdout.splitlines()[-1])
    assert end["stats"]["tokens"] > 0
    metrics = urllib.request.urlopen(f"{server.url}/metrics", timeout=60).read().decode()
    assert 'localspec_requests_total{endpoint="/localspec/generate",status="200"} 1' in metrics
    assert "localspec_acceptance_rate 0." in metrics
