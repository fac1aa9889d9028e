"""`OWNER/REPO[:QUANT]`: any repository of the hub, and which of its files is meant."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from localspec.models.errors import ModelError, plain
from localspec.models.fields import is_repository
from localspec.models.gguf_split import part_name

PREFERENCE = (
    "Q4_K_M", "Q4_K_S", "Q5_K_M", "Q5_K_S", "Q4_0", "Q6_K", "Q8_0", "Q4_1", "IQ4_XS", "IQ4_NL", "Q3_K_M", "Q3_K_L",
    "Q3_K_S", "MXFP4", "F16", "BF16", "F32",
)  # fmt: skip
"""Q4_K_M first: the size at which the published pairs were measured; then its neighbours, larger before smaller."""

_QUANTISATION = re.compile(
    r"(?:^|[-._])((?:UD-)?(?:IQ\d_[A-Z0-9]+|TQ\d_\d|Q\d(?:_K(?:_[SMLX]+)?|_\d)|MXFP4(?:_MOE)?|BF16|F16|FP16|F32))"
    r"(?=$|[-._])",
    re.IGNORECASE,
)
_NOT_MODELS = re.compile(r"mmproj|imatrix|(^|[-._])(lora|adapter)([-._]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A hub repository, and what of it: a quantisation (`Q8_0`), a file's name, or None for the best choice."""

    repo: str
    which: str | None = None

    def __str__(self) -> str:
        return f"{self.repo}:{self.which}" if self.which else self.repo


def parse(text: str) -> Reference | None:
    """`text` as a reference; None when it does not have that form."""
    repo, colon, which = text.partition(":")
    if not is_repository(repo) or (colon and not which):
        return None
    return Reference(repo, which or None)


def quantisation(name: str) -> str | None:
    """The quantisation in a file's name, in llama.cpp's spelling; None when it carries none."""
    found = _QUANTISATION.findall(name.rsplit("/", 1)[-1].removesuffix(".gguf"))
    if not found:
        return None
    text: str = found[-1].upper()
    return "F16" if text == "FP16" else text


def split_names(name: str) -> list[str]:
    """The names of all parts of the set that `name` belongs to; just `name` when it is whole."""
    part = part_name(name)
    if part is None:
        return [name]
    stem, _, count = part
    return [f"{stem}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]


def choose(names: Iterable[str], reference: Reference) -> list[str]:
    """The files (paths inside the repository) that `reference` means: one, or all parts of a split one, in order.

    Raises ModelError when nothing fits, naming what there is.
    """
    everything = [name for name in names if name.lower().endswith(".gguf")]
    models = [name for name in everything if not _NOT_MODELS.search(name.rsplit("/", 1)[-1])]
    first = [name for name in models if (part := part_name(name)) is None or part[1] == 1]
    if not first:
        raise ModelError(f"{reference.repo} holds no GGUF model file: look for a repository whose name ends in -GGUF")
    chosen = _chosen(first, reference)
    if chosen is None:
        offered = sorted({quantisation(name) or name for name in first})
        raise ModelError(
            f"{reference.repo} has no {plain(reference.which or '')}: it offers {plain(', '.join(offered), 300)}"
        )
    parts = split_names(chosen)
    missing = [name for name in parts if name not in everything]
    if missing:
        raise ModelError(
            f"{reference.repo}: {plain(chosen)} is split, and its part {plain(missing[0])} is missing there"
        )
    return parts


def _chosen(names: list[str], reference: Reference) -> str | None:
    if reference.which is None:
        for wanted in PREFERENCE:
            if found := _with(names, wanted):
                return found
        return min(names, key=_simplicity)
    exact = [name for name in names if reference.which in (name, name.rsplit("/", 1)[-1])]
    return exact[0] if exact else _with(names, reference.which.upper())


def _with(names: list[str], wanted: str) -> str | None:
    return min((name for name in names if quantisation(name) == wanted), key=_simplicity, default=None)


def _simplicity(name: str) -> tuple[int, str]:
    return len(name), name
