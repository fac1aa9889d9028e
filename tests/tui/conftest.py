"""Fixtures for the screens."""

from pathlib import Path

import pytest

from tests.tui.menus import write_menu


@pytest.fixture
def menu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small menu on a machine of known size."""
    return write_menu(monkeypatch, tmp_path)
