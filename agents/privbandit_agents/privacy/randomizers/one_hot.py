"""Local randomizers of a value in a cell: Laplace noise, unary encoding and signed subsets.

Ulfar Erlingsson, Vasyl Pihur and Aleksandra Korolova, "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
Response", CCS 2014, and Tianhao Wang, Jeremiah Blocki, Ninghui Li and Somesh Jha, "Locally Differentially Private
Protocols for Frequency Estimation", USENIX Security 2017 (unary encoding). The signed subset is this project's own.
Proofs: docs/privacy/local-randomizers.md.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.privacy._validate import positive
from privbandit_agents.privacy.mechanisms.grid import rounded
from privbandit_agents.privacy.randomizers.categories import chosen_size, subsets
from privbandit_agents.privacy.randomizers.randomizer import Array, Crowd, Floats, Ints, LocalRandomizer, Tilt
from privbandit_agents.privacy.randomizers.thresholds import (
    agreeing,
    at_most,
    even,
    exponential,
    nearest,
    realises,
    standing,
    staying,
)


class LaplaceOneHot(LocalRandomizer):
    """Add Laplace noise to every coordinate of the one-hot block; a report is the noisy block, shape (m, D).

    *Formal guarantees.* Pure epsilon-local DP when a user's cell and value are replaced: the block moves by at most 2
    bound in l1, whether the cell or the value is another, and the scale is 2 bound / epsilon. Reached where x_j >= z
    and x_j' <= 0 for z, z' >= 0 of l1 norm ``bound``. An inactive user's block is 0. Values are scaled down to l1 norm
    ``bound`` (not to l2 norm 1); NaN and infinity become the zero vector. The base measure is Lebesgue's.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        dim: D.
        bound: l1 norm to clip to, > 0; None: sqrt(D), which leaves the l2 unit ball as it is.
    """

    norm_order = 1

    def __init__(self, epsilon: float, cells: int, dim: int = 1, bound: float | None = None) -> None:
        super().__init__(epsilon, cells, dim)
        self.radius = math.sqrt(self.dim) if bound is None else positive(bound=bound)
        self.scale = 2 * self.radius / self.epsilon

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        noise = rng.laplace(scale=self.scale, size=(len(own), self.cells, self.dim))
        noise += self._block(own, z)
        return rounded(noise, self.scale)

    def _unbias(self, reports: Array) -> Floats:
        return reports

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        noise = np.abs(reports - self._block(np.array([cell]), z[None])).sum(axis=(1, 2))
        return np.asarray(-noise / self.scale - self.cells * self.dim * math.log(2 * self.scale))

    def _variance(self, own: bool) -> float:
        return 2 * self.scale**2

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        gammas = rng.standard_gamma(crowd.users, size=(2, self.cells, self.dim))
        return np.asarray(crowd.sums() + self.scale * (gammas[0] - gammas[1]))


class UnaryEncoding(LocalRandomizer):
    """Optimised unary encoding (OUE); a report is one bit for each cell, shape (m,).

    The own cell's bit is fair, every other bit is 1 with probability q = 1 / (e^epsilon + 1).

    *Formal guarantees.* Pure epsilon-local DP when a user's cell is replaced, reached at bits (1, 0) of the cells j and
    j'. An inactive user's bits are all 1 with probability q. The base measure is counting. The variance of an estimate
    is 4 e^epsilon / (e^epsilon - 1)^2 in another cell and 1 more in the own one.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        noise: as in ``LocalRandomizer``.
    """

    categorical = True
    discrete = True

    def __init__(self, epsilon: float, cells: int, noise: str = "numpy") -> None:
        super().__init__(epsilon, cells, noise=noise)
        self.flip = float(scipy.special.expit(-self.epsilon))
        self.flipped = 1 - at_most(exponential(self.epsilon))
        self.gap = math.tanh(self.epsilon / 2) / 2  # 1/2 - q

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        ones = self._block(own, z)[..., 0] > 0
        return np.asarray(rng.random(ones.shape) < np.where(ones, 0.5, self.flipped))

    def _unbias(self, reports: Array) -> Floats:
        return ((reports - self.flip) / self.gap)[..., None]

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        each = np.where(
            np.asarray(reports, bool), scipy.special.log_expit(-self.epsilon), scipy.special.log_expit(self.epsilon)
        )
        if cell >= 0:
            each[:, cell] = -math.log(2)
        return np.asarray(each.sum(axis=1))

    def _variance(self, own: bool) -> float:
        other = 4 * math.exp(-self.epsilon) / math.expm1(-self.epsilon) ** 2
        return other + 1.0 if own else other

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        inside, n = crowd.counts(), crowd.users
        bits = rng.binomial(inside, 0.5) + rng.binomial(n - inside, self.flip)
        return np.asarray((bits - n * self.flip) / self.gap)[:, None]


class SignedSubset(LocalRandomizer):
    """Report w of m cells with a sign each; a report is m entries in {-1, 0, 1}.

    For values in [-1, 1], such as the signed one-hot (2 y - 1) e_j of a label in a leaf of a tree. The value is rounded
    without bias to a sign s. The chosen cells and their signs are uniform, except that the odds of the event "cell j is
    chosen with the sign s" are raised by e^epsilon.

    *Formal guarantees.* Pure epsilon-local DP when a user's cell and value are replaced: a ``Tilt`` on that event, of
    base probability f = w / (2 m) whatever (j, s); reached at a report that agrees with (j, s) and not with (j', s').
    Inactive users send a draw from the base measure. NaN and infinity become the value 0, a fair sign.

    With c = f (e^epsilon - 1) / Z the mean of the own entry and P = f (e^epsilon + 1) / Z the probability that it is
    chosen, Z = f e^epsilon + 1 - f, the variances are P / c^2 - z^2 in the own cell and (w - P) / ((m - 1) c^2) in
    another one, where entries are uncorrelated. For epsilon <= log 3 the best size is m, the signs are independent, and
    the sum of the reports has an exact law.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        size: w in 1, ..., m; None: the one of least variance in the other cells, w / (2 m) about 1 / (e^epsilon - 1).
        noise: as in ``LocalRandomizer``.
    """

    discrete = True
    entries_a_block = 2**18

    def __init__(self, epsilon: float, cells: int, size: int | None = None, noise: str = "numpy") -> None:
        super().__init__(epsilon, cells, noise=noise)
        self.size = chosen_size(size, self.cells, lambda w: self._other_variance(w))
        self.exact_sum = self.size == self.cells or math.isinf(self.epsilon)
        self.tilt = Tilt(self.epsilon, self.size / (2 * self.cells))
        self.mean, self.chosen = (float(x) for x in self._moments(self.size))
        # thresholds of 53 bits: of agreeing, of staying in without, and of staying in for the inactive
        kept, picks = Fraction(self.size, self.cells), min(self.size, self.cells - self.size)
        self.staying, self.idling = staying(kept), nearest(kept)
        slack = even(picks, self.cells)
        self.agreed = agreeing(self.epsilon, kept, self.staying, slack)
        densities = standing(kept, self.staying, self.agreed)
        if kept < 1:  # the inactive
            densities += [Fraction(self.idling) / kept, (1 - Fraction(self.idling)) / (1 - kept)]
        self.realised = realises(self.epsilon, densities, slack)

    def _moments(self, size: int | Ints) -> tuple[Any, Any]:
        f = size / (2 * self.cells)
        tilt = Tilt(self.epsilon, f)
        return f * tilt.contrast, f * (tilt.contrast + 2 * tilt.low)

    def _other_variance(self, size: int | Ints) -> Any:
        mean, chosen = self._moments(size)
        elsewhere = (size - chosen) / (self.cells - 1) if self.cells > 1 else size / self.cells
        return elsewhere / mean**2

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        n, m = len(own), self.cells
        words = -(-m // 32)
        uniforms = rng.random((n, 3 + words + min(self.size, m - self.size)))
        # every cell gets a fair sign, the own one that of the rounded value if the report agrees
        agree = uniforms[:, 1] < self.agreed
        report = fair_signs(uniforms[:, 3 : 3 + words], m)
        told = signs(z[:, 0], uniforms[:, 0])
        np.negative(told, out=told, where=~agree)
        if n == 1 and own[0] >= 0:
            report[0, own[0]] = told[0]
        elif (active := np.flatnonzero(own >= 0)).size:
            report[active, own[active]] = told[active]
        if self.size == m:
            return report
        # a subset of the cells is kept: with the own one for sure if the report agrees, else at the rate that is left
        holds = np.where(own < 0, uniforms[:, 2] < self.idling, agree | (uniforms[:, 2] < self.staying))
        return report * subsets(self.size, m, uniforms[:, 3 + words :], np.maximum(own, 0), holds)

    def _unbias(self, reports: Array) -> Floats:
        return np.asarray(reports / self.mean)[..., None]

    def _unbias_sum(self, reports: Array) -> Floats:
        return np.asarray(reports.sum(axis=0, dtype=np.int64) / self.mean)[:, None]

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        if cell < 0:
            return np.zeros(len(reports))
        return self.tilt.log_density(np.abs(reports[:, cell]) * (1 + reports[:, cell] * z[0]) / 2)

    def _variance(self, own: bool) -> float:
        return self.chosen / self.mean**2 - 1 if own else float(self._other_variance(self.size))

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        if self.exact_sum:
            return signed_sum(crowd, self.tilt, 1.0, rng)[:, None] / self.mean
        inside, m, active = crowd.counts(), self.cells, int(crowd.counts().sum())
        squares = inside * self.chosen - self.mean**2 * crowd.sums(crowd.z**2)[:, 0]
        outside = (active - inside) * (self.size - self.chosen) / (m - 1)
        idle = (crowd.users - active) * self.size / m
        deviation = np.sqrt(squares + outside + idle) / self.mean
        return np.asarray(crowd.sums() + (deviation * rng.standard_normal(m))[:, None])


def signs(z: Floats, uniforms: Floats) -> Floats:
    """Return signs of mean z, shape (n,): +1 with probability (1 + z) / 2, given z in [-1, 1], uniforms in [0, 1)."""
    return np.where(uniforms < (1 + z) / 2, 1.0, -1.0)


def fair_signs(uniforms: Floats, m: int) -> Array:
    """Return m fair signs a row, int8 (n, m): the first bits of uniforms in [0, 1) of shape (n, ceil(m / 32))."""
    words = (uniforms * 2.0**32).astype("<u4")
    bits = np.unpackbits(words.view(np.uint8), axis=1, count=m).view(np.int8)
    bits *= np.int8(2)
    bits -= np.int8(1)
    return bits


def signed_sum(crowd: Crowd, tilt: Tilt, activity: float, rng: Generator) -> Floats:
    """Draw the sum of n users' signs in every cell, shape (m,), where the signs of a user are independent.

    Every cell has a fair sign with probability ``activity``, else 0. The own cell's sign agrees with the rounded value
    with probability ``tilt.agree`` (its chance is activity / 2) and is otherwise drawn given that it does not agree.
    Values have dimension 1 and lie in [-1, 1].
    """
    up = rng.binomial(crowd.number, np.clip((1 + crowd.z[:, 0]) / 2, 0, 1))
    disagree = (1 - tilt.agree) * tilt.chance / (1 - tilt.chance)
    outcomes = (tilt.agree, disagree, max(1 - tilt.agree - disagree, 0.0))
    total = np.zeros(crowd.cells)
    for number, sign in ((up, 1), (crowd.number - up, -1)):
        drawn = rng.multinomial(crowd.tally(number, crowd.own), outcomes)
        total += sign * (drawn[:, 0] - drawn[:, 1])
    kept = rng.binomial(crowd.users - crowd.counts(), activity)
    return np.asarray(total + 2 * rng.binomial(kept, 0.5) - kept)
