"""Does a pair fit this machine: fits, tight or no, with the numbers, the largest context, the layers for the GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from localspec.models.gguf import Header
from localspec.models.hardware import Gpu, Kernels, Machine
from localspec.models.memory import PROCESS, KvType, Memory, Shape, estimate, kv_bytes, shape_of

Verdict = Literal["fits", "tight", "no"]

SYSTEM = 1 << 30
"""Memory that the system and the terminal keep in any case: what is above `ram_total - SYSTEM` can never be had."""

GPU_SHARE = 0.92
GPU_RESERVE = 256 << 20
"""What of a GPU's free memory is planned with: drivers and the desktop take from it meanwhile, and a pool that is
exceeded ends the program."""

LONGEST_CONTEXT = 1 << 17
"""Where a model does not say what it was trained for."""

_STEP = 256


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a pair fits, bytes where nothing else is said.

    `needed` is main memory, of `free` now and `total`; `gpu_needed` memory of GPUs. `fits`: there is room beside what
    runs now; `tight`: only just, or when other programs give memory back; `no`: not on this machine. `largest_context`
    is the longest that fits (tokens, 0: none). `gpu_layers` and `draft_gpu_layers` count as llama.cpp does, the output
    matrix being one more. `rough`: the models are not here yet and parts are guessed.
    """

    verdict: Verdict
    needed: int
    free: int
    total: int
    target: Memory
    draft: Memory | None
    gpu_needed: int
    gpu_layers: int
    draft_gpu_layers: int
    largest_context: int
    rough: bool

    @property
    def sentence(self) -> str:
        about = "about " if self.rough else ""
        gpu = f" and {gigabytes(self.gpu_needed)} of GPU memory" if self.gpu_needed else ""
        return f"needs {about}{gigabytes(self.needed)}{gpu}; {gigabytes(self.free)} of {gigabytes(self.total)} are free"


@dataclass(frozen=True, slots=True)
class _Plan:
    needed: int
    gpu_needed: int
    layers: list[int]
    memories: list[Memory]


def fit(
    target: Header | Shape,
    draft: Header | Shape | None,
    context: int,
    kv_type: KvType,
    machine: Machine,
    *,
    flash_attn: bool = False,
    swa_full: bool = True,
) -> Fit:
    """The verdict on a pair with `context` tokens each. Of a split model give the header of `read_model`; of one that
    is not here yet, `shape_from_facts`."""
    shapes = [_shape(target, machine.kernels)] + ([_shape(draft, machine.kernels)] if draft is not None else [])

    def plan(tokens: int) -> _Plan:
        return _plan(shapes, tokens, kv_type, machine, flash_attn, swa_full)

    now = plan(context)
    return Fit(
        verdict=_verdict(now.needed, machine),
        needed=now.needed,
        free=machine.ram_free,
        total=machine.ram_total,
        target=now.memories[0],
        draft=now.memories[1] if draft is not None else None,
        gpu_needed=now.gpu_needed,
        gpu_layers=now.layers[0],
        draft_gpu_layers=now.layers[1] if draft is not None else 0,
        largest_context=_largest(
            lambda tokens: _verdict(plan(tokens).needed, machine) == "fits",
            min((s.context_length for s in shapes if s.context_length), default=LONGEST_CONTEXT),
        ),
        rough=any(shape.rough for shape in shapes),
    )


def gigabytes(size: int) -> str:
    """Bytes for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def headroom(machine: Machine) -> int:
    """Free memory that "fits" leaves alone: 5 % of all, at least half a gigabyte."""
    return max(512 << 20, machine.ram_total // 20)


def _shape(model: Header | Shape, kernels: Kernels) -> Shape:
    return shape_of(model, kernels) if isinstance(model, Header) else model


def _verdict(needed: int, machine: Machine) -> Verdict:
    if needed <= machine.ram_free - headroom(machine):
        return "fits"
    return "tight" if needed <= max(machine.ram_free, machine.ram_total - SYSTEM) else "no"


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """The largest context up to `limit` that fits; need grows with the context, so halving finds it."""
    low, high = 0, max(1, limit // _STEP)
    if fits(limit):
        return limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle * _STEP):
            low = middle
        else:
            high = middle - 1
    return min(low * _STEP, limit)


def _plan(
    shapes: Sequence[Shape], context: int, kv_type: KvType, machine: Machine, flash_attn: bool, swa_full: bool
) -> _Plan:
    """Where everything goes: on the GPU the draft first, whose layers are read most often, then the target's."""
    # A target alone drafts with its own heads, where it has any.
    mtp = len(shapes) == 1
    memories = [estimate(s, context, kv_type, flash_attn=flash_attn, swa_full=swa_full, mtp=mtp) for s in shapes]
    layers, on_gpu = [0] * len(shapes), 0
    gpus, shared = _pool(machine.gpus)
    room = sum(max(0, int(gpu.free * GPU_SHARE) - GPU_RESERVE) for gpu in gpus)
    for index in reversed(range(len(shapes))):
        costs = _layer_costs(shapes[index], kv_bytes(shapes[index], context, kv_type, swa_full), memories[index].mtp)
        layers[index], taken = _offload(costs, memories[index].compute, room)
        room -= taken
        on_gpu += taken
    needed = PROCESS + sum(memory.total for memory in memories)
    return _Plan(needed if shared else needed - on_gpu, on_gpu, layers, memories)


def _pool(gpus: Sequence[Gpu]) -> tuple[list[Gpu], bool]:
    """The GPUs llama.cpp will use, and whether their memory is main memory: an integrated one only where there is no
    other."""
    own = [gpu for gpu in gpus if not gpu.shared]
    return (own, False) if own else (list(gpus[:1]), bool(gpus))


def _layer_costs(shape: Shape, kv: int, mtp: int) -> list[int]:
    """Bytes that move to the GPU with each further layer, in llama.cpp's order: the output matrix, the MTP heads, which
    take `mtp` together and nothing where they are not loaded, then the layers from the last one down."""
    share = kv // len(shape.layer_bytes) if shape.layer_bytes else 0
    heads = len(shape.mtp.layer_bytes)
    return [
        shape.output_bytes, *[mtp // max(1, heads)] * heads, *(size + share for size in reversed(shape.layer_bytes))
    ]  # fmt: skip


def _offload(costs: Sequence[int], compute: int, room: int) -> tuple[int, int]:
    """How many of `costs` fit into `room` beside the compute buffers, and what they take with them."""
    taken = compute
    for count, cost in enumerate(costs):
        if taken + cost > room:
            return (count, taken) if count else (0, 0)
        taken += cost
    return len(costs), taken
