"""MTP heads in a model file, for people and for the choice of a drafter."""

from pathlib import Path

from localspec import nextn
from localspec.models.errors import ModelError
from localspec.models.gguf import Header
from localspec.models.gguf_split import read_model


def draft_unasked(header: Header) -> bool:
    """Whether the model's own heads draft where no draft model does, without being asked for."""
    return header.mtp_heads > 0 and header.architecture in nextn.TRIED


def describe(header: Header) -> str | None:
    """What the file carries and whether it can be used, as a sentence without a full stop; None without heads."""
    named = header.mtp_layers
    if not named:
        return None
    heads = f"{named} MTP head" + ("s" if named > 1 else "")
    if draft_unasked(header):
        return f"carries {heads}: it drafts for itself where no draft model is given (`--speculate mtp`)"
    if header.mtp_heads:
        return f"carries {heads}: only `--speculate mtp` uses them, for {header.architecture} was not tried here"
    if not nextn.can_run(header.architecture, named):
        return f"names {heads}, which llama.cpp cannot run for {header.architecture}"
    return f"names {heads} and does not hold them all: they cannot be used"


def of_file(path: Path) -> Header | None:
    """The header of a file that has heads to draft with; None when it has none or cannot be read."""
    try:
        header = read_model(path)
    except ModelError:
        return None
    return header if header.mtp_heads else None
