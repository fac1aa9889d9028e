"""The loop: draft, verify, truncate, emit. All of it runs on the engine's one thread."""

import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from localspec.engine.blocks import blocks_of
from localspec.engine.bounds import Bounds
from localspec.engine.context import Aborted, Context
from localspec.engine.coupled import coupled
from localspec.engine.distribution import Distribution, top_probability
from localspec.engine.drafters.grammar import GrammarDrafter
from localspec.engine.errors import DecodeError, EngineError
from localspec.engine.events import MODEL_DRAFTERS, Event, Finished, Kind, Prefill, Reason, Started, Token
from localspec.engine.grammar import grammar_for
from localspec.engine.noise import Noise
from localspec.engine.refusals import check
from localspec.engine.requests import Request
from localspec.engine.rules import may_draw, rule_for
from localspec.engine.sampling import Sampler
from localspec.engine.sources import Sources
from localspec.engine.strategy import Proposal, Strategy
from localspec.engine.tally import Tally
from localspec.engine.text import TextStream
from localspec.engine.verify import Verdict, greedy, rejection
from localspec.engine.verify_block import block

if TYPE_CHECKING:
    from localspec.engine.engine import Engine

Rows = NDArray[np.float32]


@dataclass(slots=True)
class _Run:
    """Where an answer stands: what was emitted after `prompt`, and why it ended."""

    history: list[int]
    prompt: int
    text: list[str]
    reason: Reason | None = None

    @property
    def emitted(self) -> int:
        return len(self.history) - self.prompt


class Reply:
    """One request from prompt to end."""

    def __init__(self, engine: "Engine", request: Request) -> None:
        self._engine = engine
        self._request = request
        loaded = engine._loaded
        self._target: Context = loaded.target
        self._model = loaded.target.model
        self._begun = time.perf_counter()
        self._ids = engine._encoder.encode(request.prompt)
        self._text = len(self._ids) if self._target.encodes else 0
        check(request, len(self._ids), engine.info, self._target.size, engine._config.max_draft_length)
        seed = request.seed if request.seed is not None else secrets.randbits(32)
        drafter = engine._model_drafter
        try:
            self._rng = np.random.default_rng(seed)
            self._sampler = Sampler(request.sampling, self._model.vocab_size)
            self._stream = TextStream(request.stop)
            if drafter is not None:
                settings = request.sampling
                if request.draft_temperature is not None:
                    settings = replace(settings, temperature=request.draft_temperature)
                drafter.sampler, drafter.rng = Sampler(settings, self._model.vocab_size), self._rng
        except ValueError as error:
            raise EngineError(str(error)) from None
        self._grammar, self.notes = grammar_for(self._model, request)
        self._forced = GrammarDrafter(self._model, self._grammar) if self._grammar is not None else None
        mode = "off" if self._target.depth.kind == "none" else request.speculate
        drawn = may_draw(mode, engine.info.drafter) and not self._sampler.greedy
        self._rule = rule_for(request, drawn=drawn)
        self._noise = Noise(seed) if self._rule == "coupled" else None
        if drafter is not None:
            drafter.grammar, drafter.noise = self._grammar, self._noise
        agreement = engine._agreements.at_hand(promised=self._noise is not None and mode != "off")
        self._bounds = Bounds(
            self._target,
            request,
            self._ids,
            agreement,
            coupled=self._noise is not None,
            drafts=mode != "off",
            greedy=self._sampler.greedy,
        )
        self._keep_control = {
            token for text in request.keep_control if (token := self._model.special_tokens.get(text)) is not None
        }
        self._strategy = Strategy(
            mode,
            request.draft_length,
            engine._costs,
            engine._lookup,
            drafter,
            engine._experience,
            request.max_tokens,
            self._forced,
        )
        self._predictions = [tokens for text in request.predictions if (tokens := self._model.tokenize(text))]
        self._sources = Sources(self._model.piece, self._ids, request.sources, self._predictions)
        self._tally = Tally(len(self._ids), self._begun)
        self.started = Started(
            target=engine.info.target,
            draft=engine.info.draft,
            speculate=mode,
            verify=self._rule,
            reproducible=self._bounds.reproducible,
            context=self._target.size,
            threads=engine.info.threads,
            seed=seed,
            prompt_tokens=len(self._ids),
            grammar=self._grammar is not None,
            drafter=engine.info.drafter,
        )

    def close(self) -> None:
        """Give back the native memory of the grammar."""
        if self._engine._model_drafter is not None:
            self._engine._model_drafter.grammar = None
        if self._forced is not None:
            self._forced.close()
        if self._grammar is not None:
            self._grammar.close()

    def run(self) -> Iterator[Event]:
        """Prefill, then cycles until something ends the answer; a cancel at any point is one of the ends."""
        run = _Run(list(self._ids), len(self._ids), [])
        try:
            row = yield from self._prefill()
            blocks = blocks_of(self._model, self._ids, self._request.sources)
            self._strategy.begin(self._ids, self._predictions, blocks)
            law = self._law(row, run.history)
            now = time.perf_counter()
            self._tally.first = now
            yield from self._emit(run, [self._draw(law, len(run.history))], ["plain"], None, 0)
            self._strategy.accept(run.history[run.prompt :])
            while run.reason is None:
                yield from self._cycle(run)
        except Aborted:
            run.reason = "cancelled"
        yield from self._release(run, self._stream.finish())
        middle = run.prompt + run.emitted // 2
        plain_ms, baseline = self._engine._costs.baseline(middle, self._begun)
        stats = self._tally.stats(plain_ms, baseline, drafting=self._strategy.drafts)
        yield Finished(run.reason, "".join(run.text), stats)

    # -- prefill -----------------------------------------------------------------------------------------------------

    def _prefill(self) -> Generator[Event, None, NDArray[np.float32]]:
        """Bring the target to the prompt and return the last row of logits; the shared prefix is reused."""
        try:
            return (yield from self._feed_prompt())
        except DecodeError:
            # What was reused may be at fault: once more from an empty cache.
            self._target.clear()
            return (yield from self._feed_prompt())

    def _feed_prompt(self) -> Generator[Event, None, NDArray[np.float32]]:
        target, ids = self._target, self._ids
        reused = self._tally.prompt_reused = target.truncate(self._bounds.reusable)
        yield Prefill(reused, len(ids), reused)
        rows = np.empty((0, 0), np.float32)
        for start, end in self._bounds.chunks(reused, len(ids)):
            rows = self._decode(ids[start:end], 1 if end == len(ids) else 0)
            yield Prefill(end, len(ids), reused)
        row: NDArray[np.float32] = rows[-1]
        return row

    def _decode(self, tokens: Sequence[int], rows: int) -> Rows:
        if self._engine._abort.is_set:
            raise Aborted("cancelled")
        return self._target.decode(tokens, rows)

    def _law(self, row: NDArray[np.float32], history: Sequence[int], place: int = 0) -> Distribution:
        """The target's law after the first `place` tokens of the draft, which `history` ends with."""
        if self._grammar is None:
            return self._sampler.distribution(row, history)
        if self._grammar.is_complete(place):
            # Certain, whatever the model and the logit bias say of the tokens that end a text.
            return Distribution.one_hot(min(self._model.end_tokens))
        return self._sampler.distribution(row, history, self._grammar.allowed(place))

    def _draw(self, law: Distribution, position: int) -> int:
        """A token of `law` for place `position` of the text, by the rule's own draw."""
        if law.is_one_hot:
            return law.argmax
        return law.sample(self._rng) if self._noise is None else self._noise.draw(law, position)

    # -- one cycle ---------------------------------------------------------------------------------------------------

    def _cycle(self, run: _Run) -> Iterator[Event]:
        target, strategy = self._target, self._strategy
        if target.room < 1:
            run.reason = "context_full"
            return
        history = run.history
        before = len(history)
        drafting = self._draft_seconds()
        proposal = strategy.propose(history, self._bounds.draft(run.emitted), time.perf_counter())
        draft = proposal.draft
        if self._grammar is not None and self._grammar.admit(draft.tokens) < len(draft.tokens):
            raise RuntimeError("a draft goes against the grammar: it must be bounded before it is drawn or chosen")
        draft_s = self._draft_seconds() - drafting

        verifying = target.busy_s
        rows = self._decode([history[-1], *draft.tokens], 1 + len(draft.tokens))
        verify_s = target.busy_s - verifying

        verdict = self._verify(proposal, rows, history)
        chosen = [*draft.tokens[: verdict.accepted], verdict.token]
        kinds: list[Kind] = ["accepted"] * verdict.accepted
        kinds.append("plain" if not draft.tokens else "bonus" if verdict.accepted == len(draft.tokens) else "resampled")
        yield from self._emit(run, chosen, kinds, proposal, self._tally.cycles + 1)

        emitted = history[before:]
        accepted = min(verdict.accepted, len(emitted))
        # A rejection counts when the run was not cut before it; an end token was looked at, though not emitted.
        reached = len(emitted) + int(run.reason == "end_of_text")
        judged = accepted + int(verdict.accepted < min(len(draft.tokens), reached))
        now = time.perf_counter()
        costs = self._engine._costs
        costs.learn_pass(before, 1 + len(draft.tokens), verify_s, now)
        if proposal.drafter in MODEL_DRAFTERS:
            costs.learn_draft(before, proposal.behind, draft.passes, draft_s)
        if strategy.listens and emitted:
            strategy.heard(top_probability(rows[len(emitted) - 1]))
        strategy.learn(proposal, judged, accepted, emitted)
        # A pass that only found the end is, like the prompt's, outside the figures, which count tokens.
        if emitted:
            yield self._tally.cycle(
                drafter=proposal.drafter,
                proposed=len(draft.tokens),
                proposed_text=self._spell(draft.tokens),
                judged=judged,
                accepted=accepted,
                emitted=len(emitted),
                draft_s=draft_s,
                verify_s=verify_s,
                match_length=draft.match_length,
                read=proposal.behind if draft.passes else 0,
                passes=draft.passes,
                now=now,
                choice=proposal.choice,
                source=self._sources.of(draft.positions[0]) if draft.positions else None,
            )
        # Only now, when all that was emitted is counted: it may have to decode again, and be cancelled in it.
        # The accepted tokens are in the cache, the last one chosen is not; a cut takes away more.
        keep = min(before + verdict.accepted, len(history))
        kept = target.truncate(keep)
        if run.reason is None:
            for start, end in self._bounds.chunks(kept, keep):
                self._decode(history[start:end], 0)

    def _verify(self, proposal: Proposal, rows: Rows, history: list[int]) -> Verdict:
        """Judge the draft; row i is scored with the history that includes the i draft tokens before it."""
        tokens, probs = proposal.draft.tokens, proposal.draft.probs
        before = len(history)

        def seen(i: int) -> list[int]:
            history.extend(tokens[len(history) - before : i])
            return history

        def law(i: int) -> Distribution:
            return self._law(rows[i], seen(i), i)

        try:
            if self._sampler.greedy:
                return greedy(tokens, lambda i: law(i).argmax)
            if self._noise is not None:
                return coupled(tokens, law, self._noise, before)
            # On tokens proposed with certainty block verification is rejection.
            if self._rule == "block" and probs is not None:
                return block(tokens, probs, law, self._rng)
            return rejection(tokens, probs, law, self._rng)
        finally:
            del history[before:]

    # -- emitting ----------------------------------------------------------------------------------------------------

    def _emit(
        self, run: _Run, tokens: Sequence[int], kinds: Sequence[Kind], proposal: Proposal | None, cycle: int
    ) -> Iterator[Event]:
        """Emit a run of chosen tokens, cut at an end token, a completed stop string or the wanted number."""
        now = time.perf_counter() - self._begun
        for place, (token, kind) in enumerate(zip(tokens, kinds, strict=True)):
            if token in self._model.end_tokens:
                run.reason = "end_of_text"
                return
            copied = proposal.draft.positions if proposal and kind == "accepted" else ()
            source = self._sources.of(copied[place]) if copied else None
            run.history.append(token)
            if self._grammar is not None:
                self._grammar.advance(token)
            self._sources.wrote(token)
            self._tally.token(kind)
            kept = token in self._keep_control
            event = Token(token, "", kind, proposal.drafter_of(place) if proposal else "none", cycle, now, kept, source)
            piece = self._model.piece(token, special=kept)
            if self._text and run.emitted == 1 and self._model.begins_with_blank:
                # An encoder-decoder model's answer is a text of its own: the blank is the tokenizer's.
                piece = piece.removeprefix(b" ")
            yield from self._release(run, self._stream.push(event, piece))
            if self._stream.stopped:
                run.reason = "stop"
                return
            if self._grammar is not None and self._grammar.is_complete():
                run.reason = "end_of_text"
                return
            if run.emitted == self._request.max_tokens:
                run.reason = "max_tokens"
                return

    def _release(self, run: _Run, tokens: Sequence[Token]) -> Iterator[Event]:
        for token in tokens:
            run.text.append(token.text)
            yield token

    def _draft_seconds(self) -> float:
        drafter = self._engine._model_drafter
        return drafter.context.busy_s if drafter is not None else 0.0

    def _spell(self, tokens: Sequence[int]) -> str:
        return b"".join(self._model.piece(token) for token in tokens).decode("utf-8", "replace")
