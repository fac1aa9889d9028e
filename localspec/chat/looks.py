"""How provenance is told: the looks a token can have, their names and marks, and the words for figures.

Screens and the command line draw the same looks, each with its own means; every look has an attribute or a bracket of
its own, so that it reads without hue.
"""

from typing import Literal

from localspec.engine.events import DrafterName, Kind, Started, Stats

Look = Literal["lookup", "draft", "resampled", "bonus", "plain"]

MISSING = "–"

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


def look_of(kind: Kind, drafter: DrafterName) -> Look:
    if kind != "accepted":
        return kind
    return "lookup" if drafter == "lookup" else "draft"


def looks_of(started: Started) -> tuple[Look, ...]:
    """The looks that can occur in an answer; none when nothing is drafted."""
    if started.speculate == "off":
        return ()
    return tuple(look for look in LOOKS if look != "draft" or started.draft)


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
