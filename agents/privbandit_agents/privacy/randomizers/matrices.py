"""A local randomizer of a vector and a matrix with noise of its own for each; the published noise of LPLR beside it.

Jiachun Li, David Simchi-Levi and Yining Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit",
2024, Algorithm 3 (the published noise). Proof: docs/privacy/wishart-difference.md.
"""

import math

import numpy as np
from numpy.random import Generator

from privbandit_agents.privacy._validate import count, positive
from privbandit_agents.privacy.accounting.costs import Cost, pure
from privbandit_agents.privacy.mechanisms.grid import rounded
from privbandit_agents.privacy.mechanisms.spherical import wishart
from privbandit_agents.privacy.randomizers.randomizer import RANGE, Array, Crowd, Floats, Ints, LocalRandomizer
from privbandit_agents.privacy.vectors import smat, svec


class LaplaceWishart(LocalRandomizer):
    """Add Laplace noise to a vector and a difference of Wishart matrices to a symmetric matrix, in every cell.

    A value is (vector, svec(matrix)); a report is the noisy one-hot block, shape (m, D).

    *Formal guarantees.* Pure epsilon-local DP when a user's cell and value are replaced, half of epsilon each. The
    vector has l1 norm at most ``bound`` and noise of scale 4 bound / epsilon. The matrix is positive semidefinite of
    trace at most ``trace``, and its noise is that of ``WishartDifference`` with v = 2 trace / epsilon. Longer vectors
    are scaled down, matrices projected on the cone and scaled down; NaN and infinity become zeros. Inactive users'
    blocks are 0. The density has no closed form.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        vector: length of the vector.
        features: d of the matrix.
        bound: largest l1 norm of the vector, > 0.
        trace: largest trace of the matrix, > 0.
    """

    def __init__(self, epsilon: float, cells: int, vector: int, features: int, bound: float, trace: float) -> None:
        self.vector, self.features = count(vector=vector), count(features=features)
        super().__init__(epsilon, cells, vector + features * (features + 1) // 2)
        self.bound, self.trace = positive(bound=bound), positive(trace=trace)
        self.radius = bound + trace
        self.scales = np.full(vector, 4 * self.bound / self.epsilon)
        self.v = 2 * self.trace / self.epsilon

    @property
    def spread(self) -> tuple[Floats, float]:
        """Standard deviations in one report: of the vector's coordinates, and of the matrix's diagonal."""
        return math.sqrt(2) * self.scales, 2 * math.sqrt(self.features + 1) * self.v

    def _combine(self, first: Floats, second: Floats, degrees: int) -> Floats:
        """Return matrix noise made of two independent Wishart matrices."""
        return first - second

    def _clip(self, values: Array | None, n: int) -> Floats:
        z = super()._clip(values, n)
        vectors, matrices = z[:, : self.vector], smat(z[:, self.vector :])
        size = np.abs(vectors).sum(axis=1, keepdims=True)
        values_, basis = np.linalg.eigh(matrices)
        values_ = np.maximum(values_, 0.0)
        values_ /= np.maximum(values_.sum(axis=1, keepdims=True) / self.trace, 1.0)
        psd = (basis * values_[:, None, :]) @ np.swapaxes(basis, 1, 2)
        return np.concatenate([vectors / np.maximum(size / self.bound, 1.0), svec(psd)], axis=1)

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        block, k, d = self._block(own, z), self.vector, self.features
        normals = rng.standard_normal((len(own), self.cells, 4 * k + 2 * d * (d + 1)))  # as many for every user
        squares = normals[..., : 4 * k].reshape(*block.shape[:2], 4, k) ** 2 / 2
        roots = normals[..., 4 * k :].reshape(*block.shape[:2], 2, d, d + 1)
        sides = self.v * roots @ np.swapaxes(roots, -1, -2)
        block[..., :k] += self.scales * (squares[..., :2, :].sum(axis=2) - squares[..., 2:, :].sum(axis=2))
        block[..., k:] += svec(self._combine(sides[:, :, 0], sides[:, :, 1], d + 1))
        return rounded(block, min(self.v, *self.scales))

    def _unbias(self, reports: Array) -> Floats:
        return reports

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        raise NotImplementedError(f"{type(self).__name__} has no density in closed form; audit it by its events.")

    def _variance(self, own: bool) -> float:
        vector, diagonal = self.spread
        matrix = self.features * (self.features + 1) // 2 * diagonal**2  # svec: the same on and off the diagonal
        return float((vector @ vector + matrix) / self.dim)

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        gammas = rng.standard_gamma(crowd.users, size=(2, self.cells, self.vector))
        total = crowd.sums()
        total[:, : self.vector] += self.scales * (gammas[0] - gammas[1])
        degrees = crowd.users * (self.features + 1)
        first, second = (wishart(rng, self.features, degrees, self.v, (self.cells,)) for _ in range(2))
        total[:, self.vector :] += svec(self._combine(first, second, degrees))
        return total


class PublishedLayer(LaplaceWishart):
    """The noise of LPLR-UPDATE as published: not private, kept for comparison.

    On (count, y v): 3 Lap(1/alpha) and 3 sqrt(d) Lap(1/alpha); on v v': 3 (W_d(d + 1, 1.5/alpha I) - mean). y_h is not
    clipped.

    *Formal guarantees.* None: the matrix noise is positive semidefinite up to its public mean, so some results are
    impossible without the user.

    Args:
        epsilon: alpha.
        cells: m.
        features: d.
        weights: by which the count, the moment and the matrix were multiplied, and the noise has to be.
    """

    def __init__(self, epsilon: float, cells: int, features: int, weights: tuple[float, float, float]) -> None:
        super().__init__(epsilon, cells, 1 + features, features, 1.0, 1.0)
        self.radius = RANGE
        w0, w1, w2 = weights
        scales = [w0 * 3.0] + features * [w1 * 3 * math.sqrt(features)]
        self.scales, self.v = np.array(scales) / self.epsilon, w2 * 4.5 / self.epsilon

    @property
    def cost(self) -> Cost:
        return pure(math.inf)

    @property
    def spread(self) -> tuple[Floats, float]:
        return math.sqrt(2) * self.scales, math.sqrt(2 * (self.features + 1)) * self.v

    def _combine(self, first: Floats, second: Floats, degrees: int) -> Floats:
        return first - degrees * self.v * np.eye(self.features)

    def _clip(self, values: Array | None, n: int) -> Floats:
        return LocalRandomizer._clip(self, values, n)

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        rest = reports - self._block(np.array([cell]), z[None])
        laplace = -(np.abs(rest[..., : self.vector]) / self.scales).sum(axis=(1, 2))
        matrices = smat(rest[..., self.vector :]) + (self.features + 1) * self.v * np.eye(self.features)
        inside = (np.linalg.eigvalsh(matrices)[..., 0] >= 0).all(axis=1)
        # d + 1 degrees of freedom: the density is proportional to exp(-trace / (2 v)) on the cone
        return np.where(inside, laplace - np.trace(matrices, axis1=2, axis2=3).sum(axis=1) / (2 * self.v), -math.inf)
