"""`localspec bench` on the starter pair, as a person types it. No timing is asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.models import measured
from tests.real.conftest import STARTER
from tests.real.texts import SOURCE

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("starter_on_menu")
def test_a_code_edit_and_a_chat_on_both_clocks(tmp_path: Path) -> None:
    """Greedy, so that the edit copies most of its source; the price list is one that is written down."""
    workload, page = tmp_path / "two.jsonl", tmp_path / "page.html"
    edit = f"Return this file as it is, in one code block.\n\n```python\n{SOURCE}```"
    rows = [
        {"id": "copy", "category": "code-edit", "prompt": edit},
        {"id": "talk", "category": "chat", "prompt": "Name three birds."},
    ]
    workload.write_text("\n".join(map(json.dumps, rows)))
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "--pair", STARTER, "--workload", str(workload), "--repeats", "1",
         "--max-tokens", "64", "--cost-curve", "amx", "--html", str(page), "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (mode,) = found["modes"]
    copy, talk = mode["categories"]
    assert copy["drafters"]["lookup"] > 0
    assert copy["tokens"] == 63
    assert copy["tokens_per_cycle"] > 1.5
    # Most of the text stands in the prompt: lookup with perfect lengths, and ours, win by that curve.
    assert copy["bound"] > copy["virtual"] > 1
    assert 0.9 < talk["virtual"] <= talk["bound"] * 1.5
    assert set(measured.read()[STARTER]) == {"code-edit", "chat", "geometric mean"}
    assert "Cost of a pass" in page.read_text(encoding="utf-8")
