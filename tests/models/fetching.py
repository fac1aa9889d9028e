"""What the download tests share: fetching `thing` from the test's hub, and looking at what is left."""

from pathlib import Path

from localspec import paths
from localspec.models import pull
from localspec.models.progress import PullEvent, Said
from localspec.models.settings import Settings
from tests.models.conftest import NAME, REPO
from tests.models.hubserver import HubServer


def settings(hub: HubServer, **changes: object) -> Settings:
    return Settings(**{"order": ("hub",), "endpoint": hub.endpoint, **changes})  # type: ignore[arg-type]


def fetch(hub: HubServer, events: list[PullEvent] | None = None, **options: object) -> Path:
    report = events.append if events is not None else None
    [one] = pull.pull(["thing"], settings=settings(hub), report=report, **options)  # type: ignore[arg-type]
    return one.path


def content(hub: HubServer) -> bytes:
    return hub.repos[REPO][NAME]


def said(events: list[PullEvent]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Said))


def left_over() -> list[str]:
    """Everything in the store that is neither a lock nor a note."""
    return sorted(p.name for p in paths.models_dir().rglob("*") if p.is_file() and p.suffix not in (".lock", ".json"))
