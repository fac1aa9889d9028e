"""How provenance is told: the looks a token can have, their names and marks, and the words for figures.

Screens and the command line draw the same looks, each with its own means; every look has an attribute or a bracket of
its own, so that it reads without hue.
"""

from pathlib import Path
from typing import Literal

from localspec.chat.visible import one_line
from localspec.engine.events import DrafterName, Kind, ModelDrafterName, Source, Started, Stats

Look = Literal["lookup", "draft", "resampled", "bonus", "plain"]

MISSING = "–"

DRAFTER_NAMES: dict[DrafterName, str] = {
    "lookup": "lookup",
    "draft": "draft model",
    "mtp": "MTP head",
    "self": "self-draft",
    "grammar": "grammar",
    "none": "nothing",
}
"""What screens and tables call the drafters."""


LOOKS: tuple[Look, ...] = ("lookup", "draft", "resampled", "bonus", "plain")

NAMES: dict[Look, str] = {
    "lookup": "accepted (lookup)",
    "draft": "accepted (draft model)",
    "resampled": "resampled",
    "bonus": "bonus",
    "plain": "plain",
}

MARKS: dict[Look, tuple[str, str]] = {
    "lookup": ("‹", "›"),
    "draft": ("«", "»"),
    "resampled": ("⟦", "⟧"),
    "bonus": ("⟨", "⟩"),
    "plain": ("", ""),
}
"""Brackets for the `marks` mode; neighbours of one look share a pair."""


def drafts_with(drafter: ModelDrafterName | None, draft: str | None) -> str | None:
    """What a target drafts with, besides looking things up: the draft's file, or the name of what it has itself."""
    return draft or (DRAFTER_NAMES[drafter] if drafter else None)


def look_of(kind: Kind, drafter: DrafterName) -> Look:
    if kind != "accepted":
        return kind
    # What a grammar forces costs as little as a copy: both are known without a model.
    return "lookup" if drafter in ("lookup", "grammar") else "draft"


def looks_of(started: Started) -> tuple[Look, ...]:
    """The looks that can occur in an answer; none when nothing is drafted."""
    if started.speculate == "off":
        return ()
    return tuple(look for look in LOOKS if look != "draft" or started.drafter)


def number(value: float | None, form: str = ".1f", unit: str = "") -> str:
    """A figure, or – when nothing stands behind it."""
    return MISSING if value is None else f"{value:{form}}{unit}"


def share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"


def speedup(stats: Stats) -> str:
    """The speed-up with its baseline named."""
    if stats.speedup is None or stats.plain_tokens_per_s is None:
        return f"speed-up {MISSING} (no plain baseline)"
    return f"{stats.speedup:.2f}x plain ({stats.plain_tokens_per_s:.1f} tokens/s, {stats.baseline})"


def place(source: Source) -> str:
    """Where a copied token stands, in words; a file below the current directory by its short name."""
    name = _TEXTS.get(source.name) or one_line(_short(source.name))
    return f"{name} line {source.line:,}"


def _short(name: str) -> str:
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return name


_TEXTS = {"prompt": "the prompt's", "prediction": "the prediction's", "answer": "this answer's"}
