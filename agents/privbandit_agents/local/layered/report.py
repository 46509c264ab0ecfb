"""The report of an LPLR user: the statistics of its bin, (1, y v, v q', v v'), as one private report.

v = gamma^k phi_h are the features, scaled, without their components along the path to the bin. y in [-1, 1] is the
reward minus the prediction of the earlier layers. q are the features' coordinates along the path, relative to their
bounds; v q' shows the server how an error of theta in the earlier layers enters y.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.privacy.contributions.moments import Lifted
from privbandit_agents.privacy.randomizers.matrices import LaplaceWishart, PublishedLayer
from privbandit_agents.privacy.randomizers.one_hot import LaplaceOneHot
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer
from privbandit_agents.privacy.randomizers.sphere import BinCapSign, Hemisphere
from privbandit_agents.privacy.vectors import smat

Release = Literal["hemisphere", "bin-cap", "laplace", "wishart-difference"]


@dataclass(frozen=True)
class Layout:
    """How the statistics make one vector of norm at most 1; those of weight 0 are left out.

    Attributes:
        dim: d.
        path: number of directions on the path, h - 1.
        weights: of 1, y v, v q' and v v'; their squares add up to 1.
    """

    dim: int
    path: int
    weights: tuple[float, float, float, float]

    @classmethod
    def of(cls, dim: int, path: int, count: float, cross: float, gram: float) -> "Layout":
        """Return the layout with weights relative to that of y v."""
        raw = (count, 1.0, cross if path else 0.0, gram)
        norm = math.hypot(*raw)
        return cls(dim, path, (raw[0] / norm, raw[1] / norm, raw[2] / norm, raw[3] / norm))

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        w0, _, w2, _ = self.weights
        return int(w0 > 0), self.dim, self.dim * self.path * int(w2 > 0), self.dim * (self.dim + 1) // 2

    def l1(self) -> tuple[float, float]:
        """Return the largest l1 norms of the first three parts together, and of the last one, at v = 1/sqrt(d)."""
        w0, w1, w2, w3 = self.weights
        root = math.sqrt(self.dim)
        return w0 + root * (w1 + w2 * math.sqrt(self.path)), w3 * (1 + math.sqrt(2) * (self.dim - 1) / 2)

    def lift(self, v: Array, y: Array, q: Array) -> Lifted:
        """Return the statistics of users, shape (n, D), by their factors.

        Args:
            v: of norm at most 1, shape (n, d).
            y: in [-1, 1], shape (n,).
            q: of norm at most 1, shape (n, h - 1).
        """
        w0, w1, w2, w3 = self.weights
        head = np.empty((len(v), sum(self.sizes[:3])))
        head[:, : self.sizes[0]] = w0
        at = slice(self.sizes[0], self.sizes[0] + self.dim)
        np.multiply(w1, y[:, None] * v, out=head[:, at])
        if w2:
            head[:, at.stop :] = w2 * (v[:, :, None] * q[:, None, :]).reshape(len(v), -1)
        return Lifted(head, v, w3)

    def pack(self, v: Array, y: Array, q: Array) -> Array:
        """Return the statistics of users, shape (n, D); arguments as for ``lift``."""
        return self.lift(v, y, q).dense()

    def unpack(self, total: Array) -> tuple[Array, Array, Array, Array]:
        """Return the sums of 1 (m,), y v (m, d), v q' (m, d, h - 1) and v v' (m, d, d); 0 for omitted ones."""
        count, moment, cross, gram = np.split(total, np.cumsum(self.sizes)[:-1], axis=1)
        w0, w1, w2, w3 = self.weights
        crosses = cross.reshape(len(total), self.dim, -1) / w2 if w2 else np.zeros((len(total), self.dim, self.path))
        return count.sum(axis=1) / (w0 or 1.0), moment / w1, crosses, smat(gram / w3)


@dataclass(frozen=True)
class Report:
    """A randomizer of packed statistics over cells.

    Attributes:
        randomizer: one report a user.
        layout: of the statistics.
        spread: standard deviations in one report, in any cell: of the coordinates of y v, of those of v q', and of the
            diagonal of v v'.
    """

    randomizer: LocalRandomizer
    layout: Layout
    spread: tuple[float, float, float]

    @classmethod
    def of(cls, release: Release, epsilon: float, cells: int, layout: Layout, published: bool = False) -> "Report":
        """Return the report of a layer.

        Args:
            release: its name.
            epsilon: budget of the whole report.
            cells: number of bins.
            layout: of the statistics.
            published: take the paper's noise instead, which is not private.
        """
        size, (vector, matrix) = sum(layout.sizes), layout.l1()
        w0, w1, w2, w3 = layout.weights
        if published or release == "wishart-difference":
            mixed = LaplaceWishart(epsilon, cells, size - layout.sizes[3], layout.dim, vector, w3)
            mixed = PublishedLayer(epsilon, cells, layout.dim, (w0, w1, w3)) if published else mixed
            vectors, diagonal = mixed.spread
            return cls(mixed, layout, (vectors[-1] / w1, vectors[-1] / (w2 or 1.0), diagonal / w3))
        if release == "laplace":
            randomizer: LocalRandomizer = LaplaceOneHot(epsilon, cells, size, vector + matrix)
        else:
            randomizer = (Hemisphere if release == "hemisphere" else BinCapSign)(epsilon, cells, size)
        deviation = math.sqrt(max(randomizer.variance(own) for own in (True, False)))
        return cls(randomizer, layout, (deviation / w1, deviation / (w2 or 1.0), deviation / w3))
