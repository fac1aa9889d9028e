"""From the target's logits to the distribution the next token is drawn from.

The order is that of llama.cpp's default chain: logit bias, penalties (repetition, frequency, presence), top-k, top-p,
min-p, temperature. Penalties are a function of the history given, so nothing has to be rolled back when draft tokens
are rejected. What a grammar forbids is -inf before the filters; the first two steps change each logit by itself, so
that it does not matter whether it is before them too.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution
from localspec.engine.errors import EngineError
from localspec.engine.ranges import validate
from localspec.engine.requests import SamplerSettings

Logits = NDArray[np.float32]
Ids = NDArray[np.int32]

Allowed = Callable[[Ids], NDArray[np.bool_]]
"""Which of some tokens may come next."""

_FEW, _MANY = 64, 1024
"""Tokens asked about beyond those wanted, likeliest first, before all are asked about: a model nearly always ranks what
a grammar allows among its first guesses, and asking about all of 152,000 takes 8 to 17 ms."""

_BLOCK = 128
"""Logits a block: the k-th largest of the block maxima bounds the k-th largest logit from below, at the price of one
pass over the row."""

_BUCKETS_A_LOGIT = 16
_BUCKETS = 40 * _BUCKETS_A_LOGIT + 1
"""Top-p alone sorts only the bucket of logits its cut falls into; what is 40 logits below the best shares the last."""


class NothingAllowed(EngineError):
    """No token is left to choose from."""


class Sampler:
    """One request's settings applied to rows of logits. Keeps no state between rows.

    Raises ValueError when a setting is out of range (see `validate`).
    """

    def __init__(self, settings: SamplerSettings, vocab_size: int) -> None:
        validate(settings, vocab_size)
        self._settings = settings
        self._bias_ids = np.array(list(settings.logit_bias), np.int32)
        self._bias = np.array(list(settings.logit_bias.values()), np.float32)
        self._penalises = settings.penalty_last_n != 0 and (
            settings.repeat_penalty != 1.0 or settings.frequency_penalty != 0.0 or settings.presence_penalty != 0.0
        )

    @property
    def greedy(self) -> bool:
        """Temperature 0: every distribution is one-hot."""
        return self._settings.temperature == 0.0

    def argmax(self, logits: Logits, history: Sequence[int], allowed: Allowed | None = None) -> int:
        """The token with the largest logit after bias and penalties, the lowest id of equals. Arguments and errors as
        for `distribution`."""
        logits = self._adjusted(logits, history)
        token = int(logits.argmax())
        _check(float(logits[token]))
        if allowed is None or allowed(np.array([token], np.int32))[0]:
            return token
        return int(_likeliest(logits, 1, allowed)[0])

    def distribution(self, logits: Logits, history: Sequence[int], allowed: Allowed | None = None) -> Distribution:
        """The distribution of the token after `history` (prompt and answer, oldest first), among those `allowed`.

        `logits` has shape (vocabulary,) and is only read. At temperature 0 the argmax, one-hot. Raises EngineError when
        the logits are not numbers, `NothingAllowed` when every token is forbidden.
        """
        if self.greedy:
            return Distribution.one_hot(self.argmax(logits, history, allowed))
        logits = self._adjusted(logits, history)
        best = float(logits.max())
        _check(best)
        if allowed is not None:
            logits = self._masked(logits, allowed)
            best = float(logits.max())
        ids = self._filtered(logits, best)
        scaled = (logits if ids is None else logits[ids]).astype(np.float64)
        scaled -= best
        with np.errstate(over="ignore"):
            scaled /= self._settings.temperature
            np.exp(scaled, out=scaled)
        if ids is not None and not scaled.all():
            possible = scaled.nonzero()[0]
            ids, scaled = ids[possible], scaled[possible]
        scaled /= scaled.sum()
        return Distribution(ids, scaled)

    def _adjusted(self, logits: Logits, history: Sequence[int]) -> Logits:
        """`logits` after bias and penalties: a copy when there are any."""
        settings = self._settings
        if len(self._bias_ids):
            logits = logits.copy()
            logits[self._bias_ids] += self._bias
        if self._penalises and history:
            recent = history if settings.penalty_last_n < 0 else history[-settings.penalty_last_n :]
            seen = Counter(recent)
            ids = np.fromiter(seen.keys(), np.int32, len(seen))
            counts = np.fromiter(seen.values(), np.float32, len(seen))
            values = logits[ids]
            repeat = np.float32(settings.repeat_penalty)
            # Dividing a negative logit would make its token likelier.
            values = np.where(values <= 0, values * repeat, values / repeat)
            values -= counts * np.float32(settings.frequency_penalty) + np.float32(settings.presence_penalty)
            if not len(self._bias_ids):
                logits = logits.copy()
            logits[ids] = values
        return logits

    def _masked(self, logits: Logits, allowed: Allowed) -> Logits:
        """`logits` with -inf for what is not `allowed`, and for what the filters are certain to drop besides."""
        settings = self._settings
        if 0 < settings.top_k < len(logits):
            ids = _likeliest(logits, settings.top_k, allowed)
        elif settings.top_p == 1.0 and settings.min_p > 0.0:
            best = float(logits[_likeliest(logits, 1, allowed)[0]])
            ids = (logits >= _floor(best, settings.min_p)).nonzero()[0].astype(np.int32)
            ids = ids[allowed(ids)]
        else:
            ids = _all_allowed(logits, allowed)
        masked = np.full_like(logits, -np.inf)
        masked[ids] = logits[ids]
        return masked

    def _filtered(self, logits: Logits, best: float) -> Ids | None:
        """The ids that top-k, top-p and min-p leave, ascending; None when all three are off."""
        settings = self._settings
        ids: Ids | None = None
        if 0 < settings.top_k < len(logits):
            ids = _largest(logits, settings.top_k)
        if settings.top_p < 1.0:
            ids = _top_p(logits, best, settings.top_p) if ids is None else _top_p_of(logits, ids, best, settings.top_p)
        if settings.min_p > 0.0:
            floor = _floor(best, settings.min_p)
            if ids is None:
                return (logits >= floor).nonzero()[0].astype(np.int32)
            ids = ids[logits[ids] >= floor]
        if ids is not None:
            ids.sort()
        return ids


def _check(best: float) -> None:
    if best == -math.inf:
        raise NothingAllowed("no token is allowed: the logit bias forbids every one; allow at least one")
    if not math.isfinite(best):
        raise EngineError(
            "the model's output is not a number: the file may be damaged, or the GPU at fault; "
            "check the model file, or try without GPU layers"
        )


def _floor(best: float, min_p: float) -> np.float32:
    return np.float32(best) + np.float32(math.log(min_p))


def _likeliest(logits: Logits, count: int, allowed: Allowed) -> Ids:
    """The ids of the `count` largest logits among allowed tokens, largest first, equals by id; fewer when fewer are.

    Raises `NothingAllowed` when none is.
    """
    for more in (_FEW, _MANY):
        if count + more < len(logits):
            ids = _largest(logits, count + more)
            ids = ids[allowed(ids)]
            if len(ids) >= count:
                return ids[:count]
    ids = _all_allowed(logits, allowed)
    return ids[(-logits[ids]).argsort(kind="stable")[:count]]


def _all_allowed(logits: Logits, allowed: Allowed) -> Ids:
    """Every allowed token that has a logit at all, ascending. Raises `NothingAllowed` when there is none."""
    ids = (logits > -np.inf).nonzero()[0].astype(np.int32)
    ids = ids[allowed(ids)]
    if not len(ids):
        raise NothingAllowed("the grammar allows no token here that the model has and the logit bias leaves")
    return ids


def _largest(logits: Logits, count: int) -> Ids:
    """The ids of the `count` largest logits, largest first, equals by id. Fewer when the rest is -inf."""
    size = len(logits)
    blocks = size // _BLOCK
    if count >= size:
        bound = np.float32(-np.inf)
    elif count <= blocks // 2:
        maxima = logits[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        bound = np.partition(maxima, blocks - count)[blocks - count]
    else:
        bound = np.partition(logits, size - count)[size - count]
    candidates = (logits > bound if bound == -np.inf else logits >= bound).nonzero()[0]
    order = (-logits[candidates]).argsort(kind="stable")[:count]
    return candidates[order].astype(np.int32)


def _weights(logits: Logits, best: float) -> NDArray[np.float64]:
    weights = logits.astype(np.float64)
    weights -= best
    np.exp(weights, out=weights)
    return weights


def _kept(weights: NDArray[np.float64], mass: float) -> int:
    """How many of the falling `weights` it takes to reach `mass`: the one that reaches it is kept."""
    return int(weights.cumsum().searchsorted(mass)) + 1


def _top_p_of(logits: Logits, ids: Ids, best: float, top_p: float) -> Ids:
    """The first of `ids` (largest logit first) whose share of the probability among `ids` reaches `top_p`."""
    weights = _weights(logits[ids], best)
    return ids[: _kept(weights, top_p * float(weights.sum()))]


def _top_p(logits: Logits, best: float, top_p: float) -> Ids:
    """As `_top_p_of` for the whole vocabulary, without sorting it; ids ascending."""
    weights = _weights(logits, best)
    buckets = np.minimum((np.float32(best) - logits) * _BUCKETS_A_LOGIT, _BUCKETS - 1).astype(np.intp)
    reached = np.bincount(buckets, weights, _BUCKETS).cumsum()
    mass = top_p * float(reached[-1])
    edge = int(reached.searchsorted(mass))
    inside = (buckets == edge).nonzero()[0]
    inside = inside[(-logits[inside]).argsort(kind="stable")]
    kept = buckets < edge
    kept[inside[: _kept(weights[inside], mass - float(reached[edge - 1] if edge else 0.0))]] = True
    chosen: Ids = kept.nonzero()[0].astype(np.int32)
    return chosen
