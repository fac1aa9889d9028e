"""From an `EngineConfig` to loaded models with their contexts, and the facts about them."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from localspec.engine import machine
from localspec.engine.agreement import LONG, WIDEST, Agreements
from localspec.engine.bounds import PREFILL_CHUNK
from localspec.engine.context import Context, ContextOptions, RollbackDepth
from localspec.engine.cost_store import CostStore, flash_key
from localspec.engine.encoder_context import open_context
from localspec.engine.errors import LoadError
from localspec.engine.fast_draft import file_to_load, give_up
from localspec.engine.head import HeadContext, bytes_per_token, runnable_heads
from localspec.engine.llama import AbortFlag, Device, Model, gpus, start_library
from localspec.engine.memo import Memo
from localspec.engine.probe import probe_rollback
from localspec.engine.requests import EngineConfig, EngineInfo, FlashAttention, KvType

RECURRENT_ROLLBACK = 8
"""Snapshots kept of a recurrent state: each costs as much memory as the state itself."""

MAX_VOCAB_DIFFERENCE = 128
"""Padding rows by which two vocabularies may differ and still be one (llama.cpp's own limit)."""


ROOM_TO_AGREE = LONG + 3 * WIDEST
"""Tokens of a context in which widths are tried: those behind the long text, and some room."""

ONE_TEXT = "This model has an encoder: it answers one text, without a chat template and without earlier turns."

UNQUANTISED: tuple[KvType, ...] = ("f16", "bf16", "f32")

RUNNABLE_ENCODERS = frozenset({"t5"})
"""Architectures whose decoder attends to what their encoder read. Others with an encoder make embeddings or drafts."""


@dataclass(slots=True)
class Loaded:
    """What an engine works with. `draft` is the draft model's context, or that of the target's own heads."""

    target: Context
    draft: Context | None
    info: EngineInfo

    def close(self) -> None:
        contexts = [context for context in (self.target, self.draft) if context is not None]
        for context in contexts:
            context.close()
        # Heads are of the target's own model, which must outlive both.
        for context in contexts:
            context.model.close()


def load(config: EngineConfig, abort: AbortFlag, progress: Callable[[float], None] | None) -> Loaded:
    """Load target and draft. `progress` gets the fraction done; `abort` will end decodes. Raises `EngineError`."""
    begun = time.monotonic()
    library = start_library()
    heads = config.drafter == "mtp"
    paths = [config.target] if config.draft is None or heads else [config.target, config.draft]
    for path in paths:
        check_readable(path)
    sizes = [Path(path).stat().st_size for path in paths]
    notices: list[str] = []
    layers = _gpu_layers(config, paths, sizes)
    threads = config.threads or machine.default_threads()
    models: list[Model] = []
    contexts: list[Context] = []
    try:
        for i, path in enumerate(paths):
            done, share = sum(sizes[:i]) / sum(sizes), sizes[i] / sum(sizes)

            def report(fraction: float, done: float = done, share: float = share) -> None:
                if progress is not None:
                    progress(done + share * fraction)

            opened = partial(Model, gpu_layers=layers[i], extra_bufts=config.extra_bufts, heads=heads, progress=report)
            copied = i and not layers[i]
            models.append(_open_copied(config, threads, abort, opened) if copied else opened(path))
        for model in models:
            _check_encoder(model, config.kv_type)
        _check_pair(models)
        if heads and not runnable_heads(models[0]):
            raise LoadError(f"{config.target} carries no MTP heads that can run; a draft model or lookup may do")
        encodes = models[0].has_encoder
        # A text as long as the model was trained for, and an answer of that length.
        known = models[0].train_context * (2 if encodes else 1)
        per_token = sum(m.kv_bytes_per_token(config.kv_type) for m in models)
        per_token += bytes_per_token(models[0], config.kv_type) if heads else 0
        size = config.context or machine.choose_context(known, per_token, machine.free_memory())
        faster = CostStore(config.cache_dir).faster_flash(flash_key(config, threads, layers[0]))
        flash = _flash(config, on_gpu=any(layers), faster=faster)
        free = config.flash_attn == "auto" and config.kv_type in UNQUANTISED and not any([*layers, encodes])
        if config.seeded and free:
            flash = _flash_that_agrees(config, models[0], size, threads, flash, abort)
        for model in models:
            is_target = model is models[0]
            longest = config.max_draft_length
            widest = max(size, longest + 1)
            # An encoder reads its text in one pass.
            batch = widest if encodes else min(config.batch, widest)
            options = ContextOptions(
                context=size,
                batch=batch,
                # A draft is read one row at a time; the probe and the target's verify pass need the width of a cycle.
                outputs=longest + 1 if is_target else RECURRENT_ROLLBACK + 1,
                threads=threads,
                kv_type=config.kv_type,
                flash_attn=flash,
                swa_full=config.swa_full,
                # Snapshots for all but one token of a batch, or more, are a failed native assertion; and the library
                # makes no batch longer than the context.
                rollback=max(0, min(longest, RECURRENT_ROLLBACK, min(batch, size) - 2)),
                hidden=heads,
            )
            context = open_context(model, options, abort)
            contexts.append(context)
            context.depth = _remembered_depth(config, context, on_gpu=any(layers))
        if heads:
            contexts.append(HeadContext(models[0], contexts[0].options, abort))
    except BaseException:
        for context in contexts:
            context.close()
        for model in models:
            model.close()
        raise
    target, draft = contexts[0], contexts[1] if len(contexts) > 1 else None
    if target.depth.kind == "none":
        notices.append("This model's cache cannot be cut back, so it runs without drafting.")
    if draft is not None and draft.depth.kind in ("none", "last_pass"):
        notices.append("The draft model's cache cannot be cut back far enough; only lookup drafts.")
        draft.close()
        draft.model.close()
        draft = None
    if encodes:
        notices.append(ONE_TEXT)
    if known and size > known:
        notices.append(f"The context of {size} tokens is longer than the {known} this model knows.")
    info = _info(config, target, draft, layers, flash, library, time.monotonic() - begun, tuple(notices))
    return Loaded(target, draft, info)


def _open_copied(config: EngineConfig, threads: int, abort: AbortFlag, opened: Callable[[str], Model]) -> Model:
    """The draft from its copy, or from its own file where there is no copy that can be loaded. Raises `LoadError`."""
    assert config.draft is not None
    file = file_to_load(config, threads, abort)
    try:
        return opened(file)
    except LoadError:
        if file == config.draft:
            raise
        give_up(file)
        return opened(config.draft)


def check_readable(path: str) -> None:
    """Raise `LoadError`, in words, for what is no GGUF file that can be read."""
    file = Path(path)
    try:
        if file.is_dir():
            raise LoadError(f"{path} is a folder, not a model file")
        with file.open("rb") as opened:
            magic = opened.read(4)
    except FileNotFoundError:
        raise LoadError(f"{path} does not exist") from None
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror}") from None
    if magic != b"GGUF":
        raise LoadError(f"{path} is not a GGUF model file")


def _check_encoder(model: Model, kv_type: KvType) -> None:
    """The native library ends the process where it should refuse."""
    architecture = model.meta("general.architecture") or ""
    if model.has_encoder and architecture not in RUNNABLE_ENCODERS:
        raise LoadError(f"{model.path} ({architecture}) has an encoder and no decoder that could write an answer")
    if model.has_encoder and kv_type not in UNQUANTISED:
        # Quantised values need flash attention, which takes no relative positions.
        raise LoadError(f"{model.path} has an encoder: its cache can be {', '.join(UNQUANTISED)}, not {kv_type}")


def _check_pair(models: list[Model]) -> None:
    """A last guard against what ends the process; the pair rules proper belong to the model menu."""
    if len(models) == 2 and models[0].has_encoder != models[1].has_encoder:
        one, other = ("target", "draft") if models[0].has_encoder else ("draft", "target")
        raise LoadError(f"the {one} reads its text with an encoder and the {other} has none: they cannot be a pair")
    if len(models) == 2 and abs(models[0].vocab_size - models[1].vocab_size) > MAX_VOCAB_DIFFERENCE:
        sizes = " and ".join(str(model.vocab_size) for model in models)
        raise LoadError(f"target and draft do not share a vocabulary ({sizes} tokens)")


def _flash(config: EngineConfig, *, on_gpu: bool, faster: FlashAttention | None = None) -> FlashAttention:
    """`faster` is what was measured for this file here. Before that: on a CPU flash attention makes wide passes several
    times dearer with context. A quantised V cache needs it."""
    needed = config.kv_type not in UNQUANTISED
    if config.flash_attn == "auto" and faster is not None and not needed:
        return faster
    if config.flash_attn != "auto" or on_gpu:
        return config.flash_attn
    return "on" if needed else "off"


def _flash_that_agrees(
    config: EngineConfig, model: Model, size: int, threads: int, usual: FlashAttention, abort: AbortFlag
) -> FlashAttention:
    """The kind of flash attention with which passes of more widths agree to the bit; `usual` where that is no matter.

    Tried once for a model here, on a small context: two passes tell most disagreements.
    """
    found: dict[FlashAttention, int] = {}
    kinds: tuple[FlashAttention, ...] = (usual, "off" if usual == "on" else "on")
    for kind in kinds:
        options = ContextOptions(
            context=min(size, ROOM_TO_AGREE), batch=config.batch, outputs=config.max_draft_length + 1, threads=threads,
            kv_type=config.kv_type, flash_attn=kind, swa_full=config.swa_full,
        )  # fmt: skip
        context = open_context(model, options, abort)
        try:
            context.depth = _remembered_depth(config, context, on_gpu=False)
            found[kind] = Agreements(config, 0, context, PREFILL_CHUNK).find().widths
        finally:
            context.close()
        if found[kind] >= WIDEST:
            break
    return max(found, key=lambda kind: found[kind])


def _gpu_layers(config: EngineConfig, paths: list[str], sizes: list[int]) -> list[int]:
    """Layers on the GPU for target and draft: what was asked for, else what fits, the draft first."""
    asked = [config.gpu_layers, config.draft_gpu_layers][: len(paths)]
    devices = gpus()
    _record_devices(config, devices)
    if not devices:
        return [0] * len(paths)
    counts = []
    for path in paths:
        header = Model(path, vocab_only=True)
        # As the library counts: heads too, loaded or not, and the output matrix.
        counts.append(header.layers + header.mtp_layers + 1)
        header.close()
    shares = machine.share_gpu(sum(d.free for d in devices), list(zip(sizes, counts, strict=True))[::-1])[::-1]
    return [share if wanted is None else wanted for wanted, share in zip(asked, shares, strict=True)]


def _record_devices(config: EngineConfig, devices: list[Device]) -> None:
    """Leave the GPUs' memory where the model menu reads it: only this process may ask the native library."""
    if config.cache_dir:
        with contextlib.suppress(OSError):
            folder = Path(config.cache_dir)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "devices.json").write_text(json.dumps([asdict(device) for device in devices]), encoding="utf-8")


def _remembered_depth(config: EngineConfig, context: Context, *, on_gpu: bool) -> RollbackDepth:
    """The rollback depth, probed once for a file, its settings and this library."""
    memo = Memo(Path(config.cache_dir) / "rollback.json" if config.cache_dir else None)
    file = Path(context.model.path)
    facts = (
        start_library(), file.name, file.stat().st_size, file.stat().st_mtime_ns,
        context.options.swa_full, context.rollback_slots, on_gpu, context.size < 64,
    )  # fmt: skip
    key = sha256(repr(facts).encode()).hexdigest()[:24]
    known = memo.get(key)
    if isinstance(known, list) and len(known) == 2:
        return RollbackDepth(known[0], known[1])
    depth = probe_rollback(context, exact=not on_gpu)
    memo.put(key, [depth.kind, depth.tokens])
    return depth


def _info(
    config: EngineConfig,
    target: Context,
    draft: Context | None,
    layers: list[int],
    flash: FlashAttention,
    library: str,
    load_s: float,
    notices: tuple[str, ...],
) -> EngineInfo:
    model = target.model
    spelled = {"bos": model.bos, "eos": model.eos}
    return EngineInfo(
        target=Path(config.target).name,
        draft=Path(config.draft).name if config.draft and draft and draft.model is not model else None,
        context=target.size,
        train_context=model.train_context,
        threads=target.options.threads,
        gpu_layers=layers[0],
        draft_gpu_layers=layers[1] if len(layers) > 1 else 0,
        flash_attn=flash,
        vocab_size=model.vocab_size,
        chat_template=model.chat_template,
        special_tokens={
            role: model.piece(token, special=True).decode("utf-8", "replace")
            for role, token in spelled.items()
            if token is not None
        },
        rollback=str(target.depth),
        has_encoder=model.has_encoder,
        mtp_layers=model.mtp_layers,
        fim_tokens=model.fim_tokens,
        library=library,
        load_s=load_s,
        notices=notices,
        fim_texts=model.fim_texts,
        drafter=config.drafter if draft else None,
    )
