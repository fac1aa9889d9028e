"""Do a target and a draft belong together? llama.cpp's rules (`common_speculative_are_compatible`), on the headers.

A draft proposes token ids, so both models must mean the same text by an id: same kind of tokenizer, same begin and end
token where one is added to prompts, sizes that differ by no more than padding does, and equal texts from id 5 on (the
first ids are special tokens, which families spell differently). And a draft reads what the target reads: both have an
encoder, or neither.
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from localspec.models.errors import ModelError, plain
from localspec.models.gguf import Header, read_header

MAX_SIZE_DIFFERENCE = 128
FIRST_COMPARED = 5

LARGEST_DRAFT = 0.6
"""Largest proposed draft, as a share of the bytes the target reads per token: a larger one cannot pay."""

USUAL_DRAFT = 0.1
"""The share the published pairs centre on (0.03 to 0.4): smaller guesses worse, larger costs more."""

Rule = Literal["encoder", "tokenizer", "begin token", "end token", "size", "text"]

_CACHE_VERSION = 2


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """Whether two models can be a pair, and why not. `reason` is a sentence without a full stop. `token_id` is the
    first id from 5 on whose texts differ, with both texts as stored (made printable), also when an earlier rule broke
    already. `padding` counts the ids only one of the two has: never to be drafted. `note` is for the person, if any."""

    compatible: bool
    rule: Rule | None
    reason: str
    token_id: int | None = None
    target_text: str | None = None
    draft_text: str | None = None
    padding: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft for a target. `share` is the draft's bytes read per token over the target's."""

    draft: Header
    share: float
    verdict: PairVerdict


def compare(target: Header, draft: Header) -> PairVerdict:
    """The verdict on two headers read with `tokens=True`; on headers without them `ValueError`, unless an earlier rule
    decides."""
    broken = _broken_before_texts(target, draft)
    if target.tokens is None or draft.tokens is None:
        if broken is None:
            raise ValueError("the headers must be read with tokens=True")
        rule, reason = broken
        return PairVerdict(False, rule, reason)
    padding = abs(target.vocab_size - draft.vocab_size)
    differing = _first_difference(target.tokens, draft.tokens)
    if differing is None:
        if broken is None:
            return PairVerdict(True, None, _agreement(target, padding), padding=padding, note=_note(target, draft))
        return PairVerdict(False, *broken)
    ours, theirs = plain(target.tokens[differing], 40), plain(draft.tokens[differing], 40)
    said = f"token {differing} is “{ours}” in the target and “{theirs}” in the draft"
    if broken is None:
        return PairVerdict(False, "text", said, differing, ours, theirs)
    rule, reason = broken
    return PairVerdict(False, rule, f"{reason}; {said}", differing, ours, theirs)


def check_pair(target: Path, draft: Path, cache_dir: Path | None = None) -> PairVerdict:
    """`compare` on two files. The verdict is kept in `cache_dir` until a file's size or time changes, because reading
    two vocabularies takes a tenth of a second. Raises `ModelError` when a file cannot be read as a GGUF."""
    record = None if cache_dir is None else _record(cache_dir, target, draft)
    if record is not None and (kept := _load(record)) is not None:
        return kept
    verdict = compare(read_header(target, tokens=True), read_header(draft, tokens=True))
    if record is not None:
        _save(record, verdict)
    return verdict


def plausible(target: Header, draft: Header) -> bool:
    """Whether the rules that need no token texts allow the pair: cheap, for sifting many files."""
    return _broken_before_texts(target, draft) is None and target.vocab_size > 0


def propose_drafts(target: Header, candidates: Iterable[Header], cache_dir: Path | None = None) -> list[Proposal]:
    """Those of `candidates` that can draft for `target` and are much smaller; headers from `read_model`, tokens or not.

    Best first: same architecture, then nearest to the usual share. Files that cannot be read are left out. A draft must
    forget rejected tokens, so recurrent models and hybrids are not proposed.
    """
    found: list[Proposal] = []
    reads = bytes_per_token(target)
    for candidate in candidates:
        share = bytes_per_token(candidate) / reads if reads else 1.0
        if not 0 < share <= LARGEST_DRAFT or candidate.recurrent or candidate.hybrid:
            continue
        if candidate.path == target.path or not plausible(target, candidate):
            continue
        try:
            if target.tokens is not None and candidate.tokens is not None:
                verdict = compare(target, candidate)
            else:
                verdict = check_pair(target.path, candidate.path, cache_dir)
        except ModelError:
            continue
        if verdict.compatible:
            found.append(Proposal(candidate, share, verdict))
    family = target.architecture
    found.sort(key=lambda p: (p.draft.architecture != family, abs(math.log(p.share / USUAL_DRAFT)), str(p.draft.path)))
    return found


def bytes_per_token(header: Header) -> int:
    """Bytes of weights one decoded token reads: of a mixture's experts only those in use, of an encoder nothing."""
    if header.has_encoder:
        return header.tensor_bytes - sum(t.size for t in header.tensors if t.name.startswith("enc."))
    if not header.expert_count or not header.expert_used_count:
        return header.tensor_bytes
    experts = sum(t.size for t in header.tensors if "_exps." in t.name)
    used = min(header.expert_used_count / header.expert_count, 1.0)
    return header.tensor_bytes - int(experts * (1 - used))


def _broken_before_texts(target: Header, draft: Header) -> tuple[Rule, str] | None:
    if target.has_encoder != draft.has_encoder:
        one, other = ("target", "draft") if target.has_encoder else ("draft", "target")
        return "encoder", f"the {one} reads its text with an encoder and the {other} has none"
    if target.vocabulary_type != draft.vocabulary_type:
        ours, theirs = plain(target.vocabulary_type, 40), plain(draft.vocabulary_type, 40)
        return "tokenizer", f"the target's tokenizer is {ours} and the draft's {theirs}"
    flag = _flag_or_id("begin", (target.add_bos, target.bos_id), (draft.add_bos, draft.bos_id))
    if flag:
        return "begin token", flag
    flag = _flag_or_id("end", (target.add_eos, target.eos_id), (draft.add_eos, draft.eos_id))
    if flag:
        return "end token", flag
    if abs(target.vocab_size - draft.vocab_size) > MAX_SIZE_DIFFERENCE:
        return "size", (
            f"the target has {target.vocab_size:,} tokens and the draft {draft.vocab_size:,}, which is more than "
            f"{MAX_SIZE_DIFFERENCE} apart"
        )
    return None


def _flag_or_id(role: str, target: tuple[bool, int | None], draft: tuple[bool, int | None]) -> str:
    """What differs about a token that may be added to prompts; empty when nothing does."""
    (adds, ours), (draft_adds, theirs) = target, draft
    if adds != draft_adds:
        who, other = ("target", "draft") if adds else ("draft", "target")
        return f"the {who} adds {'a begin' if role == 'begin' else 'an end'} token to prompts and the {other} does not"
    if adds and ours != theirs:
        return f"the {role} token is {_id(ours)} in the target and {_id(theirs)} in the draft"
    return ""


def _id(token: int | None) -> str:
    return "none" if token is None else str(token)


def _first_difference(target: list[bytes], draft: list[bytes]) -> int | None:
    end = min(len(target), len(draft))
    if target[FIRST_COMPARED:end] == draft[FIRST_COMPARED:end]:
        return None
    return next(i for i in range(FIRST_COMPARED, end) if target[i] != draft[i])


def _agreement(target: Header, padding: int) -> str:
    kind = plain(target.vocabulary_type, 40)
    text = "both have an encoder; " if target.has_encoder else ""
    text += (
        f"the vocabularies agree: {kind}, {target.vocab_size:,} tokens, same begin and end rules, equal texts from "
        f"id {FIRST_COMPARED} on"
    )
    return text + (f" ({padding} padding tokens ignored)" if padding else "")


def _note(target: Header, draft: Header) -> str:
    """An end token that prompts do not get is no obstacle: the target alone decides where the answer ends."""
    if target.eos_id == draft.eos_id:
        return ""
    return (
        f"the end token is {_id(target.eos_id)} in the target and {_id(draft.eos_id)} in the draft: "
        "guesses miss at the end of an answer"
    )


def _record(cache_dir: Path, target: Path, draft: Path) -> Path | None:
    """The file that keeps the verdict on exactly these two files; None when one cannot be looked at."""
    parts: list[str | int] = [_CACHE_VERSION]
    for path in (target, draft):
        try:
            facts = path.stat()
            parts += [str(path.resolve()), facts.st_size, facts.st_mtime_ns]
        except OSError:
            return None
    key = hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir / "pairs" / f"{key[:32]}.json"


def _load(record: Path) -> PairVerdict | None:
    """A kept verdict; None when there is none or it cannot be understood: it is made again."""
    try:
        return PairVerdict(**json.loads(record.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _save(record: Path, verdict: PairVerdict) -> None:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False, encoding="utf-8") as file:
            json.dump(asdict(verdict), file)
        Path(file.name).replace(record)
    except OSError:
        return
