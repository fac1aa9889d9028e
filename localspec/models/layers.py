"""Which layers of a model may be left out, and which are: what remains is a smaller model that guesses like it.

A model may be shortened only where a layer does the same at whatever place it stands. Which architectures that holds
for was read off llama.cpp's `src/models/*.cpp`; others are refused, in words, rather than made into something that
loads and is not the model without those layers.
"""

from dataclasses import dataclass

from localspec.models.errors import ModelError, plain
from localspec.models.gguf import Header

ALIKE = frozenset({
    "apertus", "command-r", "deci", "exaone", "falcon", "gemma", "gpt2", "gptneox", "internlm2", "llama", "nemotron",
    "olmo", "olmoe", "openelm", "orion", "phi2", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "seed_oss",
    "stablelm", "starcoder", "starcoder2",
})  # fmt: skip
"""Architectures in which a layer does not know its number."""

PERIODS = {"cohere2": 4, "gemma2": 2, "gemma3": 6, "gpt-oss": 2, "olmo2": 4, "smollm3": 4}
"""Architectures in which every so many layers one differs (it sees the whole text, or has no positions), where the file
gives no list of them: whole periods may be left out, so that every layer keeps its kind."""

ALWAYS_PERIODIC = frozenset({"smollm3"})
"""Of these, those that need no sliding window for it."""

SCALE_BY_COUNT = {"gemma2": 46, "gemma3": 62}
"""Layers at which llama.cpp takes the model for the one whose attention is scaled another way."""

WINDOW_PATTERN = "attention.sliding_window_pattern"

NOT_PER_LAYER = frozenset({"rope.dimension_sections"})
"""Lists of a model, below its architecture's name, that have another length by chance or the same one by chance."""

LEFT_OUT = 1 / 7
"""Share of the layers left out when nobody says how many: 4 of 28. Twice as many cost more than a third of the
agreement and save a tenth of a pass (docs/methods.md has the figures)."""

STYLES = ((0.55, 1), (0.45, 2), (2 / 3, 2))
"""Where in the model the layers are left out, as a share of its depth, and whether every one there or every other: in
this order they are tried. The last ones before the output and the first ones behind the text do what no other layer
does; which of those between are missed least differs by model (docs/methods.md)."""


class NoSelfDraft(ModelError):
    """Of this model no layers can be left out; the reason is the message."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """Layers by their number in the model, ascending: those `kept` and those `left_out`."""

    kept: tuple[int, ...]
    left_out: tuple[int, ...]

    @property
    def layers(self) -> int:
        """Layers of the whole model."""
        return len(self.kept) + len(self.left_out)


def plans(header: Header, keep: int | None = None) -> list[Shortening]:
    """Ways to leave out layers of the model, to try in this order; each keeps `keep` of them when that is said.

    Raises `NoSelfDraft` when none can be left out, or not so many.
    """
    _check_architecture(header)
    period = _period(header)
    layers = header.block_count
    # The first and the last period stay: with fewer than one between them there is nothing to leave out.
    most = (layers // period - 2) * period
    if most < period:
        raise NoSelfDraft(f"{_name(header)} has {layers} layers, too few to leave any out")
    wanted = max(period, round(layers * LEFT_OUT / period) * period) if keep is None else layers - keep
    if not period <= wanted <= most or wanted % period:
        choices = range(layers - most, layers, period)
        step = f", in steps of {period} because every {period} layers one differs" if period > 1 else ""
        raise NoSelfDraft(
            f"{_name(header)} has {layers} layers: {choices[0]} to {choices[-1]} of them can be kept{step}"
        )
    check_scale(header, layers - wanted)
    ways = dict.fromkeys(spread(layers, wanted // period, period, centre, step) for centre, step in STYLES)
    return [Shortening(tuple(i for i in range(layers) if i not in left_out), left_out) for left_out in ways]


def spread(layers: int, groups: int, period: int, centre: float, step: int) -> tuple[int, ...]:
    """`groups` runs of `period` layers, every `step`-th one where there is room, around `centre` (a share of the
    depth); never the first or the last period."""
    # In runs: those that may go are 1 .. last.
    last = layers // period - 2
    span = min(step * (groups - 1) + 1, last)
    first = min(max(1, round(layers / period * centre - span / 2)), last - span + 1)
    runs = [first + (i * (span - 1) // (groups - 1) if groups > 1 else 0) for i in range(groups)]
    return tuple(run * period + i for run in runs for i in range(period))


def check_scale(header: Header, keep: int) -> None:
    """Raises `NoSelfDraft` when llama.cpp would take the shortened model for another one by its number of layers."""
    special = SCALE_BY_COUNT.get(header.architecture)
    if special in (header.block_count, keep):
        raise NoSelfDraft(
            f"{_name(header)}: llama.cpp scales the attention of a {header.architecture} by its number of layers, so "
            f"none can be left out of {header.block_count} to keep {keep}"
        )


def _check_architecture(header: Header) -> None:
    arch, name = header.architecture, _name(header)
    if header.recurrent or header.hybrid:
        raise NoSelfDraft(
            f"{name} has recurrent layers ({arch}): their states build on each other, and none is left out"
        )
    if header.mtp_layers:
        instead = ": --speculate mtp drafts with them" if header.mtp_heads else ""
        raise NoSelfDraft(f"{name} carries NextN layers, which belong behind its last one{instead}")
    if header.has_encoder:
        raise NoSelfDraft(f"{name} has an encoder and a decoder ({arch}), whose layers belong together")
    for key in ("leading_dense_block_count", "interleave_moe_layer_step"):
        value = header.metadata.get(f"{arch}.{key}", 0)
        if isinstance(value, int) and value > (key != "leading_dense_block_count"):
            raise NoSelfDraft(f"{name} mixes dense layers and experts by their number ({arch}.{key} = {value})")
    if header.shared_kv_layers:
        raise NoSelfDraft(f"{name}: its last {header.shared_kv_layers} layers read the cache of earlier ones")
    if arch not in ALIKE and arch not in PERIODS:
        raise NoSelfDraft(f"{name}: of {plain(arch, 40)} it is not known whether its layers can be left out")
    for key in per_layer_keys(header):
        length = header.lengths[key]
        if length != header.block_count and not key.endswith(WINDOW_PATTERN):
            raise NoSelfDraft(
                f"{name}: {plain(key)} is a list of {length}, for {header.block_count} layers: what it says of them "
                "is not known"
            )


def per_layer_keys(header: Header) -> list[str]:
    """The keys of the architecture that hold a list with an entry a layer."""
    start = f"{header.architecture}."
    return [key for key in header.lengths if key.startswith(start) and key.removeprefix(start) not in NOT_PER_LAYER]


def _period(header: Header) -> int:
    """Layers after which the kinds of layers repeat, where the file has no list of them; 1: all are alike."""
    arch = header.architecture
    if f"{arch}.{WINDOW_PATTERN}" in header.lengths:
        if header.lengths[f"{arch}.{WINDOW_PATTERN}"] < header.block_count:
            raise NoSelfDraft(f"{_name(header)}: its list of sliding-window layers is too short")
        return 1
    if arch not in PERIODS or not (header.sliding_window or arch in ALWAYS_PERIODIC or arch == "gemma2"):
        return 1
    said = header.metadata.get(f"{arch}.{WINDOW_PATTERN}")
    return said if isinstance(said, int) and said > 0 and arch not in ALWAYS_PERIODIC else PERIODS[arch]


def _name(header: Header) -> str:
    return plain(header.path.name, 100)
