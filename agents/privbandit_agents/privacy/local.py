"""Local randomizers of a cell: Laplace, randomized response, unary encoding, and subsets.

Ulfar Erlingsson, Vasyl Pihur and Aleksandra Korolova, "RAPPOR", CCS 2014, and Tianhao Wang, Jeremiah Blocki, Ninghui
Li and Somesh Jha, "Locally Differentially Private Protocols for Frequency Estimation", USENIX Security 2017 (unary
encoding, k-ary randomized response); Min Ye and Alexander Barg, "Optimal Schemes for Discrete Distribution
Estimation under Locally Differential Privacy", IEEE Trans. Inf. Theory 64, 2018 (subset selection).

The signed subset, which adds a fair sign to every chosen cell, is this project's own.
"""

import math
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import expit, log_expit

from privbandit_agents.privacy._validate import count, positive
from privbandit_agents.privacy.randomizer import (
    Array,
    Floats,
    Ints,
    LocalRandomizer,
    Tilt,
    cell_counts,
    cell_sums,
    signs,
)

__all__ = [
    "KaryRandomizedResponse",
    "LaplaceOneHot",
    "LocalRandomizer",
    "SignedSubset",
    "SubsetSelection",
    "UnaryEncoding",
]


class LaplaceOneHot(LocalRandomizer):
    """Add Laplace noise to every coordinate of the one-hot block; a report is the noisy block, shape (m, D).

    *Formal guarantees.* Pure epsilon-local DP when a user's cell and value are replaced. Another cell moves the block
    by |z|_1 + |z'|_1 <= 2 bound in l1, another value in the same cell by no more; the log density is Lipschitz of
    constant 1/scale in l1, so the scale 2 bound / epsilon gives epsilon, reached where x_j >= z and x_j' <= 0 and
    z, z' >= 0 have l1 norm ``bound``. An inactive user's block is 0, at distance bound from any other. Values are
    scaled down to l1 norm ``bound`` (not to l2 norm 1); NaN and infinity become the zero vector. The base measure is
    Lebesgue's.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        dim: D.
        bound: l1 norm to clip to, > 0; None: sqrt(D), which leaves the l2 unit ball as it is.
    """

    norm_order = 1

    def __init__(self, epsilon: float, cells: int, dim: int = 1, bound: float | None = None) -> None:
        """Calibrate the scale."""
        super().__init__(epsilon, cells, dim)
        self.radius = math.sqrt(self.dim) if bound is None else positive(bound=bound)
        self.scale = 2 * self.radius / self.epsilon

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        return self._block(own, z) + rng.laplace(scale=self.scale, size=(len(own), self.cells, self.dim))

    def _unbias(self, reports: Array) -> Floats:
        return reports

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        noise = np.abs(reports - self._block(np.array([cell]), z[None])).sum(axis=(1, 2))
        return np.asarray(-noise / self.scale - self.cells * self.dim * math.log(2 * self.scale))

    def _variance(self, own: bool) -> float:
        return 2 * self.scale**2

    def _draw_sum(self, own: Ints, z: Floats, rng: Generator) -> Floats:
        gammas = rng.standard_gamma(len(own), size=(2, self.cells, self.dim))
        return cell_sums(own, z, self.cells) + self.scale * (gammas[0] - gammas[1])


class UnaryEncoding(LocalRandomizer):
    """Optimised unary encoding (OUE); a report is one bit for each cell, shape (m,).

    The own cell's bit is fair, every other bit is 1 with probability q = 1 / (e^epsilon + 1).

    *Formal guarantees.* Pure epsilon-local DP when a user's cell is replaced: only the bits j and j' have different
    laws, and the ratio is at most (1/2 : q) (1 - q : 1/2) = (1 - q) / q = e^epsilon, reached at bits (1, 0). An
    inactive user's bits are all 1 with probability q; against an active one the ratio is between
    1 / (2 (1 - q)) >= e^-epsilon and 1 / (2 q) <= e^epsilon. The base measure is counting. The variance of an estimate is
    4 e^epsilon / (e^epsilon - 1)^2 in another cell and 1 more in the own one.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
    """

    categorical = True

    def __init__(self, epsilon: float, cells: int) -> None:
        """Work out the probabilities."""
        super().__init__(epsilon, cells)
        self.flip = float(expit(-self.epsilon))
        self.gap = math.tanh(self.epsilon / 2) / 2  # 1/2 - q

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        ones = self._block(own, z)[..., 0] > 0
        bits: Array = rng.random(ones.shape) < np.where(ones, 0.5, self.flip)
        return bits

    def _unbias(self, reports: Array) -> Floats:
        return ((reports - self.flip) / self.gap)[..., None]

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        bits = np.asarray(reports, bool)
        each = np.where(bits, log_expit(-self.epsilon), log_expit(self.epsilon))
        if cell >= 0:
            each[:, cell] = -math.log(2)
        return np.asarray(each.sum(axis=1))

    def _variance(self, own: bool) -> float:
        other = 4 * math.exp(-self.epsilon) / math.expm1(-self.epsilon) ** 2
        return other + 1.0 if own else other

    def _draw_sum(self, own: Ints, z: Floats, rng: Generator) -> Floats:
        inside, n = cell_counts(own, self.cells), len(own)
        bits = rng.binomial(inside, 0.5) + rng.binomial(n - inside, self.flip)
        return ((bits - n * self.flip) / self.gap)[:, None]


class Categories(LocalRandomizer):
    """A randomizer of k categories: the cells, and one for the inactive users if there may be any.

    Without that category an estimate sums to 1 over the cells, and an inactive user would count as 1/m in each.
    """

    categorical = True

    def __init__(self, epsilon: float, cells: int, allow_inactive: bool = True) -> None:
        """Count the categories."""
        super().__init__(epsilon, cells)
        self.allow_inactive = allow_inactive
        self.categories = self.cells + allow_inactive
        if self.categories < 2:
            raise ValueError("cells must be >= 2 where no user may be inactive; got 1.")

    def _category(self, own: Ints) -> Ints:
        return np.where(own < 0, self.cells, own)


class KaryRandomizedResponse(Categories):
    """k-ary randomized response; a report is a category, an integer (m says: inactive).

    It is the own category with probability p = e^epsilon / (e^epsilon + k - 1), else any other one.

    *Formal guarantees.* Pure epsilon-local DP when a user's cell is replaced: the event "the report is the own
    category" has probability 1/k under the uniform base measure and is favoured by e^epsilon, see ``Tilt``; reached at
    a report of j under j and under j'. Inactive users have a category of their own, k = m + 1;
    ``allow_inactive=False`` saves it, k = m, and refuses the cell -1. With q = (1 - p) / (k - 1) the variance is
    q (1 - q) / (p - q)^2 in another cell, p (1 - p) / (p - q)^2 in the own one.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        allow_inactive: whether there may be users without a cell.
    """

    def __init__(self, epsilon: float, cells: int, allow_inactive: bool = True) -> None:
        """Work out the probabilities."""
        super().__init__(epsilon, cells, allow_inactive)
        self.tilt = Tilt(self.epsilon, 1 / self.categories)
        self.truth = float(self.tilt.contrast) / self.categories  # p - q: answer truly, otherwise uniformly
        self.lie = float(self.tilt.low) / self.categories  # q

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        truth, answer = rng.random((len(own), 2)).T
        return np.where(truth < self.truth, self._category(own), (answer * self.categories).astype(np.intp))

    def _unbias(self, reports: Array) -> Floats:
        return self._scale(reports[:, None] == np.arange(self.cells), 1)[..., None]

    def _scale(self, counts: Array, n: int) -> Floats:
        return np.asarray((counts - n * self.lie) / self.truth)

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        return self.tilt.log_density((reports == self._category(np.array(cell))).astype(float))

    def _variance(self, own: bool) -> float:
        others = (self.categories - 1) * self.lie  # 1 - p
        return (others * (1 - others) if own else self.lie * (1 - self.lie)) / self.truth**2

    def _draw_sum(self, own: Ints, z: Floats, rng: Generator) -> Floats:
        truths = rng.binomial(np.bincount(self._category(own), minlength=self.categories), self.truth)
        uniform = np.full(self.categories, 1 / self.categories)
        answers = truths + rng.multinomial(len(own) - truths.sum(), uniform)
        return self._scale(answers[: self.cells], len(own))[:, None]


class SubsetSelection(Categories):
    """Report w of k categories, the own one among them with odds raised by e^epsilon; a report is k bits.

    *Formal guarantees.* Pure epsilon-local DP when a user's cell is replaced: the event "the subset holds the own
    category" has probability f = w/k under the base measure, uniform over the subsets of size w, and is favoured by
    e^epsilon, see ``Tilt``; reached at a subset that holds j but not j'. Inactive users have a category of their own,
    k = m + 1; ``allow_inactive=False`` saves it and refuses the cell -1. With p the probability of the own category
    and q = (w - p) / (k - 1) of another one the variances are p (1 - p) / (p - q)^2 and q (1 - q) / (p - q)^2.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        size: w in 1, ..., k - 1; None: the one of least variance in the other cells, about k / (e^epsilon + 1).
        allow_inactive: whether there may be users without a cell.
    """

    def __init__(
        self, epsilon: float, cells: int, size: int | None = None, allow_inactive: bool = True
    ) -> None:
        """Choose the size."""
        super().__init__(epsilon, cells, allow_inactive)
        self.exact_sum = math.isinf(self.epsilon)
        self.size = chosen_size(size, self.categories - 1, lambda w: self._other_variance(w))
        self.tilt = Tilt(self.epsilon, self.size / self.categories)
        self.p, self.q, self.gap = (float(x) for x in self._probabilities(self.size))

    def _probabilities(self, size: Any) -> tuple[Any, Any, Any]:
        k, f = self.categories, size / self.categories
        tilt = Tilt(self.epsilon, f)
        p, gap = tilt.agree, (1 - f) * f * tilt.contrast * k / (k - 1)
        return p, (size - p) / (k - 1), gap

    def _other_variance(self, size: Any) -> Any:
        _, q, gap = self._probabilities(size)
        return q * (1 - q) / gap**2

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        uniforms = rng.random((len(own), self.categories + 1))
        holds = uniforms[:, 0] < self.p
        return subsets(self.size, uniforms[:, 1:], self._category(own), holds)

    def _unbias(self, reports: Array) -> Floats:
        return ((reports[:, : self.cells] - self.q) / self.gap)[..., None]

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        return self.tilt.log_density(reports[:, cell].astype(float))  # the cell -1 is the last category

    def _variance(self, own: bool) -> float:
        probability = self.p if own else self.q
        return probability * (1 - probability) / self.gap**2

    def _draw_sum(self, own: Ints, z: Floats, rng: Generator) -> Floats:
        users = np.bincount(self._category(own), minlength=self.categories)
        elsewhere = len(own) - users
        k, w, p, q = self.categories, self.size, self.p, self.q
        both = q * (w - 1) - (p * (w - 1) - (w - 1) * q) / max(k - 2, 1)
        return users, elsewhere, both  # type: ignore[return-value]
