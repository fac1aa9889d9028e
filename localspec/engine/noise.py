"""Noise for drawing, a function of (seed, position, token id) alone: whoever draws, and whenever, hears the same.

u = (h >> 12 + 1/2) 2^-52 with h = splitmix64(constant of the token id xor key of seed and position) (Steele, Lea and
Flood 2014). Keyed by the id and never by a rank, so that a filter or another model's order changes nothing. The
Gumbel noise of a token is -log(-log u); argmax of log-probability plus Gumbel noise follows the law (Gumbel 1954).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localspec.engine.distribution import Distribution

Hashes = NDArray[np.uint64]

_STEP = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1
_SHIFT, _UNIT = np.uint64(12), 2.0**-52
"""52 bits and a half are exact in float64, so that u is never 0 or 1; 53 bits would round up to 1."""

_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST = np.uint64(31)

_LIKELY = 1.0 / 64.0
"""Tokens at least this likely, beside the likeliest, are scored first: the winner is mostly among them."""


class Noise:
    """The noise of one seed (0 to 2^64 - 1)."""

    def __init__(self, seed: int) -> None:
        self._seed = _mix_int(seed & _MASK)

    def draw(self, law: Distribution, position: int) -> int:
        """The token that `law` and the noise say for place `position` of the text (prompt and answer, from 0).

        argmax over tokens of log law(x) + Gumbel noise of (position, x), the lowest id of equals; in the form that
        takes one logarithm less, argmin of -log u(x) / law(x). Over the seeds the token follows `law` exactly.
        """
        if law.ids is None:
            return self._draw_dense(law.probs, position)
        return int(law.ids[_first(self.uniforms(law.ids, position), law.probs)])

    def uniforms(self, ids: NDArray[np.int32], position: int) -> NDArray[np.float64]:
        """The u of tokens `ids` at `position`, inside (0, 1)."""
        return _uniforms(_mix(_constants_of(ids) ^ self._key(position)))

    def _draw_dense(self, probs: NDArray[np.float64], position: int) -> int:
        """As `draw`, over the whole vocabulary; most tokens need no logarithm.

        A token less likely than the threshold wins only with -log u below the best score so far times that threshold.
        """
        hashes = _mix(_constants(len(probs)) ^ self._key(position))
        threshold = float(probs.max()) * _LIKELY
        likely = (probs >= threshold).nonzero()[0]
        best = float(_scores(_uniforms(hashes[likely]), probs[likely]).min())
        rest = (hashes >= _bound(best * threshold)).nonzero()[0]
        rest = rest[(probs[rest] < threshold) & (probs[rest] > 0.0)]
        ids = np.sort(np.concatenate([likely, rest]))
        return int(ids[_first(_uniforms(hashes[ids]), probs[ids])])

    def _key(self, position: int) -> np.uint64:
        return np.uint64(_mix_int((self._seed + (position + 1) * _STEP) & _MASK))


def gumbel(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log(-log u)."""
    return -np.log(-np.log(uniforms))


def _scores(uniforms: NDArray[np.float64], probs: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", over="ignore"):
        return -np.log(uniforms) / probs


def _bound(score: float) -> np.uint64:
    """The least hash whose -log u may be below `score`, and two steps of u less than that for the rounding."""
    return np.uint64(max(0, int(np.exp(-score) / _UNIT) - 2) << int(_SHIFT))


def _first(uniforms: NDArray[np.float64], probs: NDArray[np.float64]) -> int:
    return int(_scores(uniforms, probs).argmin())


def _uniforms(hashes: Hashes) -> NDArray[np.float64]:
    return ((hashes >> _SHIFT).astype(np.float64) + 0.5) * _UNIT


def _mix(values: Hashes) -> Hashes:
    """splitmix64's finalizer, in place."""
    for shift, factor in _MIX:
        values ^= values >> shift
        values *= factor
    values ^= values >> _LAST
    return values


def _mix_int(value: int) -> int:
    return int(_mix(np.array([value], np.uint64))[0])


def _constants_of(ids: NDArray[np.int32]) -> Hashes:
    return _mix((ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP))


@lru_cache(maxsize=2)
def _constants(size: int) -> Hashes:
    """Of every token of a vocabulary: 1.2 MB for 152,000, and half of the time of a draw."""
    constants = _constants_of(np.arange(size, dtype=np.int32))
    constants.flags.writeable = False
    return constants
