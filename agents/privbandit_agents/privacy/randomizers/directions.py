"""Sums of random directions: many users' hemisphere reports in one draw, for simulation; one by one, or by counts.

Persi Diaconis and David Freedman, "A Dozen de Finetti-style Results in Search of a Theory", Annales de l'I.H.P. 23,
1987: few coordinates of a uniform direction in many dimensions are close to independent Gaussians.
"""

import math
from typing import Any, Protocol

import numpy as np
from numpy.polynomial import chebyshev
from numpy.random import Generator

from privbandit_agents.privacy.randomizers.randomizer import Floats, Ints


class Vectors(Protocol):
    """Vectors of n users, dense or by factors: shape (n, D) in all."""

    @property
    def size(self) -> int:
        """D."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> "Vectors": ...

    def sum(self, weights: Floats | None = None) -> Floats:
        """Return the sum of the vectors, each times its weight, shape (D,)."""

    def times(self, vector: Floats) -> Floats:
        """Return the inner products with a vector, shape (n,)."""

    def gram(self) -> Floats:
        """Return the inner products of the vectors, shape (n, n)."""

    def dense(self) -> Floats:
        """Return the vectors, shape (n, D)."""


def sum_of_directions(vectors: Vectors, own: Ints, cells: int, radius: float, right: float, rng: Generator) -> Floats:
    """Draw the sum of one direction a user, uniform on the hemisphere around its block or on the opposite one.

    A user's block has its vector z in its own cell, and 0 in the others. It is rounded to the sphere, s = +-z/|z| with
    mean z/radius, and the hemisphere is that around s with probability ``right``. A direction is a s + sqrt(1 - a^2) w.
    Every height a is drawn by its exact law. The w are uniform on the unit sphere across from s; their weighted sum is
    drawn from the Gaussian of its mean and covariance.

    Args:
        vectors: z, shape (n, D), m D >= 2; finite. Those longer than ``radius`` count as that long.
        own: cells, -1 for users whose block is 0, shape (n,).
        cells: m.
        radius: > 0.
        right: the probability of the right hemisphere.
        rng: the noise.

    Returns:
        The sum, shape (m, D).
    """
    total = np.zeros((cells, vectors.size))
    most = 256  # users who share a Gaussian draw; the cost of a user grows with their number
    for start in range(0, len(vectors), most):
        part = slice(start, start + most)
        _add(total, vectors[part], own[part], radius, right, rng)
    return total


def _add(total: Floats, z: Vectors, own: Ints, radius: float, right: float, rng: Generator) -> None:
    n, dim = len(z), total.size
    gram = z.gram() * ((own[:, None] == own) & (own >= 0))
    # a direction's height over +-z/|z|; a block 0 has none
    norms = np.sqrt(np.diagonal(gram))
    inverse = np.divide(1.0, norms, out=np.zeros(n), where=norms > 0)
    along, across = rng.standard_normal(n) ** 2, rng.chisquare(dim - 1, n)
    squares = np.where(norms > 0, along / (along + across), 0.0)
    towards = 0.5 + np.minimum(norms / radius, 1.0) * (right - 0.5)
    heights = np.sqrt(squares) * np.where(rng.random(n) < towards, 1.0, -1.0)
    # N(0, B I - S'S), S the rows sqrt(b) s: sqrt(B) g - S'w with w Gaussian, correlated with g by S/sqrt(B)
    spread = (1 - squares) / np.where(norms > 0, dim - 1, dim)
    rows, whole = np.sqrt(spread) * inverse, float(spread.sum())
    noise = rng.standard_normal(total.shape)
    # a covariance is singular if all directions agree
    root = np.linalg.cholesky((1 + 1e-9) * np.eye(n) - rows[:, None] * gram * rows / whole)
    w, size = root @ rng.standard_normal(n), np.sqrt(whole)
    for cell in np.unique(own[own >= 0]):
        here = np.flatnonzero(own == cell)
        mine = z[here]
        w[here] += rows[here] * mine.times(noise[cell]) / size
        total[cell] += mine.sum(heights[here] * inverse[here] - rows[here] * w[here])
    noise *= size
    total += noise


def gaussian_sum(
    vectors: Vectors, own: Ints, cells: int, number: Ints, radius: float, spread: float, rng: Generator
) -> Floats:
    """Draw Gaussian vectors of mean (sum of z) and covariance (spread I - sum of z z'), over the users of each cell.

    No D x D matrix is formed: the symmetric root of the covariance is a polynomial of it, right to 13 digits.

    Args:
        vectors: z, of norm ``radius`` at most, shape (k, D).
        own: cells, -1 for users who are left out, shape (k,).
        cells: m.
        number: how many users have each vector, shape (k,).
        radius: > 0.
        spread: at least 1.2 radius^2 times the number of all users.
        rng: the noise.

    Returns:
        The draws, shape (m, D).
    """
    total: Floats = math.sqrt(spread) * rng.standard_normal((cells, vectors.size))
    for cell in np.unique(own[(own >= 0) & (number > 0)]):
        here = np.flatnonzero(own == cell)
        mine, many = vectors[here], number[here].astype(np.float64)
        bound = radius**2 * float(many.sum()) / spread  # no eigenvalue of the scaled sum of z z' is larger
        total[cell] = _root_times(mine, many / spread, bound, total[cell]) + mine.sum(many)
    return total


def _root_times(z: Vectors, weights: Floats, bound: float, vector: Floats) -> Floats:
    """Return (I - sum of w z z')^(1/2) times a vector, by the Chebyshev series of sqrt(1 - t) on [0, bound]."""
    points = chebyshev.chebpts1(math.ceil(13 * math.log(10) / math.acosh(2 / bound - 1)) + 1)  # decimal digits
    values = np.sqrt(1 - bound / 2 * (points + 1))
    series = np.asarray(2 / len(points) * chebyshev.chebvander(points, len(points) - 1).T @ values)
    series[0] /= 2
    # the recursion of Chebyshev's polynomials, at the matrix moved to [-1, 1]
    before, now = vector, 2 / bound * z.sum(weights * z.times(vector)) - vector
    result = series[0] * before + series[1] * now
    for factor in series[2:]:
        before, now = now, 2 * (2 / bound * z.sum(weights * z.times(now)) - now) - before
        result += factor * now
    return np.asarray(result)
