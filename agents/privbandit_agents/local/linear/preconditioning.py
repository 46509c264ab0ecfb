"""What one generation of reports tells about theta, and about the coordinates in which the reports were made."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.privacy.contributions.moments import noise_of_gram, unpack

Floats = NDArray[np.float64]
KEPT = 0.3  # weight of the coordinate that says whether a record lies inside the ball
LEAST_KEPT = 0.5  # P shrinks if fewer users than this share lie inside the ball
SHRINK = 1.4
LARGEST = 8.0  # no direction is stretched more than this at once
RESOLVED = 4.0  # a Gram matrix counts as known if its least eigenvalue exceeds its noise by this factor


@dataclass(frozen=True)
class Generation:
    """Means over the users who reported in the same coordinates X = P x.

    Everything here is a function of noisy sums and public constants.

    Attributes:
        users: n, how many.
        scale: P, shape (d, d).
        values: eigenvalues of the noisy mean of X X', rising, shape (d,).
        vectors: its eigenvectors, shape (d, d).
        moment: noisy mean of y X, shape (d,).
        kept: noisy share of the users with |X| <= 1.
        sigma: standard deviation of the noise of a packed coordinate's mean.
    """

    users: int
    scale: Floats
    values: Floats
    vectors: Floats
    moment: Floats
    kept: float
    sigma: float

    @classmethod
    def of(cls, total: Floats, users: int, scale: Floats, sigma: float) -> Self:
        """Read a noisy sum of packed records; ``sigma`` is the noise of one report's coordinate."""
        gram, moment = unpack(total[:-1] / users, len(scale))
        values, vectors = np.linalg.eigh(gram)
        return cls(users, scale, values, vectors, moment, float(total[-1] / users / KEPT), sigma / math.sqrt(users))

    @property
    def floor(self) -> float:
        """About the spectral norm of the noise in the mean of X X'."""
        return 2 * math.sqrt(len(self.scale)) * noise_of_gram(self.sigma)

    @property
    def resolved(self) -> bool:
        return bool(self.values[0] > RESOLVED * self.floor)

    def evidence(self, clear: float) -> Floats:
        """Return [J | h], the precision and score of theta without a prior, shape (d, d + 1).

        Along an eigenvector u whose value stands out, u . (mean of y X) = value u . P^-T theta + noise. The noise comes
        from the moment, from the Gram matrix times P^-T theta, and from the rewards. Its second part needs theta, which
        three rounds find.

        Args:
            clear: eigenvalues count if they exceed the floor by this factor.
        """
        seen = self.values > clear * self.floor
        u, values = self.vectors[:, seen], self.values[seen]
        back = u.T @ np.linalg.inv(self.scale).T
        design, moment = values[:, None] * back, u.T @ self.moment
        prior, theta = np.eye(len(self.scale)), np.asarray(np.zeros(len(self.scale)), float)
        for _ in range(3):
            t = back @ theta
            noise = self.sigma**2 * ((1 + t @ t) * np.eye(len(t)) + np.outer(t, t)) + np.diag(values) / self.users
            weighted = np.linalg.solve(noise, design)
            precision, score = design.T @ weighted, weighted.T @ moment
            theta = np.linalg.solve(prior + precision, score)
            theta = theta / max(1.0, float(np.linalg.norm(theta)))
        return np.column_stack([precision, score])

    def rescaled(self, target: float, stretch: float, largest: float) -> Floats | None:
        """Return a better P, or None if this one will do.

        P shrinks if the share of users inside the ball is significantly too small. Else directions are stretched or
        shrunk to equal shares of the target. A direction whose eigenvalue is lost in the noise counts as large as the
        noise may be. One that may owe its eigenvalue to the few users outside the ball is not stretched: that would
        push them further out and gain nothing.

        Args:
            target: mean of |X|^2 to aim at.
            stretch: no change unless a direction falls short of its share by this factor.
            largest: bound on a row of U' P, so that directions that nobody has are not stretched for ever.
        """
        # the guard: too few users inside the ball
        error = self.sigma / KEPT
        if self.kept + 2 * error < LEAST_KEPT:
            return self.scale / SHRINK
        # how far each direction may be stretched
        size = np.maximum(self.values, self.floor)
        rows = self.vectors.T @ self.scale
        limit = np.minimum(LARGEST, largest / np.linalg.norm(rows, axis=1))
        limit = np.where(size / 2 > 1 - self.kept - error, limit, np.minimum(limit, 1.0))
        # equal shares of the target
        factors = np.minimum(np.sqrt(target / len(size) / np.maximum(size, 1e-100)), limit)
        if factors.max() ** 2 < stretch:
            return None
        return np.asarray(self.vectors @ (factors[:, None] * rows))


def most_precise(*candidates: Floats) -> Floats:
    """Return the [J | h] whose J has the largest determinant."""
    return max(candidates, key=lambda evidence: float(np.linalg.slogdet(evidence[:, :-1])[1]))
