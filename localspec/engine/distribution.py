"""A probability distribution over the vocabulary, as small as it can be.

After the filters a few dozen tokens are left of 152,000: `ids` names them, and every operation costs by their number.
Without filters `ids` is None and `probs` covers the whole vocabulary. A one-hot distribution is one id.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Uniform(Protocol):
    """What a draw needs of a `numpy.random.Generator`: uniforms in [0, 1)."""

    def random(self) -> float: ...


_CERTAIN: NDArray[np.float64] = np.ones(1)
_CERTAIN.flags.writeable = False


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Probabilities `probs` (float64, sum 1) of the tokens `ids` (int32, ascending), of all tokens when `ids` is None.

    Tokens not in `ids` have probability 0. The arrays belong to the distribution and are not written to again.
    """

    ids: NDArray[np.int32] | None
    probs: NDArray[np.float64]

    @classmethod
    def one_hot(cls, token: int) -> "Distribution":
        """All probability on `token`."""
        return cls(np.array([token], np.int32), _CERTAIN)

    @classmethod
    def from_weights(cls, ids: NDArray[np.int32] | None, weights: NDArray[np.float64]) -> "Distribution | None":
        """Non-negative `weights` divided by their sum; None when all are 0. `ids` as in the class."""
        total = float(weights.sum())
        return cls(ids, weights / total) if total > 0.0 else None

    @property
    def is_one_hot(self) -> bool:
        """Only one token is possible, and it is the only one stored."""
        return self.ids is not None and len(self.ids) == 1

    @property
    def argmax(self) -> int:
        """The most probable token, the lowest id of equals."""
        return self._token(int(self.probs.argmax()))

    def prob(self, token: int) -> float:
        """The probability of `token`."""
        if self.ids is None:
            return float(self.probs[token])
        at = int(self.ids.searchsorted(token))
        return float(self.probs[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    def sample(self, rng: Uniform) -> int:
        """A token drawn by inverting the cumulative sum at one uniform; never one of probability 0."""
        uniform = rng.random()
        cumulative = self.probs.cumsum()
        # "right" finds the first sum above the point, and a sum only grows at a positive probability. There is one: a
        # number below 1 times the last sum is below it, rounded too.
        return self._token(int(cumulative.searchsorted(uniform * cumulative[-1], side="right")))

    def excess(self, other: "Distribution", scale: float = 1.0) -> "Distribution | None":
        """max(0, scale * self - other), normalised: what of self other does not cover. None when nothing is left."""
        return Distribution.from_weights(self.ids, self._above(other, scale))

    def surplus(self, other: "Distribution", scale: float = 1.0) -> float:
        """The sum of max(0, scale * self - other): with scale 1 the total variation between the two."""
        return float(self._above(other, scale).sum())

    def _above(self, other: "Distribution", scale: float) -> NDArray[np.float64]:
        """max(0, scale * self - other) at self's tokens."""
        left = self.probs * scale
        if self.ids is None:
            if other.ids is None:
                left -= other.probs
            else:
                left[other.ids] -= other.probs
        elif other.ids is None:
            left -= other.probs[self.ids]
        else:
            at = other.ids.searchsorted(self.ids)
            np.minimum(at, len(other.ids) - 1, out=at)
            left -= np.where(other.ids[at] == self.ids, other.probs[at], 0.0)
        np.maximum(left, 0.0, out=left)
        return left

    def _token(self, at: int) -> int:
        return at if self.ids is None else int(self.ids[at])


NEAR = 14.0
"""Logits this far below the largest are left out of a sum of their exponentials. Those of a vocabulary of 150,000
tokens could come to an eighth of it; on 469 rows of a real model it was a two-hundredth at most."""


def top_probability(row: NDArray[np.float32]) -> float:
    """The largest probability of the softmax of a row of logits, `NEAR` enough for an estimate: it is asked of every
    token, and the exponentials of a whole row took 1 % of a small model's pass."""
    top = row.max()
    return float(1.0 / np.exp(row[row > top - NEAR] - top).sum())
