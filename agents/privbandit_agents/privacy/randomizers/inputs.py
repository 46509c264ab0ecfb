"""Input perturbation: noisy records, and the sum of their outer products.

John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA
2018, for the mechanism; the corrected second moment is that of errors-in-variables regression. Proof:
docs/privacy/input-perturbation.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.randomizer import Array, Floats, gaussian
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

    @property
    def variance(self) -> float:
        """The variance of the noise in a coordinate, 2 b^2."""
        return 2 * self.randomizer.scale**2

    def estimate(self, reports: Array) -> Floats:
        """Return svec of the unbiased products, shape (n, D (D + 1) / 2), of reports (n, 1, D)."""
        z = self.randomizer.estimate(reports)[:, 0]
        return np.asarray(svec(z[:, :, None] * z[:, None, :] - self.variance * np.eye(z.shape[1])))

    def approximate_sum(self, values: Array, rng: Generator, counts: Array) -> Floats:
        """Draw the sum of ``estimate`` over ``counts[i]`` users of each value from its normal limit.

        Mean and covariance are exact. For simulation with 500 users or more.

        Args:
            values: v, shape (m, D), within the randomizer's bounds.
            rng: the noise.
            counts: shape (m,).
        """
        _, v = self.randomizer.sanitise(np.zeros(len(values), int), values)
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
