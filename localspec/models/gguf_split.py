"""A model as it is loaded: one file, or the parts of a split one, found beside each other by llama.cpp's naming."""

import re
from dataclasses import replace
from pathlib import Path

from localspec.models.errors import DamagedGGUF, UnreadableFile, named
from localspec.models.gguf import Header, check_file, check_model, read_header

_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.DOTALL)


def part_name(name: str) -> tuple[str, int, int] | None:
    """Stem, part number (from 1) and part count of a split file's name; None: not named like a part."""
    match = _PART.match(name)
    return (match["stem"], int(match["number"]), int(match["count"])) if match else None


def part_paths(path: Path, count: int) -> list[Path]:
    """The files of a model split into `count` parts, in order, `path` being the first. `DamagedGGUF` when it is not
    named as llama.cpp needs to find the others."""
    parsed = part_name(path.name)
    if parsed is None or parsed[1:] != (1, count):
        raise DamagedGGUF(
            f"{named(path)} is the first of {count} parts and is not named so: llama.cpp finds the others only when it "
            f"ends in -00001-of-{count:05d}.gguf"
        )
    return [path.with_name(f"{parsed[0]}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]


def read_model(path: Path, *, tokens: bool = False) -> Header:
    """The header of a model that is whole and can be loaded: every part is there and as long as its tensors need.

    Of a split model the first part's metadata with the tensors and the size of all parts; the offsets in its tensor
    table are within each part. Raises `ModelError` subclasses.
    """
    parts = read_parts(path, tokens=tokens)
    if len(parts) < 2:
        return parts[0]
    return replace(
        parts[0],
        file_bytes=sum(part.file_bytes for part in parts),
        tensors=tuple(tensor for part in parts for tensor in part.tensors),
    )


def read_parts(path: Path, *, tokens: bool = False) -> list[Header]:
    """The headers of all files of a whole model, in order: one, or as many as it is split into. Raises as `read_model`
    does."""
    header = read_header(path, tokens=tokens)
    check_model(header)
    check_file(header)
    parts = [header]
    if header.split_count < 2:
        return parts
    for number, part in enumerate(part_paths(path, header.split_count)[1:], 2):
        try:
            further = read_header(part)
        except UnreadableFile as error:
            raise UnreadableFile(f"part {number} of {header.split_count}: {error}") from None
        check_file(further)
        if further.split_no != number - 1 or further.split_count != header.split_count:
            raise DamagedGGUF(f"{named(part)} is not part {number} of {header.split_count}: fetch it again")
        parts.append(further)
    return parts
