"""The `--json` lines: one event a line, field names as scripts rely on them, written at once."""

import json
import sys
from dataclasses import asdict
from typing import Any, get_args

from localspec.chat.session import Session
from localspec.chat.splitting import Part
from localspec.engine.events import Cycle, Finished, Kind, Started


def emit(line: dict[str, Any]) -> None:
    """Writes one line to stdout. ASCII only, so no console's encoding and no control character gets in the way."""
    sys.stdout.write(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()


def start(event: Started) -> dict[str, Any]:
    return {"type": "start", **asdict(event)}


def token(part: Part) -> dict[str, Any]:
    """`text` is the token's share of the answer; `thought`, when there is any, its share of the thoughts."""
    event = part.token
    line: dict[str, Any] = {
        "type": "token",
        "id": event.id,
        "text": part.text,
        "kind": event.kind,
        "drafter": event.drafter,
        "cycle": event.cycle,
        "t": round(event.t, 6),
    }
    if event.source is not None:
        line["source"] = asdict(event.source)
    return {**line, "thought": part.thought} if part.thought else line


def cycle(event: Cycle) -> dict[str, Any]:
    return {"type": "cycle", **asdict(event)}


def end(event: Finished, text: str, thoughts: str) -> dict[str, Any]:
    line = {"type": "end", "reason": event.reason, "text": text, "stats": asdict(event.stats)}
    return {**line, "thought": thoughts} if thoughts else line


def session(session: Session) -> dict[str, Any]:
    """Sums over the chat's answers, the figures named as those of one answer."""
    return {
        "answers": session.answers,
        "tokens": session.tokens,
        "decode_s": session.decode_s,
        "speedup": session.speedup,
        "saved_s": session.saved_s if session.compared else None,
        "cycles": session.cycles,
        **{kind: session.kinds[kind] for kind in get_args(Kind)},
        "acceptance_rate": session.acceptance_rate,
        "tokens_per_cycle": session.tokens_per_cycle,
    }


def error(title: str, message: str) -> dict[str, Any]:
    return {"type": "error", "title": title, "message": message}
