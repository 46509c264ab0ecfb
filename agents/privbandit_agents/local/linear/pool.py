"""Pooled reports about a regression in stretched features, and their evidence about theta."""

import math
from typing import ClassVar

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.privacy.contributions.moments import packed_size
from privbandit_agents.privacy.mechanisms.symmetric import smat


class Pool:
    """Weighted sums of noisy reports (y X, w svec(X X')) of X = S x with a public stretch S of every feature.

    Everything here is a function of noisy sums and public constants.

    Attributes:
        stretch: the diagonal of S, shape (d,).
        gram_weight: w.
        sigma: standard deviation of the noise of a coordinate in one report.
        total: weighted sum of the reports, shape (d + d (d + 1) / 2,).
        weights: sum of the users' weights.
        squares: sum of their squares.
        solved: a total, its mean moment, and the eigenvalues and eigenvectors of its mean of X X'.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"solved"})

    def __init__(self, stretch: Array, gram_weight: float, sigma: float) -> None:
        self.stretch, self.gram_weight, self.sigma = stretch, gram_weight, sigma
        self.total, self.weights, self.squares = np.zeros(packed_size(len(stretch))), 0.0, 0.0
        self.solved: tuple[Array | None, Array, Array, Array] = None, *(np.empty(0),) * 3

    def add(self, total: Array, users: int, weight: float = 1.0) -> None:
        self.total = self.total + weight * total
        self.weights += weight * users
        self.squares += weight**2 * users

    def evidence(self, theta: Array) -> Array:
        """Return [J | h], precision and score of theta without a prior, shape (d, d + 1).

        Along an eigenvector u of the noisy mean of X X', u . (mean of y X) = value u . S^-1 theta + noise. The noise
        comes from the moment, from the Gram matrix times S^-1 theta, and from the rewards.

        Args:
            theta: a guess, for the second part of the noise, shape (d,).
        """
        dim = len(self.stretch)
        if self.weights <= 0:
            return np.zeros((dim, dim + 1))
        # the means, and a coordinate's noise in them
        if self.solved[0] is not self.total:
            mean = self.total / self.weights
            self.solved = self.total, mean[:dim], *np.linalg.eigh(smat(mean[dim:] / self.gram_weight))
        _, moment, values, vectors = self.solved
        sigma = self.sigma * math.sqrt(self.squares) / self.weights
        floor = 2 * math.sqrt(dim) * sigma / (self.gram_weight * math.sqrt(2))
        # directions that are not lost in it
        seen = values > 0.3 * floor  # of the noise's spectral norm
        values, back = values[seen], vectors[:, seen].T / self.stretch
        if not len(values):
            return np.zeros((dim, dim + 1))
        t, design = back @ theta, values[:, None] * back
        spread = np.outer(t, t) / (2 * self.gram_weight**2)
        noise = sigma**2 * ((1 + np.trace(spread)) * np.eye(len(t)) + spread)
        noise += np.diag(values * self.squares / self.weights**2)
        weighted = np.linalg.solve(noise, design)
        return np.column_stack([design.T @ weighted, weighted.T @ (vectors[:, seen].T @ moment)])
