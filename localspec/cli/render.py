"""How an answer looks on a terminal: each token by its provenance, and the figures after it.

Provenance reads without hue too: every kind has attributes of its own (or, with `marks`, brackets of its own), so it
survives NO_COLOR, few colours and colour blindness. The drafter is told by shade and slant.
"""

import os
from collections.abc import Sequence
from typing import Literal, TextIO

from localspec.chat.looks import LOOKS, MARKS, MISSING, NAMES, Look, drafts_with, number, share, speedup
from localspec.chat.session import Session
from localspec.cli.terminal import takes_escapes
from localspec.engine.events import Started, Stats
from localspec.engine.requests import EngineInfo

Color = Literal["auto", "always", "never", "marks"]
Mode = Literal["color", "attributes", "marks", "none"]

ATTRIBUTES: dict[Look, str] = {"lookup": "1", "draft": "3", "resampled": "4", "bonus": "1;4", "plain": ""}
"""SGR attributes: bold, italic, underline, bold underline."""

HUES: dict[Look, str] = {"lookup": "32", "draft": "36", "resampled": "35", "bonus": "34", "plain": ""}
"""SGR colours out of the first eight, all readable on light and dark: green, cyan, magenta, blue."""


def mode_for(color: Color, stream: TextIO) -> Mode:
    """What `--color` means on this stream, with NO_COLOR and TERM=dumb taken into account."""
    if color == "marks":
        return "marks"
    if color == "never" or (color == "auto" and not takes_escapes(stream)):
        return "none"
    return "attributes" if os.environ.get("NO_COLOR") and color == "auto" else "color"


class Painter:
    """Texts of tokens to what is written. With marks, neighbours of one look share a pair; `finish` closes the last."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._open: Look = "plain"

    def paint(self, text: str, look: Look) -> str:
        if not text or self._mode == "none":
            return text
        if self._mode == "marks":
            if look == self._open:
                return text
            close, self._open = MARKS[self._open][1], look
            return close + MARKS[look][0] + text
        return styled(text, look, self._mode)

    def finish(self) -> str:
        close = MARKS[self._open][1] if self._mode == "marks" else ""
        self._open = "plain"
        return close


def styled(text: str, look: Look, mode: Mode) -> str:
    """`text` in the look's style, ended at once, so that no break in the stream leaves the terminal coloured."""
    codes = [code for code in (ATTRIBUTES[look], HUES[look] if mode == "color" else "") if code]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text


def legend(mode: Mode, looks: Sequence[Look] = LOOKS) -> str:
    """The names of `looks`, each in its own look; "" when nothing is told apart."""
    if mode == "none":
        return ""
    painter = Painter(mode)
    return "  ".join(painter.paint(NAMES[look], look) + painter.finish() for look in looks)


def stats_line(stats: Stats) -> str:
    """The figures of one answer in one line."""
    return " · ".join(
        (
            f"{stats.tokens} tokens",
            f"{number(stats.tokens_per_s)} tokens/s",
            speedup(stats),
            f"acceptance {share(stats.acceptance_rate)}",
            f"{number(stats.tokens_per_cycle, '.2f')} tokens/cycle",
            f"first token {number(stats.ttft_s, '.2f', ' s')}",
        )
    )


def session_line(session: Session) -> str:
    """The figures of a chat in one line."""
    speed = f"{session.speedup:.2f}x plain" if session.speedup is not None else f"speed-up {MISSING}"
    answers = f"{session.answers} answer" + ("s" if session.answers != 1 else "")
    return " · ".join(
        (
            f"chat so far: {answers}",
            f"{session.tokens} tokens",
            speed,
            f"acceptance {share(session.acceptance_rate)}",
            session.saved(),
        )
    )


def start_line(info: EngineInfo, started: Started, chosen: set[str]) -> str:
    """What answers, and how; `chosen` names the settings that were left to the program."""

    def note(name: str) -> str:
        return " (auto)" if name in chosen else ""

    parts = [
        f"target {started.target}",
        f"draft {draft}" if (draft := drafts_with(started.drafter, started.draft)) else "no draft model",
        f"speculation {started.speculate}",
        f"context {started.context}{note('context')}",
        f"{started.threads} {'thread' if started.threads == 1 else 'threads'}{note('threads')}",
        f"flash attention {info.flash_attn}{note('flash_attn')}",
    ]
    if info.gpu_layers or info.draft_gpu_layers:
        layers = f"{info.gpu_layers}+{info.draft_gpu_layers}" if started.draft else f"{info.gpu_layers}"
        parts.append(f"GPU layers {layers}{note('gpu_layers')}")
    return " · ".join(parts)
