"""What `bench` found on this machine, kept for the menu."""

from localspec import paths
from localspec.models import measured


def test_speedups_are_kept_by_pair_and_category() -> None:
    assert measured.read() == {}
    measured.remember("one", {"edits": 2.9})
    measured.remember("two", {"edits": 1.5})
    measured.remember("one", {"chat": 1.0})
    assert measured.read() == {"one": {"edits": 2.9, "chat": 1.0}, "two": {"edits": 1.5}}


def test_a_note_that_cannot_be_read_is_no_fault() -> None:
    measured.remember("one", {"edits": 2.9})
    file = paths.state_dir() / "measured.json"
    for broken in ("", "[]", "{", '{"one": 3}', "\x00"):
        file.write_text(broken)
        assert measured.read() == {}
    measured.remember("one", {"edits": 2.0})
    assert measured.read() == {"one": {"edits": 2.0}}
