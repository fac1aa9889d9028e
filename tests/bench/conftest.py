"""What the commands are run on."""

from pathlib import Path

import pytest


@pytest.fixture
def model(bytes_model: Path) -> Path:
    return bytes_model
