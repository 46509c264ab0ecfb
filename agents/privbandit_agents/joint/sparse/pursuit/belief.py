"""The posterior of the coefficients on the support: means, covariance, and the features' second moments.

Everything here is post-processing of releases; it reads no data.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Belief:
    """A Gaussian belief about the coefficients of the features found, and noisy second moments of these features.

    Attributes:
        support: features found, in the order of finding, shape (m,).
        theta: means of their coefficients, shape (m,).
        covariance: of their coefficients, shape (m, m).
        moments: mean products of two features, as measured, shape (m, m).
        weights: inverse variances of the entries of ``moments``, shape (m, m).
    """

    def __init__(self) -> None:
        self.support: NDArray[np.int64] = np.zeros(0, np.int64)
        self.theta, self.covariance = np.zeros(0), np.zeros((0, 0))
        self.moments, self.weights = np.zeros((0, 0)), np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self.support)

    def copy(self) -> "Belief":
        """Return an independent copy."""
        other = Belief()
        for name, value in vars(self).items():
            setattr(other, name, value.copy())
        return other

    def clearness(self) -> Floats:
        """Return how many standard deviations the coefficients are from 0, shape (m,)."""
        return np.asarray(np.abs(self.theta) / np.sqrt(np.maximum(np.diagonal(self.covariance), 1e-300)))

    def widen(self, variance: float) -> None:
        """Inflate the covariance by this much prediction variance."""
        m = max(len(self), 1)
        self.covariance = self.covariance + variance / m * np.eye(len(self))

    def add(self, feature: int, with_others: Floats, blur: float, variance: float) -> None:
        """Add a feature with an N(0, variance) coefficient.

        Until now the others stood in for it: their old coefficients are the new ones plus c times its own, where c
        predicts the feature from the others.

        Args:
            feature: its number.
            with_others: its mean products with the others, as measured, shape (m,).
            blur: variance of these; infinity if they are not known.
            variance: of its coefficient.
        """
        m = len(self)
        self.moments = bordered(self.moments, with_others, 1.0)
        self.weights = bordered(self.weights, np.full(m, 1 / blur), 0.3**-2)
        trusted = self.gram()
        c = np.append(-np.linalg.solve(trusted[:m, :m], trusted[:m, m]), 1.0)
        self.covariance = bordered(self.covariance, np.zeros(m), 0.0) + variance * np.outer(c, c)
        self.theta, self.support = np.append(self.theta, 0.0), np.append(self.support, feature)

    def measure(self, slopes: Floats, found: Floats, noise: Floats) -> None:
        """Learn from found = slopes (beta - theta) + N(0, noise): a Kalman step.

        Args:
            slopes: shape (k, m).
            found: shape (k,).
            noise: shape (k, k).
        """
        across = self.covariance @ slopes.T
        gain = np.linalg.solve(slopes @ across + noise, across.T).T
        self.theta = self.theta + gain @ found
        left = self.covariance - gain @ across.T
        self.covariance = (left + left.T) / 2

    def drop(self, position: int) -> None:
        """Learn that a coefficient is 0, and forget its feature."""
        column = self.covariance[:, position] / max(self.covariance[position, position], 1e-300)
        theta = self.theta - column * self.theta[position]
        covariance = self.covariance - np.outer(column, self.covariance[position])
        rest = np.delete(np.arange(len(self)), position)
        self.support, self.theta, self.covariance = self.support[rest], theta[rest], covariance[np.ix_(rest, rest)]
        self.moments, self.weights = self.moments[np.ix_(rest, rest)], self.weights[np.ix_(rest, rest)]

    def weigh(self, moments: Floats, variances: Floats) -> None:
        """Average the second moments with new ones of the given variances, both of shape (m, m)."""
        weights = self.weights + 1 / variances
        self.moments = self.moments + (moments - self.moments) / variances / weights
        self.weights = weights

    def uncertain(self) -> Floats:
        """Return variances of the entries of ``gram``, shape (m, m)."""
        return 1 / (self.weights + 0.3**-2)

    def gram(self) -> Floats:
        """Return the second moments that stand out of the noise, shape (m, m), positive definite.

        Products of two features that are not clear count as 0; squares are drawn together as far as noise explains
        their differences.
        """
        clear = np.abs(self.moments) * np.sqrt(self.weights) > 3.5  # standard deviations
        gram: Floats = np.where(clear, self.moments, 0.0)
        squares = np.diagonal(self.moments)
        mean, spread = max(float(squares.mean()), 1e-3), float(squares.var())
        noise = float((1 / np.diagonal(self.weights)).mean())
        kept = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
        np.fill_diagonal(gram, mean + kept * (squares - mean))
        values, vectors = np.linalg.eigh(gram)
        return np.asarray((vectors * np.maximum(values, 0.05 * mean)) @ vectors.T)


def bordered(matrix: Floats, column: Any, corner: float) -> Floats:
    """Return a symmetric matrix with one more row and column."""
    return np.block([[matrix, column[:, None]], [column[None], np.array([[corner]])]])
