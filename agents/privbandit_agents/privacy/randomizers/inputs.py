"""Input perturbation: noisy records, and the sum of their outer products.

John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA
2018, for the mechanism; the corrected second moment is that of errors-in-variables regression. Proof:
docs/privacy/local-randomizers.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.randomizer import Arithmetic, Array, Floats, dense, gaussian
from privbandit_agents.privacy.vectors import svec


@dataclass(frozen=True)
class NoisyProducts:
    """Estimate svec(v v') from v + Laplace noise of scale b.

    *Formal guarantees.* Post-processing of the report of ``randomizer``, which has one cell. (v + L)(v + L)' - 2 b^2 I
    is unbiased for v v'.

    Attributes:
        randomizer: of vectors of dimension D.
    """

    randomizer: LaplaceOneHot
    arithmetic: ClassVar[Arithmetic] = "real"
    cells: ClassVar[int] = 1
    fewest_summed: ClassVar[float] = math.inf

    @property
    def epsilon(self) -> float:
        return self.randomizer.epsilon

    @property
    def cost(self) -> Cost:
        return self.randomizer.cost

    @property
    def entries(self) -> int:
        return self.randomizer.dim * (self.randomizer.dim + 1) // 2

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in a coordinate of a record."""
        return math.sqrt(self.variance)

    @property
    def by_counts(self) -> Literal["exact", "normal"]:
        """``"normal"`` with noise: sums of its products have no closed form."""
        return "exact" if math.isinf(self.epsilon) else "normal"

    def randomize(self, cells: Array, values: Array | None, rng: Generator) -> Array:
        return self.randomizer.randomize(cells, values, rng)

    def log_likelihood(self, reports: Array, cell: int, value: Array | None = None) -> Floats:
        return self.randomizer.log_likelihood(reports, cell, value)

    @property
    def variance(self) -> float:
        """The variance of the noise in a coordinate, 2 b^2."""
        return 2 * self.randomizer.scale**2

    def estimate(self, reports: Array) -> Floats:
        """Return svec of the unbiased products, shape (n, D (D + 1) / 2), of reports (n, 1, D)."""
        z = self.randomizer.estimate(reports)[:, 0]
        return np.asarray(svec(z[:, :, None] * z[:, None, :] - self.variance * np.eye(z.shape[1])))

    def total(self, cells: Array, vectors: Any, rng: Generator, counts: Array | None = None) -> Floats:
        """Draw the sum of ``estimate`` over ``counts[i]`` users of each value from its normal limit.

        Mean and covariance are exact. For simulation with 500 users or more.

        Args:
            cells: not read: there is one.
            vectors: v, shape (m, D), within the randomizer's bounds.
            rng: the noise.
            counts: shape (m,).
        """
        assert counts is not None
        _, v = self.randomizer.sanitise(np.zeros(len(vectors), int), dense(vectors))
        dim = v.shape[1]
        basis = np.eye(dim)[None, :, :, None] * v[:, None, None, :]  # e_k v', shape (m, D, D, D)
        slopes = svec(basis + np.swapaxes(basis, -1, -2)) * np.sqrt(counts)[:, None, None]
        flat = slopes.reshape(-1, slopes.shape[-1])
        own = np.where(np.arange(flat.shape[1]) < dim, 20.0, 8.0) * self.randomizer.scale**4
        covariance = self.variance * flat.T @ flat + int(counts.sum()) * np.diag(own)
        mean = counts @ svec(v[:, :, None] * v[:, None, :])
        return mean if math.isinf(self.randomizer.epsilon) else gaussian(mean, covariance, rng)


def inputs(epsilon: float, dim: int) -> NoisyProducts:
    """Return the mechanism for records (x, y) with x in the unit ball of R^dim and y in [-1, 1]."""
    largest = math.sqrt(dim) + 1.0  # l1 norm of (x, y)
    return NoisyProducts(LaplaceOneHot(epsilon, 1, dim + 1, bound=largest))
