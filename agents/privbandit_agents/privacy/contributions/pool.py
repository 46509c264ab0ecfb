"""Pooled reports about a regression in stretched features, and their evidence about theta."""

import math
from typing import ClassVar

import numpy as np

from privbandit_agents.privacy.contributions.moments import Array, packed_size
from privbandit_agents.privacy.vectors import smat


class Pool:
    """Weighted sums of noisy reports (min(1, 1/r) y v, w min(1, r) svec(v v')) of r v = S x, |v| = 1, S public.

    Everything here is a function of noisy sums and public constants.

    Attributes:
        stretch: S, shape (d, d).
        gram_weight: w.
        sigma: standard deviation of the noise of a coordinate in one report.
        total: weighted sum of the reports, shape (d + d (d + 1) / 2,).
        weights: sum of the users' weights.
        squares: sum of their squares.
        solved: a total, its mean moment, and the eigenvalues and eigenvectors of its G.
        turned: a total, and U' S^-1 of those of these eigenvectors that noise does not hide.
    """

    fixed: ClassVar[frozenset[str]] = frozenset({"solved", "turned"})

    def __init__(self, stretch: Array, gram_weight: float, sigma: float) -> None:
        self.stretch, self.gram_weight, self.sigma = stretch, gram_weight, sigma
        self.total, self.weights, self.squares = np.zeros(packed_size(len(stretch))), 0.0, 0.0
        self.solved: tuple[Array | None, Array, Array, Array] = None, *(np.empty(0),) * 3
        self.turned: tuple[Array | None, Array] = None, np.empty(0)

    def add(self, total: Array, users: int, weight: float = 1.0) -> None:
        self.total = self.total + weight * total
        self.weights += weight * users
        self.squares += weight**2 * users

    def release(self, total: Array, users: int) -> None:
        """Take in one sum over users, to which noise of deviation sigma was added once."""
        self.total, self.weights, self.squares = total, float(users), float(users)
        self.sigma /= math.sqrt(users)  # what each would have added

    @property
    def floor(self) -> float:
        """The spectral norm of the noise in the mean of min(1, r) v v', about."""
        sigma = self.sigma * math.sqrt(self.squares) / self.weights
        return 2 * math.sqrt(len(self.stretch)) * sigma / (self.gram_weight * math.sqrt(2))

    def length(self) -> float:
        """Return the mean of min(1, r), a noisy one; 1 without reports."""
        return min(1.0, max(0.1, float(self.solve()[2].sum()))) if self.weights else 1.0

    def solve(self) -> tuple[Array | None, Array, Array, Array]:
        """Return ``solved`` for the reports so far."""
        if self.solved[0] is not self.total:
            mean, dim = self.total / self.weights, len(self.stretch)
            self.solved = self.total, mean[:dim], *np.linalg.eigh(smat(mean[dim:] / self.gram_weight))
        return self.solved

    def evidence(self, theta: Array) -> Array:
        """Return [J | h], precision and score of theta without a prior, shape (d, d + 1).

        Along an eigenvector u of the noisy mean G of min(1, r) v v', u . (mean of min(1, 1/r) y v) = value u . S^-1
        theta + noise. The noise comes from the moment, from G times S^-1 theta, and from the rewards, about in
        proportion to G.

        Args:
            theta: a guess, for the second part of the noise, shape (d,).
        """
        dim = len(self.stretch)
        if self.weights <= 0:
            return np.zeros((dim, dim + 1))
        # the means, and a coordinate's noise in them
        _, moment, values, vectors = self.solve()
        sigma = self.sigma * math.sqrt(self.squares) / self.weights
        # directions that are not lost in it
        seen = values > 0.3 * self.floor
        if not seen.any():
            return np.zeros((dim, dim + 1))
        if self.turned[0] is not self.total:
            self.turned = self.total, vectors[:, seen].T @ np.linalg.inv(self.stretch.T)
        values, back = values[seen], self.turned[1]
        t, design = back @ theta, values[:, None] * back
        # the noise's covariance: own along each eigenvector, and shared along t; its inverse times the design
        share = sigma**2 / (2 * self.gram_weight**2)
        own = sigma**2 + share * t.dot(t) + values / min(1.0, values.sum()) * self.squares / self.weights**2
        weighted, along = design / own[:, None], t / own
        weighted -= np.outer(along, share / (1 + share * t.dot(along)) * (along @ design))
        return np.column_stack([design.T @ weighted, weighted.T @ (vectors[:, seen].T @ moment)])

    def hides(self, ratio: float) -> bool:
        """Return whether noise hides a direction of G, and is less than a part 1 / ratio of the largest eigenvalue.

        No eigenvalue is above the Frobenius norm, which is found without solving G.
        """
        frobenius = float(np.linalg.norm(self.total[len(self.stretch) :])) / self.weights / self.gram_weight
        if self.floor * ratio > frobenius * (1 + 1e-9):
            return False
        values = self.solve()[2]
        return bool(max(values[0], 1e-9) < self.floor < values[-1] / ratio)

    def stretched(self) -> Array:
        """Return the next S: directions in which records are short are stretched, as far as the noise permits.

        It is this S itself if no direction is to be stretched by 2 or more.
        """
        dim = len(self.stretch)
        _, _, values, vectors = self.solve()
        squared = np.minimum(64.0, 0.7 / dim / np.maximum(values, max(self.floor, 1e-9)))
        if squared.max() < 4:
            return self.stretch
        stretch = (vectors * np.sqrt(squared)) @ vectors.T @ self.stretch
        return np.asarray(stretch) if np.linalg.norm(stretch) < 1024 else self.stretch  # its largest norm
