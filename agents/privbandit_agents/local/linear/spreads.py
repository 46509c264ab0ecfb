"""How far a user's arms differ in every feature: found from private reports of powers of two."""

import math

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.vectors import lengths, smat, svec

OCTAVES = 16
"""Half the range of a feature over a user's arms lies in (2^-(q+1), 2^-q], q = 0, 1, ...; the last is 2^-15 or less."""
STAGES = 3
"""How often users are asked, at most, for the directions of their arms' differences."""


def octaves(arms: Array, feature: int) -> Array:
    """Return one-hot vectors of each user's octave in a feature, contexts (n, K, d) to shape (n, OCTAVES)."""
    half = np.ptp(arms[:, :, feature], axis=1) / 2
    with np.errstate(divide="ignore"):
        place = np.clip(np.floor(-np.log2(half)), 0, OCTAVES - 1)
    return np.asarray(place[:, None] == np.arange(OCTAVES), float)


class Spreads:
    """The server's knowledge of the spread of every feature between the arms of a user.

    Everything here is a function of noisy sums and public constants.

    Attributes:
        sums: noisy numbers of users in every octave, by feature, shape (d, OCTAVES).
        asked: how many users were asked about each feature, shape (d,).
        decided: whether the spread is known, or will not be, shape (d,).
        size: the middle of the octave that holds most users with differing arms, or of three octaves if none stands
            out; 1 where it is not known, shape (d,).
        varies: False where most users' arms agree in the feature, shape (d,).
        noise: standard deviation of a share in one report.
        most: how many users are asked about a feature at most; 0: nobody is asked.
    """

    def __init__(self, dim: int, noise: float, horizon: int) -> None:
        self.sums, self.asked = np.zeros((dim, OCTAVES)), np.zeros(dim)
        self.decided, self.varies, self.size = np.zeros(dim, bool), np.ones(dim, bool), np.ones(dim)
        # of users: 128 times the variance of a report's coordinate for a feature, and a 25th of all
        fewest = 30  # users a feature, else nobody is asked
        self.noise, self.most = noise, min(max(fewest, 128 * noise**2), 0.04 * horizon / dim)
        if self.most < fewest:
            self.most, self.decided[:] = 0, True

    @property
    def known(self) -> bool:
        return bool(self.decided.all())

    @property
    def next(self) -> int:
        """The feature to ask about: of those that are not decided the one with fewest users."""
        return int(np.argmin(np.where(self.decided, np.inf, self.asked)))

    def add(self, feature: int, total: Array, users: int) -> None:
        """Take in the noisy numbers of users in every octave, shape (OCTAVES,), and decide if it is time."""
        self.sums[feature] += total
        self.asked[feature] += users
        shares, error = self.sums[feature] / self.asked[feature], self.noise / math.sqrt(self.asked[feature])
        place, last = int(shares[:-1].argmax()), self.asked[feature] >= self.most
        # an octave stands out of the noise, or half of the users have the same arms
        at_last = 3.5
        clear = shares[place] > (at_last if last else 4.5) * error
        agreed = shares[-1] > (0.0 if last else 0.5) + at_last * error
        self.decided[feature] = clear or agreed or last
        if clear:
            above = shares[place - 1] if place else 0.0
            # the middle of the octave
            self.size[feature] = 2.0 ** -(place + 0.5 - (above > max(at_last * error, shares[place] / 4)))
        elif agreed:
            self.varies[feature] = False
        elif last:  # no octave stands out: the middle of three that do
            three = np.convolve(shares[:-1], np.ones(3), "valid")
            if three.max() > at_last * math.sqrt(3) * error:
                self.size[feature] = 2.0 ** -(int(three.argmax()) + 1.5)


def directions(arms: Array, whitened: Array) -> Array:
    """Return svec of the mean of v v' over each user's arms, contexts (n, K, d) to shape (n, m (m + 1) / 2).

    v is the direction of W (x - the mean of the user's arms), 0 if that is shorter than a thousandth.

    Args:
        arms: features in the unit ball.
        whitened: W, shape (m, d).
    """
    centred = arms - arms.mean(axis=1, keepdims=True)
    v = np.vecdot(centred[:, :, None, :], whitened)  # the same whoever else comes
    long = lengths(v)
    v = np.where(long > 1e-3, v / np.maximum(long, 1e-3), 0.0).swapaxes(1, 2)
    return svec(np.vecdot(v[:, :, None, :], v[:, None, :, :]) / arms.shape[1])


class Scatter:
    """The server's knowledge of how a user's arms differ in all directions, first from spreads, then from stages.

    Each stage asks users for the directions of their arms' differences in units of what is known, and stretches those
    that are rare, as far as the noise permits: Tyler's estimate of a scatter matrix, by private iterates.
    Everything here is a function of noisy sums and public constants.

    Attributes:
        matrix: the scatter of half the difference of two arms, 0 along directions in which arms agree, shape (d, d).
        whitened: W, which makes differences alike in all directions, shape (m, d).
        left: stages to come; 0: nobody is asked.
        most: how many users a stage asks.
        length: of features on average, about, at most 1.
        noise: standard deviation of a coordinate of ``directions`` in one report.
        moment, asked: noisy sum of this stage's reports, shape (m (m + 1) / 2,), and their number.
    """

    def __init__(self, size: Array, varies: Array, noise: float, horizon: int, length: float = 1.0) -> None:
        self.length, self.horizon = length, horizon
        self.size, self.noise = np.where(varies, size, 0.0), math.hypot(noise, 0.5)  # the users' own, too
        self.matrix, self.whitened = np.diag(self.size**2), np.eye(len(size))[varies] / size
        m = int(varies.sum())
        self.most = self.needed(0.07, 0.25, m)  # coarse: the first stage may find nothing
        # differences as large as features need no stretch, and beyond an error of .1 nothing is seen
        near = np.trace(self.matrix) < 0.6 * length**2
        asked = m > 1 and near and self.most > (self.noise / 0.1) ** 2
        self.left = STAGES if asked else 0
        self.moment, self.asked = np.zeros(m * (m + 1) // 2), 0

    def needed(self, error: float, part: float, m: int) -> int:
        """Return how many users a stage takes for an error of a coordinate, about a part of 1 / m in spectral norm."""
        error = min(error, part / math.sqrt(max(1, m) ** 3))
        return min(math.ceil((self.noise / error) ** 2), int(0.0125 * self.horizon))  # an 80th of all users

    @property
    def small(self) -> bool:
        """Whether arms are known to differ, and by little of their length."""
        return bool(0 < np.trace(self.matrix) < 0.2 * self.length**2)

    def add(self, total: Array, users: int) -> bool:
        """Take in the noisy sum of users' ``directions``; return whether the matrix is another one now."""
        self.moment, self.asked = self.moment + total[: len(self.moment)], self.asked + users
        if self.asked < self.most:
            return False
        values, vectors = np.linalg.eigh(smat(self.moment / self.asked))
        error = self.noise / math.sqrt(self.asked)
        first, raised = self.left == STAGES, np.maximum(values, 2 * error)  # two standard errors
        part = math.sqrt(len(values) / 2) * error  # half of the noise's spectral norm
        settled = values[-1] - part < 3 * (values[0] + part)
        self.left = 0 if settled else self.left - 1
        if settled and first:
            return False  # what the spreads say is right
        self.whitened = (vectors / np.sqrt(raised)).T @ self.whitened
        self.moment, self.asked, self.most = np.zeros_like(self.moment), 0, self.needed(0.02, 0.3, len(values))
        if self.left:
            return False
        # on the scale of the spreads, which are half the range: about sqrt(1 / .7) times a typical difference
        clear = values > 3 * error  # other eigenvalues count as 0
        if not clear.any():
            return False
        back = np.linalg.pinv(self.whitened)[:, clear]
        matrix, varies = back @ back.T, self.size > 0
        shares = np.diagonal(matrix)[varies] / self.size[varies] ** 2
        self.matrix = 0.7 * matrix / math.exp(np.log(np.maximum(shares, 1e-12)).mean())
        return True

    def stretch(self) -> Array:
        """Return S, symmetric, by which differences fill the unit ball; it leaves other directions, shape (d, d)."""
        values, vectors = np.linalg.eigh(self.matrix)
        varies = values > 1e-12
        share = 1 / max(1, varies.sum())
        factors = np.sqrt(np.where(varies, np.maximum(share / np.where(varies, values, 1.0), 1.0), 1.0))
        return np.asarray((vectors * factors) @ vectors.T)

    def angle(self, one: Array, other: Array) -> float:
        """Return the angle between two parameters where arms differ, in units of their spread, 0 without spread."""
        length = math.sqrt(max(0.0, (one @ self.matrix @ one) * (other @ self.matrix @ other)))
        return math.acos(min(1.0, max(-1.0, float(one @ self.matrix @ other) / length))) if length > 0 else 0.0
