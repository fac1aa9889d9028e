"""`localspec bench rules` on the starter pair, as a person types it. No timing is asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.conftest import STARTER

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("starter_on_menu")
def test_the_rules_on_the_same_places_of_code_chat_and_story() -> None:
    """Few places, unfiltered: what the theory orders is in order, and code is guessed best."""
    done = subprocess.run(
        [sys.executable, "-m", "localspec", "bench", "rules", "--pair", STARTER, "--temp", "1", "--top-k", "0",
         "--top-p", "1", "--min-p", "0", "--places", "6", "--lengths", "1,3", "--repeats", "0", "--ctx", "1024",
         "--cost-curve", "avx512", "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [cell["places"] for cell in found["cells"]] == [6, 6, 6]
    for cell in found["cells"]:
        accepted = {(point["rule"], point["length"]): point["accepted"] for point in cell["points"]}
        # Of a given draft block keeps most and coupled least, place by place.
        assert 0 < accepted["coupled", 3] <= accepted["rejection", 3] <= accepted["block", 3] < 3
        assert accepted["block", 1] == pytest.approx(accepted["rejection", 1]) == pytest.approx(cell["minima"])
        assert cell["agreement"] <= cell["minima"] + 1e-9
    code, chat, story = found["cells"]
    assert code["minima"] > max(chat["minima"], story["minima"])
    assert {one["vocab"] for one in found["times"]} == {151936}
