"""Putting models on the menu: files on this disk as they lie, hub repositories once they are here."""

from pathlib import Path

from localspec import paths
from localspec.models import own, reference, store
from localspec.models import settings as model_settings
from localspec.models.errors import ModelError, plain
from localspec.models.pairs import check_pair


class NoPair(ModelError):
    """Target and draft do not belong together."""


def put(name: str, target: Path, draft: Path | None = None) -> Path:
    """Put files on the menu as the pair `name`, checked whole and as a pair. Answers the file written.

    Raises ModelError with the reason.
    """
    for file in (target, draft):
        if file is not None:
            store.require_whole(file)
    if draft is not None:
        verdict = check_pair(target.absolute(), draft.absolute(), paths.cache_dir())
        if not verdict.compatible:
            raise NoPair(f"{plain(target.name)} and {plain(draft.name)} are no pair: {verdict.reason}")
    return own.add(name, target, draft)


def add(name: str, target: str, draft: str | None = None) -> tuple[str, ...]:
    """Put what `target` and `draft` mean (a path, a file's key, OWNER/REPO[:QUANT]) on the menu as the pair `name`.

    Answers the hub references that have to be fetched first; then nothing was written. Raises ModelError.
    """
    own.check_name(name)
    found = [_locate(spec) for spec in (target, draft) if spec]
    missing = tuple(spec for spec, path in zip((target, draft), found, strict=False) if path is None and spec)
    if not missing:
        here = [path for path in found if path is not None]
        put(name, here[0], here[1] if len(here) > 1 else None)
    return missing


def _locate(spec: str) -> Path | None:
    """The file that `spec` means; None when it is a hub reference that is not here."""
    try:
        return store.locate(spec, model_settings.load())
    except ModelError:
        if reference.parse(spec) is None or spec.lower().endswith(".gguf"):
            raise
        return None
