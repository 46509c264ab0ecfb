"""How far a user's arms differ in every feature: found from private reports of powers of two."""

import math

import numpy as np

from privbandit_agents.base.agent import Array

OCTAVES = 16
"""Half the range of a feature over a user's arms lies in (2^-(q+1), 2^-q], q = 0, 1, ...; the last is 2^-15 or less."""


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
        size: the middle of the octave that holds most users with differing arms; 1 where it is not known, shape (d,).
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

    def stretches(self) -> Array:
        """Return by how much every feature is stretched so that differences fill the unit ball, shape (d,)."""
        share = 1 / math.sqrt(max(1, self.varies.sum()))
        return np.where(self.varies, np.maximum(share / self.size, 1.0), 1.0)

    def angle(self, one: Array, other: Array) -> float:
        """Return the angle between two parameters where arms differ, in units of their spread, 0 without spread."""
        one, other = (np.where(self.varies, self.size * theta, 0.0) for theta in (one, other))
        length = float(np.linalg.norm(one) * np.linalg.norm(other))
        return math.acos(min(1.0, max(-1.0, float(one @ other) / length))) if length > 0 else 0.0
