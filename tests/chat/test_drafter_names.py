"""Every drafter the engine can name has its words and its look wherever drafters are told of."""

from typing import get_args

import pytest

from localspec.chat import provenance
from localspec.chat.decisions import reason
from localspec.chat.looks import LOOKS, look_of
from localspec.chat.session import _SOURCES
from localspec.engine.events import Cycle, DrafterName


@pytest.mark.parametrize("drafter", get_args(DrafterName))
def test_every_drafter_is_known(drafter: DrafterName) -> None:
    assert drafter in provenance.DRAFTERS
    assert look_of("accepted", drafter) in LOOKS
    assert _SOURCES[drafter]
    cycle = Cycle(1, drafter, 2, "ab", 2, 2, 3, 0.1, 0.2)
    assert reason(cycle).endswith("2 tokens.")


def test_what_a_grammar_forces_looks_like_a_copy() -> None:
    """Both are known without a model, and cost a pass's width alone."""
    assert look_of("accepted", "grammar") == look_of("accepted", "lookup") != look_of("accepted", "draft")
    assert look_of("bonus", "grammar") == "bonus"
