"""Local randomizers of a vector in a cell: signs over bins and caps of the sphere, and the hemisphere.

John Duchi, Michael Jordan and Martin Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 113,
2018 (the l2-ball mechanism, a hemisphere); Abhishek Bhowmick, John Duchi, Julien Freudiger, Gaurav Kapoor and Ryan
Rogers, "Protection Against Reconstruction and Its Applications in Private Federated Learning", 2018 (caps). Caps over
many bins, kept at random, are this project's own. Proofs: docs/privacy/local-randomizers.md.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from privbandit_agents.privacy._validate import positive
from privbandit_agents.privacy.mechanisms.grid import rounded, step_of
from privbandit_agents.privacy.randomizers.caps import LEAST, Cap, around, best_cap, directions
from privbandit_agents.privacy.randomizers.directions import Vectors, gaussian_sum, sum_of_directions
from privbandit_agents.privacy.randomizers.one_hot import signed_sum, signs
from privbandit_agents.privacy.randomizers.randomizer import (
    LARGE,
    Array,
    Crowd,
    Floats,
    Ints,
    LocalRandomizer,
    Tilt,
    gaussian,
)
from privbandit_agents.privacy.randomizers.thresholds import (
    STEPS,
    agreeing,
    at_most,
    even,
    exponential,
    nearest,
    realises,
    standing,
    staying,
)
from privbandit_agents.privacy.vectors import length, lengths, modest


class BinCapSign(LocalRandomizer):
    """Report a direction in some of the cells; a report is a block (m, D), each cell a direction or 0.

    The value z is rounded without bias to the sphere, s = +-z/|z| with mean z. Under the base measure every cell
    independently holds a uniform direction with probability ``activity``, else 0; the odds of the agree event "the own
    cell's u is not 0 and <u, s> >= threshold" are raised by e^epsilon.

    *Formal guarantees.* Pure epsilon-local DP when a user's cell and value are replaced: a ``Tilt`` on the agree event,
    of base probability f = activity P(u_1 >= threshold) whatever the cell and s; reached at a report that agrees in j
    and not in j'. An inactive user sends a draw from the base measure. A value 0 (also in place of NaN, infinity, and
    anything shorter than 1e-100, whose direction rounding would falsify) has a uniform s.

    The estimate u / c is unbiased with c = activity g (e^epsilon - 1) / Z, g = E[u_1; u_1 >= threshold] and Z = f
    e^epsilon + 1 - f. The variance by coordinate is activity / (D c^2) in another cell; in the own one it is (P / c^2 -
    |z|^2) / D with P = (activity + (e^epsilon - 1) f) / Z the probability that the own cell is kept.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        dim: D.
        threshold: in [0, 1); None: the best one.
        activity: in (0, 1]; None: the best one. Best is the least variance in a cell that holds 1/m of the users.
    """

    def __init__(
        self, epsilon: float, cells: int, dim: int, threshold: float | None = None, activity: float | None = None
    ) -> None:
        super().__init__(epsilon, cells, dim)
        self.exact_sum = self.dim == 1 or math.isinf(self.epsilon)
        finite = min(self.epsilon, 1e4)  # the infinite one draws no report, but has settings like any other
        self.threshold, self.activity = best_cap(finite, self.cells, self.dim, threshold, activity)
        self.cap = Cap(self.dim, self.threshold)
        self.tilt = Tilt(self.epsilon, self.activity * self.cap.mass)
        contrast, low = float(self.tilt.contrast), float(self.tilt.low)
        self.mean = self.activity * math.exp(self.cap.log_first) * contrast
        # thresholds of keeping a cell, of keeping the own one without agreeing, and of agreeing
        self.discrete, f = self.dim == 1, float(self.tilt.chance)
        self.keeping, self.staying = self.activity, (self.activity - f) / (1 - f)
        self.agreed = min(float(self.tilt.agree), 1 - 1 / STEPS)
        if self.discrete:  # a sign in every cell, which uniforms of 53 bits draw exactly
            kept = Fraction(max(nearest(self.activity), 2 / STEPS))
            self.keeping, self.staying = float(kept), staying(kept)
            self.agreed = agreeing(self.epsilon, kept, self.staying, even(0, 1))
            self.realised = realises(self.epsilon, standing(kept, self.staying, self.agreed), Fraction(1))
        self.kept = self.activity * low + self.tilt.chance * contrast
        self.along = self.activity * (low / self.dim + contrast * self.cap.second)  # E<u, s>^2 in the own cell

    def _clip(self, values: Array | None, n: int) -> Floats:
        z = super()._clip(values, n)
        if n == 1 and not modest(z, 2 * LEAST):
            return z
        return np.where(lengths(z) < LEAST, 0.0, z)

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        n, m = len(own), self.cells
        if n == m == 1 and own[0] >= 0 and (one := self.ahead(1, rng)):
            return one.report(0, z[0])[None, None]
        # all from one draw: a user's report does not depend on the group
        if self.discrete:
            uniforms = rng.random((n, 4 + 2 * m))
            normals = uniforms - 0.5
        else:
            normals = rng.standard_normal((n, 4 + m + m * self.dim))
            uniforms = scipy.special.ndtr(normals[:, : 4 + m])
        # which cells are kept: the own one for sure if the report agrees, else at the rate that is left
        agree = uniforms[:, 1] < self.agreed
        stays = agree | (uniforms[:, 2] < self.staying)
        kept = uniforms[:, 4 : 4 + m] < self.keeping
        active = np.flatnonzero(own >= 0)
        kept[active, own[active]] = stays[active]
        # a uniform direction in each of them; the own one is moved to its height over the value
        report = np.zeros((n, m, self.dim))
        report[kept] = directions(normals[:, 4 + m :].reshape(n, m, self.dim)[kept])
        norms = lengths(z)[:, 0]
        user = active[stays[active] & (norms[active] > 0)]  # a value 0 leaves the uniform direction as it is
        pole = z[user] / norms[user, None] * signs(norms, uniforms[:, 0])[user, None]
        heights = self.cap.heights(agree[user], uniforms[user, 3])
        report[user, own[user]] = around(pole, heights, report[user, own[user]])
        return report if self.discrete else rounded(report, self.dim**-0.5)

    def ahead(self, n: int, rng: Generator) -> "Ahead | None":
        """Draw all of the next n users' reports but their values, with one cell; None if the randomizer cannot.

        User by user, ``Ahead.report`` then makes the reports that ``randomize`` would make, bit for bit.
        """
        if self.cells > 1 or self.discrete or math.isinf(self.epsilon):
            return None
        normals = rng.standard_normal((n, 5 + self.dim))
        return Ahead(self, scipy.special.ndtr(normals[:, :5]), directions(normals[:, 5:]))

    def _unbias(self, reports: Array) -> Floats:
        return np.asarray(reports / self.mean)

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        if cell < 0:
            return np.zeros(len(reports))
        u, norm = reports[:, cell], float(np.linalg.norm(z))
        kept = (u != 0).any(axis=1)
        if norm == 0:
            return self.tilt.log_density(kept * self.cap.mass)
        height, up = u @ (z / norm), min((1 + norm) / 2, 1.0)
        weight = up * (height >= self.threshold) + (1 - up) * (height <= -self.threshold)
        return self.tilt.log_density(np.minimum(kept * weight, 1.0))

    def _variance(self, own: bool) -> float:
        spread = (self.kept if own else self.activity) / self.mean**2
        return (spread - 1 if own else spread) / self.dim

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        if self.dim == 1:
            return signed_sum(crowd, self.tilt, self.activity, rng)[:, None] / self.mean
        inside, z = crowd.counts(), crowd.z
        across = (self.kept - self.along) / (self.dim - 1)
        isotropic = (crowd.users - inside) * self.activity / self.dim + inside * across
        norms = np.linalg.norm(z, axis=1, keepdims=True)
        poles = np.divide(z, norms, out=np.zeros_like(z), where=norms > 0)
        aimless = crowd.counts(norms[:, 0] == 0) / self.dim
        covariance = (self.along - across) * crowd.grams(poles)
        covariance -= self.mean**2 * crowd.grams(z)
        covariance += (isotropic + (self.along - across) * aimless)[:, None, None] * np.eye(self.dim)
        return gaussian(crowd.sums(), covariance / self.mean**2, rng)


class Ahead:
    """Reports by ``BinCapSign`` with one cell, of users who come one after the other.

    All that does not depend on a value is drawn beforehand; a value meets it as in ``BinCapSign``, whose guarantee
    holds: it is the same function of value and noise.

    Args:
        randomizer: of the reports.
        uniforms: shape (n, 5).
        u: uniform directions, shape (n, D).
    """

    def __init__(self, randomizer: BinCapSign, uniforms: Floats, u: Floats) -> None:
        agree = uniforms[:, 1] < randomizer.agreed
        heights = randomizer.cap.heights(agree, uniforms[:, 3])
        self.stays = (agree | (uniforms[:, 2] < randomizer.staying)).tolist()
        self.u, self.up, self.heights = list(u), uniforms[:, 0].tolist(), heights.tolist()
        self.mean, self.step, self.clip = randomizer.mean, step_of(randomizer.dim**-0.5), randomizer._clip

    def report(self, user: int, value: Floats) -> Floats:
        """Return the report of one user, shape (D,), whose value has the shape (D,)."""
        norm = length(value) if modest(value, 1.0) else math.inf
        if not LEAST <= norm <= 1.0:  # also where it is not finite
            value = self.clip(value[None], 1)[0]
            norm = length(value)
        u = self.u[user]
        if not self.stays[user]:
            return np.zeros_like(u)
        if norm > 0:  # a value 0 leaves the uniform direction as it is
            pole = value / norm
            if self.up[user] >= (1 + norm) / 2:
                np.negative(pole, out=pole)
            side = u - np.add.reduce(u * pole) * pole
            side /= max(length(side), LEAST)
            height = self.heights[user]
            side *= math.sqrt(1 - height * height)
            pole *= height
            pole += side
        else:
            pole = u.copy()
        pole /= self.step
        np.rint(pole, out=pole)
        pole *= self.step
        return pole


class Hemisphere(LocalRandomizer):
    """Report a direction of the whole one-hot block; a report is a unit vector of R^(m D) as a block (m, D).

    The block is divided by ``radius`` and rounded without bias to the sphere. A direction is drawn without looking at
    it, and one bit gives the side of the direction on which the block is; the bit is right with probability e^epsilon /
    (e^epsilon + 1). The report is the direction or the opposite one, as the bit has it: uniform on the hemisphere
    around the block, or on the other one.

    >>> randomizer = Hemisphere(epsilon=1.0, cells=2, dim=3)
    >>> report = randomizer.randomize(np.array([1]), np.array([[0.0, 0.6, 0.8]]), np.random.default_rng(0))
    >>> report.shape, round(float(np.linalg.norm(report)), 6)
    ((1, 2, 3), 1.0)

    *Formal guarantees.* Pure epsilon-local DP when a user's cell and value are replaced: a ``Tilt`` on the near
    hemisphere, f = 1/2; reached where <u, s> >= 0 > <u, s'>. An inactive user, and a NaN or infinite value, has the
    block 0 and a uniform report. Values are scaled down to l2 norm ``radius``. The base measure is the uniform law of
    the sphere. As floats it is exact: the direction is the same whoever reports it, the randomized bit compares 53
    random bits with a threshold, and changing all signs is exact.

    With M = m D the estimate is B u, B = radius (e^epsilon + 1) / (e^epsilon - 1) sqrt(pi) Gamma((M + 1) / 2) / Gamma(M
    / 2). Its variance by coordinate is B^2 / M in another cell, and less by |z|^2 / D in the own one; for large M it
    tends to (pi / 2) ((e^epsilon + 1) / (e^epsilon - 1))^2 radius^2.

    Args:
        epsilon: > 0, or infinity.
        cells: m.
        dim: D.
        radius: largest l2 norm of a value, > 0.
        noise: as in ``LocalRandomizer``.
    """

    discrete = True

    def __init__(self, epsilon: float, cells: int, dim: int, radius: float = 1.0, noise: str = "numpy") -> None:
        super().__init__(epsilon, cells, dim, noise)
        self.exact_sum = math.isinf(self.epsilon) or self.cells * self.dim == 1
        self.radius = positive(radius=radius)
        self.whole = BinCapSign(epsilon, 1, self.cells * self.dim, threshold=0.0, activity=1.0)
        self.scale = self.radius / self.whole.mean
        self.right = at_most(exponential(self.epsilon))

    def _scaled(self, own: Ints, z: Floats) -> Floats:
        return self._block(own, z / self.radius).reshape(len(own), -1)

    def _draw(self, own: Ints, z: Floats, rng: Generator) -> Array:
        if len(own) == 1:
            value = z[0] if self.radius == 1.0 else z[0] / self.radius
            return self._of_one(own.item(), value, rng).reshape(1, self.cells, self.dim)
        block = self._scaled(own, z)
        uniforms, normals = self._drawn(len(own), rng)
        u = directions(normals)
        # on which side of the direction the block is, rounded to the sphere: +-block/|block| with mean the block
        up = np.vecdot(u, block) * signs(lengths(block)[:, 0], uniforms[:, 0]) >= 0
        told = up == (uniforms[:, 1] < self.right)
        u *= np.where(told, 1.0, -1.0)[:, None]
        return u.reshape(len(own), self.cells, self.dim)

    def _drawn(self, n: int, rng: Generator) -> tuple[Floats, Floats]:
        """Return two uniforms (n, 2) of 53 bits, and Gaussians (n, m D), of each user: the same whoever is in a group.

        Of several cells, or 4096 coordinates, numpy's Gaussians cost half of Gaussians by inversion.
        """
        size = self.cells * self.dim
        if (self.cells == 1 and size < 4096) or self.noise == "secure":
            uniforms = rng.random((n, 2 + size))
            normals = np.maximum(uniforms[:, 2:], 0.5 / STEPS)
            return uniforms[:, :2], scipy.special.ndtri(normals, out=normals)
        uniforms, normals = np.empty((n, 2)), np.empty((n, size))
        for user in range(n):
            rng.random(out=uniforms[user])
            rng.standard_normal(out=normals[user])
        return uniforms, normals

    def _of_one(self, cell: int, value: Floats, rng: Generator) -> Floats:
        """Draw the report of one user, shape (m D,), as ``_draw`` does, with numbers in place of short arrays."""
        uniforms, normals = self._drawn(1, rng)
        rounding, bit, u = uniforms.item(0), uniforms.item(1), normals[0]
        u = np.divide(u, length(u), out=u) if len(u) > 1 else directions(u)
        # the block is 0 but in its own cell
        along, norm = (float(u[cell * self.dim :][: self.dim].dot(value)), length(value)) if cell >= 0 else (0.0, 0.0)
        height = along * (1.0 if rounding < (1 + norm) / 2 else -1.0)
        return u if (height >= 0) == (bit < self.right) else np.negative(u, out=u)

    def _unbias(self, reports: Array) -> Floats:
        return np.asarray(self.scale * reports)

    def _log_density(self, reports: Array, cell: int, z: Floats) -> Floats:
        block = self._scaled(np.array([cell]), z[None])[0]
        return self.whole.log_likelihood(reports.reshape(len(reports), 1, -1), 0, block)

    def _variance(self, own: bool) -> float:
        anywhere = self.scale**2 / (self.cells * self.dim)
        return anywhere - self.radius**2 / self.dim if own else anywhere

    @property
    def fewest_summed(self) -> float:
        """From how many users on ``sum_of_each`` is taken for the law of the sum; infinity for secure noise or a sign.

        Its inexact part has an excess kurtosis of at most 6 / (n m D) along any line: below 10^-4, or n = 500.
        """
        if self.noise == "secure" or self.entries == 1:
            return math.inf
        return 1 if math.isinf(self.epsilon) else min(500, -(-(2**16) // self.entries))

    def total(self, cells: Array, vectors: Any, rng: Generator, counts: Array | None = None) -> Floats:
        """Draw the sum by ``sum_of_each``, or of users by counts; with several cells no D x D matrix is formed."""
        if counts is None and self.entries > 1:
            return self.sum_of_each(cells, vectors, rng)
        if counts is None or self.cells == 1 or vectors.size < LARGE or math.isinf(self.epsilon):
            return super().total(cells, vectors, rng, counts)
        return self.sum_by_counts(cells, vectors, rng, counts)

    def sum_of_each(self, cells: Array, vectors: Vectors, rng: Generator) -> Floats:
        """Draw the sum of the estimates of n users, each by its own height over its block, shape (m, D).

        For simulation, m D >= 2: exact but for the directions across: see ``sum_of_directions``.

        Args:
            cells: each user's cell, shape (n,), -1 if inactive.
            vectors: the users' values, dense or by factors, finite, of norm ``radius`` at most.
            rng: the noise.
        """
        own = np.asarray(cells)
        if not math.isinf(self.epsilon):
            return self.scale * sum_of_directions(vectors, own, self.cells, self.radius, self.right, rng)
        return np.array([vectors[np.flatnonzero(own == cell)].sum() for cell in range(self.cells)])

    def sum_by_counts(self, cells: Array, vectors: Vectors, rng: Generator, counts: Array) -> Floats:
        """Draw ``approximate_sum`` by its law, shape (m, D), of values by their factors: no D x D matrix is formed.

        For simulation, m D >= 2 and a finite epsilon.

        Args:
            cells: shape (k,), -1 if inactive.
            vectors: k values, finite, of norm ``radius`` at most.
            rng: the noise.
            counts: how many users have each input, shape (k,).
        """
        spread = int(counts.sum()) * self._variance(own=False)
        return gaussian_sum(vectors, np.asarray(cells), self.cells, counts, self.radius, spread, rng)

    def _draw_sum(self, crowd: Crowd, rng: Generator) -> Floats:
        if self.exact_sum:  # a report is a sign
            signs = Crowd(crowd.own, crowd.z / self.radius, crowd.number, crowd.cells)
            return self.radius * self.whole._draw_sum(signs, rng)
        spread = crowd.users * self._variance(own=False) * np.eye(self.dim)
        return gaussian(crowd.sums(), spread - crowd.grams(crowd.z), rng)
