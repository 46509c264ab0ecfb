"""What a user of LPLR sends: the statistics (y v, v v', v q') of its bin as one private report.

v = gamma^k phi_h is the scaled rest of the features, q the coordinates of the features along the directions on the path
to the bin: with v q' the server knows how an error of theta in the earlier layers enters y_h.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.agent import Array
from privbandit_agents.privacy.counters import smat, svec
from privbandit_agents.privacy.local import LaplaceOneHot
from privbandit_agents.privacy.randomizer import LocalRandomizer
from privbandit_agents.privacy.sphere import BinCapSign, Hemisphere

RELEASES = ("hemisphere", "bin-cap", "laplace", "wishart-difference")


@dataclass(frozen=True)
class Report:
    """A randomizer of packed statistics over cells.

    Attributes:
        randomizer: of the packed statistics.
        dim: d.
        path: number of directions on the path, h - 1.
        weights: of y v, v v' and v q'; their squares add up to 1.
    """

    randomizer: LocalRandomizer
    dim: int
    path: int
    weights: tuple[float, float, float]

    def draw(self, cells: Array, v: Array, y: Array, q: Array, rng: Generator) -> Array:
        """Return the users' reports, n rows."""
        return self.randomizer.randomize(cells, pack(self.weights, v, y, q), rng)

    def draw_sum(self, cells: Array, v: Array, y: Array, q: Array, counts: Array, rng: Generator) -> Array:
        """Draw the sum of the estimates of users by counts, shape (m, D)."""
        return self.randomizer.approximate_sum(cells, pack(self.weights, v, y, q), rng, counts)

    def unpack(self, total: Array) -> tuple[Array, Array, Array]:
        """Return the sums of y v (m, d), of v v' (m, d, d) and of v q' (m, d, h - 1)."""
        d, matrix = self.dim, self.dim + self.dim * (self.dim + 1) // 2
        moment, gram, cross = np.split(total, [d, matrix], axis=1)
        w1, w2, w3 = self.weights
        crosses = cross.reshape(len(total), d, self.path) / (w3 or 1.0)
        return moment / w1, smat(gram / w2), crosses

    @property
    def spread(self) -> tuple[float, float]:
        """Standard deviations of one user's report, anywhere: of a coordinate of y v, of a diagonal entry of v v'."""
        deviation = math.sqrt(max(self.randomizer.variance(own) for own in (True, False)))
        return deviation / self.weights[0], deviation / self.weights[1]


def pack(weights: tuple[float, float, float], v: Array, y: Array, q: Array) -> Array:
    """Return (w1 y v, w2 svec(v v'), w3 v q'), shape (n, D), of norm at most 1 for |v|, |y|, |q| at most 1."""
    w1, w2, w3 = weights
    gram = svec(v[:, :, None] * v[:, None, :])
    cross = (v[:, :, None] * q[:, None, :]).reshape(len(v), -1)
    return np.concatenate([w1 * y[:, None] * v, w2 * gram, w3 * cross], axis=1)


def report(release: str, epsilon: float, cells: int, dim: int, path: int, gram: float, cross: float) -> Report:
    """Return the report of a layer.

    Args:
        release: one of ``RELEASES``.
        epsilon: budget of the whole report.
        cells: number of bins.
        dim: d.
        path: number of directions on the path.
        gram: weight of v v' beside y v.
        cross: weight of v q' beside y v.
    """
    norm = math.sqrt(1 + gram**2 + (cross**2 if path else 0))
    weights = (1 / norm, gram / norm, cross / norm if path else 0.0)
    size = dim + dim * (dim + 1) // 2 + dim * path
    if release == "hemisphere":
        return Report(Hemisphere(epsilon, cells, size), dim, path, weights)
    if release == "bin-cap":
        return Report(BinCapSign(epsilon, cells, size), dim, path, weights)
    root = math.sqrt(dim)
    bound = (root + gram * (1 + math.sqrt(2) * (dim - 1) / 2) + cross * root * math.sqrt(path)) / norm
    return Report(LaplaceOneHot(epsilon, cells, size, bound), dim, path, weights)
