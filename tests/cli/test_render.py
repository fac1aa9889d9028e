"""How tokens look: provenance by hue and without, control characters, figures with nothing behind them. S5, T10, P2."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.looks import LOOKS, MARKS, NAMES, look_of
from localspec.cli import render
from localspec.cli.render import Painter, legend, mode_for, stats_line
from localspec.cli.terminal import VisibleStream, one_line, visible
from localspec.engine.events import Stats
from tests.cli.streams import Stream

NOTHING = Stats(
    prompt_tokens=3, prompt_reused=0, ttft_s=None, tokens=0, decode_s=0.0, tokens_per_s=None, itl_ms_p50=None,
    itl_ms_p95=None, plain_tokens_per_s=None, baseline="none", speedup=None, cycles=0, proposed=0, judged=0, accepted=0,
    resampled=0, bonus=0, plain=0, acceptance_rate=None, tokens_per_cycle=None, draft_s=0.0, verify_s=0.0,
    overhead_s=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\n", "a\tb\n"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x1b[2J\x00\x7f", "␛[2J␀␡"),
        ("\x9b2J\x85", "<9B>2J<85>"),
        ("one\rtwo", "one␍two"),
        ("é 漢 🙂", "é 漢 🙂"),
    ],
)
def test_control_characters_are_marks(text: str, shown: str) -> None:
    """S5."""
    assert visible(text) == shown


@given(st.lists(st.sampled_from(["\x1b", "[2J", "\r", "\n", "\x9b", "a", "\r\n", ""]), max_size=12))
def test_marks_are_the_same_however_the_text_is_split(pieces: list[str]) -> None:
    """S5: an escape sequence split over tokens, CR LF split over tokens."""
    whole = "".join(pieces)
    stream = VisibleStream()
    assert "".join(map(stream.push, pieces)) + stream.finish() == visible(whole.replace("\r\n", "\n"))


def test_one_line_is_one_line() -> None:
    assert one_line("a\nb\x1b[0m\tc\n") == "a b␛[0m c"


def test_kinds_are_told_apart_without_hue() -> None:
    """T10."""
    looks = list(LOOKS)
    assert len({render.ATTRIBUTES[look] for look in looks}) == len(looks)
    assert len({render.MARKS[look] for look in looks}) == len(looks)
    assert len({render.HUES[look] for look in looks}) == len(looks)
    for mode in ("color", "attributes", "marks"):
        assert len({Painter(mode).paint("x", look) for look in looks}) == len(looks)
        for look in looks:
            assert render.NAMES[look] in legend(mode)
    assert legend("none") == ""


def test_the_drafter_of_an_accepted_token_is_told() -> None:
    assert look_of("accepted", "lookup") != look_of("accepted", "draft")
    assert look_of("bonus", "lookup") == look_of("bonus", "draft") == "bonus"


def test_every_token_ends_its_own_style() -> None:
    painted = Painter("color").paint("x", "bonus")
    assert painted.startswith("\x1b[1;4;34m")
    assert painted.endswith("x\x1b[0m")


def test_marks_of_neighbours_are_shared_and_closed() -> None:
    painter = Painter("marks")
    looks: list[render.Look] = ["plain", "lookup", "lookup", "bonus", "draft", "plain", "resampled", "bonus"]
    text = "".join(map(painter.paint, ["a", "b", "c", "", "d", "e", "f", "g"], looks))
    assert text + painter.finish() == "a‹bc›«d»e⟦f⟧⟨g⟩"
    assert painter.finish() == ""


@pytest.mark.parametrize(
    ("color", "terminal", "env", "mode"),
    [
        ("auto", True, {}, "color"),
        ("auto", False, {}, "none"),
        ("auto", True, {"NO_COLOR": "1"}, "attributes"),
        ("auto", True, {"TERM": "dumb"}, "none"),
        ("always", False, {}, "color"),
        ("always", False, {"NO_COLOR": "1"}, "color"),
        ("never", True, {}, "none"),
        ("marks", False, {}, "marks"),
    ],
)
def test_color_follows_option_stream_and_environment(
    color: render.Color, terminal: bool, env: dict[str, str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T10: NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert mode_for(color, Stream(terminal=terminal)) == mode


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert mode_for("auto", stream) == "none"


def test_a_figure_with_nothing_behind_it_is_a_dash() -> None:
    """P2."""
    line = stats_line(NOTHING)
    assert "– tokens/s" in line
    assert "speed-up –" in line
    assert "acceptance –" in line
    assert "first token –" in line


def test_the_readme_tells_the_looks_as_they_are() -> None:
    attributes = {"1": "bold", "3": "italic", "4": "underlined", "1;4": "bold and underlined", "": "as it is"}
    hues = {"32": "green", "36": "cyan", "35": "magenta", "34": "blue", "": ""}
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    for look in LOOKS:
        (row,) = (cells for cells in table if cells[0] == NAMES[look])
        mark = " ".join(MARKS[look])
        assert row[2:] == [
            hues[render.HUES[look]],
            attributes[render.ATTRIBUTES[look]],
            f"`{mark}`" if mark.strip() else "",
        ]
