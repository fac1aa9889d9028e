"""Session and live figures: sums that add up, and words that are true of them."""

from dataclasses import replace

import pytest

from localspec.chat.session import Live, Session
from localspec.engine.events import Cycle, Finished, Prefill, Started, Stats, Token
from localspec.engine.requests import EngineConfig, Request
from tests.fake_engine import FakeEngine, Say, Script, plain

RUN = [
    *plain("a"),
    Say(("b", "c"), ("bonus", "d")),
    Say(("e",), ("resampled", "f"), drafter="draft", proposed=4),
    *plain("g"),
]


def events(script: Script) -> list[object]:
    engine = FakeEngine(EngineConfig("t.gguf"), scripts=[script])
    engine.start()
    return list(engine.generate(Request(())))


def session_of(*scripts: Script) -> Session:
    session = Session()
    for script in scripts:
        for event in events(script):
            if isinstance(event, Cycle):
                session.cycle(event)
            if isinstance(event, Finished):
                session.finished(event.stats)
    return session


class TestSession:
    def test_it_sums_over_answers(self) -> None:
        session = session_of(Script(RUN), Script(RUN))
        assert session.answers == 2
        assert session.tokens == 14
        assert dict(session.kinds) == {"accepted": 6, "resampled": 2, "bonus": 2, "plain": 4}
        assert sum(session.kinds.values()) == session.tokens
        assert session.drafters["lookup"].accepted == 4
        assert (session.drafters["draft"].proposed, session.drafters["draft"].accepted) == (8, 2)
        assert dict(session.runs) == {2: 2, 1: 2}
        assert session.acceptance_rate == pytest.approx(6 / 8)
        assert session.tokens_per_cycle == pytest.approx(12 / 6)

    def test_time_saved_is_plain_time_minus_time_taken(self) -> None:
        """Six decoded tokens at 50/s plain take .12 s; three cycles of .01 s were enough."""
        session = session_of(Script(RUN, plain_tokens_per_s=50.0))
        assert session.saved_s == pytest.approx(0.12 - 0.03)
        assert session.speedup == pytest.approx(4.0)
        assert session.saved() == "0.1 s saved in 1 answer"

    def test_nothing_behind_a_figure_is_no_figure(self) -> None:
        """P2: a rate with nothing tested is none."""
        session = Session()
        assert (session.acceptance_rate, session.tokens_per_cycle, session.speedup) == (None, None, None)
        assert session.saved() == "no baseline yet"
        session = session_of(Script(RUN, plain_tokens_per_s=None))
        assert session.speedup is None
        assert session.saved() == "no baseline yet"

    def test_a_loss_is_called_one(self) -> None:
        session = session_of(Script(RUN, plain_tokens_per_s=100_000.0))
        assert session.saved_s < 0
        assert session.saved() == "as fast as plain in 1 answer"
        session.saved_s = -75.0
        assert session.saved() == "75 s lost in 1 answer"

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(41.2, "41 s saved in 9 answers"), (600.0, "10 min saved in 9 answers"), (9000.0, "2.5 h saved in 9 answers")],
    )
    def test_durations_in_words(self, seconds: float, words: str) -> None:
        assert Session(compared=9, saved_s=seconds).saved() == words

    @pytest.mark.parametrize(
        ("script", "begins"),
        [
            (Script(RUN, plain_tokens_per_s=50.0), "Faster:"),
            (Script(RUN, plain_tokens_per_s=195.0), "As fast as plain:"),
            (Script(RUN, plain_tokens_per_s=400.0), "Slower:"),
            (Script(RUN, plain_tokens_per_s=None), "43% of the tokens"),
            (Script(plain("a", "b")), "Nothing was drafted"),
        ],
    )
    def test_why_follows_the_figures(self, script: Script, begins: str) -> None:
        assert session_of(script).why().startswith(begins)

    def test_right_guesses_are_not_blamed(self) -> None:
        """Three right ones among fifty tokens: "only 100 % were right" would be the truth and no reason."""
        few = Script([*plain(*"x" * 47), Say(tuple("abc"), ("bonus", "d"))], plain_tokens_per_s=400.0)
        assert session_of(few).why() == (
            "Slower: copying from the chat found little to guess in this text (6% of the tokens)."
        )

    def test_edits_are_told_apart_from_chat(self) -> None:
        session = session_of(Script(RUN, plain_tokens_per_s=50.0))
        edit = events(Script([*plain("a"), Say(tuple("bcdefgh"), ("bonus", "i"))], plain_tokens_per_s=50.0))[-1]
        bare = events(Script(RUN, plain_tokens_per_s=None))[-1]
        assert isinstance(edit, Finished)
        assert isinstance(bare, Finished)
        session.finished(edit.stats, "edits")
        session.finished(bare.stats, "edits")
        chat, edits = session.uses["chat"], session.uses["edits"]
        assert (chat.answers, edits.answers) == (1, 2)
        assert chat.speedup == pytest.approx(4.0)
        assert edits.speedup == pytest.approx(16.0)
        assert chat.tokens_per_cycle == pytest.approx(6 / 3)
        assert edits.tokens_per_cycle == pytest.approx((8 + 6) / (1 + 3))
        assert session.speedup == pytest.approx((6 + 8) / 50 / 0.04)

    def test_why_without_answers(self) -> None:
        assert Session().why() == "Nothing answered yet."


def live_of(script: Script, count: int | None = None, before: Stats | None = None) -> Live:
    live = Live(before)
    for event in events(script)[:count]:
        live.take(event)
    return live


class TestLive:
    def test_nothing_yet(self) -> None:
        live = Live()
        figures = (
            live.tokens_per_s,
            live.speedup,
            live.acceptance_rate,
            live.tokens_per_cycle,
            live.ttft_s,
            live.itl_ms,
        )
        assert figures == (None,) * 6
        assert live.reading
        assert live.drafting() == "–"

    def test_figures_while_it_runs_agree_with_the_end(self) -> None:
        script = Script(RUN)
        before_end, end = live_of(script, -1), live_of(script)
        assert end.stats is not None
        assert before_end.tokens_per_s == pytest.approx(end.tokens_per_s)
        assert before_end.acceptance_rate == pytest.approx(end.acceptance_rate)
        assert before_end.tokens_per_cycle == pytest.approx(end.tokens_per_cycle)
        assert before_end.ttft_s == pytest.approx(end.ttft_s)

    def test_the_baseline_is_named(self) -> None:
        known = live_of(Script(RUN)).stats
        running = live_of(Script(RUN), -1, known)
        assert running.plain_tokens_per_s == 50.0
        assert running.baseline == "measured"
        assert live_of(Script(RUN), -1).baseline == "none"
        assert live_of(Script(plain(*"abcdef")), -1).baseline == "measured"

    def test_reading_the_prompt(self) -> None:
        live = Live()
        live.take(Started("t", None, "auto", "rejection", False, 4096, 2, 1, 1000))
        live.take(Prefill(256, 1000, 100))
        assert live.reading
        assert live.context_used == 256
        live.take(Token(1, "x", "plain", "none", 0, 0.5))
        assert not live.reading
        assert live.context_used == 1001

    def test_the_drafter_in_use(self) -> None:
        started = Started("t", "d", "auto", "rejection", False, 4096, 2, 1, 10)
        cycle = Cycle(1, "lookup", 7, "x", 7, 7, 8, 0.1, 10.0)
        live = Live()
        live.take(started)
        assert live.drafting() == "nothing drafted yet"
        live.take(cycle)
        assert live.drafting() == "lookup, 7 tokens"
        for _ in range(8):
            live.take(replace(cycle, drafter="none", proposed=0, accepted=0, judged=0, emitted=1))
        assert live.drafting() == "drafting paused: does not pay here"
        live.take(replace(cycle, drafter="draft", proposed=1))
        assert live.drafting() == "draft model, 1 token"
        live.take(replace(started, speculate="off"))
        assert live.drafting() == "drafting off"
