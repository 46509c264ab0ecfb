"""Regression on the few features that matter: records in units of their own, and a belief on a support.

The belief is post-processing of releases and reports; it reads no data.
"""

import math

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.privacy.contributions.quadratic import improved

Floats = NDArray[np.float64]


def in_own_units(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return records in units of the root mean square of each one's own features; of zeros they stay as they are."""
    size = np.sqrt(np.vecdot(x, x) / x.shape[1])
    size = np.where(size > 1e-100, size, 1.0)
    return x / size[:, None], y / size


def shortened(x: Floats) -> Floats:
    """Return features on the support, (n, m), in units of 1.5 sqrt(m) and scaled down into the unit ball."""
    units: Floats = x / max(1.0, 1.5 * math.sqrt(x.shape[1]))
    return np.asarray(units / np.maximum(np.sqrt(np.vecdot(units, units)), 1.0)[:, None])


class Support:
    """A Gaussian belief about the coefficients of the chosen features; all others are 0.

    Attributes:
        chosen: features, in the order of choice, shape (m,).
        theta: means of their coefficients, shape (m,).
        precision: of their coefficients, shape (m, m).
    """

    def __init__(self) -> None:
        self.chosen: NDArray[np.int64] = np.zeros(0, np.int64)
        self.theta, self.precision = np.zeros(0), np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self.chosen)

    def all_of(self, dim: int) -> Floats:
        """Return the coefficients of all d features."""
        theta = np.zeros(dim)
        theta[self.chosen] = self.theta
        return theta

    def choose(self, features: NDArray[np.intp], values: Floats, variance: float) -> None:
        """Add features with independent beliefs."""
        before, total = len(self), len(self) + len(features)
        grown = np.eye(total) / variance
        grown[:before, :before] = self.precision
        self.chosen, self.theta = np.append(self.chosen, features), np.append(self.theta, values)
        self.precision = grown

    def learn(self, score: Floats, gram: Floats, noises: tuple[float, float], slope: float, spread: float) -> None:
        """Take in noisy sums over users: of x clip(r), and of x x', on the support; r are residuals at theta.

        Args:
            score: shape (m,); it is gram (beta - theta) slope in the mean.
            gram: shape (m, m).
            noises: standard deviations of the noise of a coordinate of both (of the second by ``svec``).
            slope: by which clipping shrinks the mean.
            spread: mean square of a clipped residual.
        """
        scale = slope / spread
        found = -scale * score, slope * scale * gram
        self.precision, move = improved(self.precision, *found, scale * noises[0], slope * scale * noises[1])
        self.theta = self.theta + move

    def drop(self) -> None:
        """Drop features whose coefficients are within 1.5 standard deviations of 0, the least clear one first.

        The others' belief is the conditional one, given a coefficient of 0.
        """
        while len(self):
            deviations = np.sqrt(np.diagonal(np.linalg.inv(self.precision)))
            clearness = np.abs(self.theta) / deviations
            least = int(clearness.argmin())
            if clearness[least] >= 1.5:
                return
            rest = np.delete(np.arange(len(self)), least)
            kept = self.precision[np.ix_(rest, rest)]
            moved = np.linalg.solve(kept, self.precision[rest, least] * self.theta[least]) if len(rest) else 0.0
            self.theta, self.precision, self.chosen = self.theta[rest] + moved, kept, self.chosen[rest]
