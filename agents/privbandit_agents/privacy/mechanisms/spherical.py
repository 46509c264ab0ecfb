"""Noise without preferred directions: on vectors by their l2 norm, on symmetric matrices by their trace.

Moritz Hardt and Kunal Talwar, "On the Geometry of Differential Privacy", STOC 2010 (K-norm). Proofs:
docs/privacy/additive-noise.md and docs/privacy/wishart-difference.md. Edge cases are those of ``additive``.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_agents.privacy._validate import budget, count, positive, renamed
from privbandit_agents.privacy.accounting.costs import Cost, pure, pure_loss
from privbandit_agents.privacy.mechanisms.additive import scale_for
from privbandit_agents.privacy.mechanisms.grid import rounded
from privbandit_agents.privacy.vectors import Floats, finite


@dataclass(frozen=True)
class KNorm:
    """Noise of density proportional to exp(-|x|_2 / scale): a Gamma(d) radius in a uniform direction.

    *Formal guarantees.* Pure: epsilon = l2 sensitivity / scale; over several vectors the sensitivity is the sum of
    theirs. A coordinate has variance (d + 1) scale^2; Laplace noise for the same l2 bound needs 2 d scale^2.

    Attributes:
        scale: >= 0.
        epsilon: of the calibration.
    """

    scale: float
    epsilon: float

    @classmethod
    def from_epsilon(cls, epsilon: float, l2_sensitivity: float) -> Self:
        """Return the mechanism that is epsilon-DP for an l2 sensitivity."""
        return cls(scale_for(positive(l2_sensitivity=l2_sensitivity), budget(epsilon=epsilon)), epsilon)

    calibrate = renamed("from_epsilon")

    @property
    def cost(self) -> Cost:
        return pure(self.epsilon)

    def release(self, value: ArrayLike, rng: Generator) -> Floats:
        """Return the value, shape (..., d), with noise on each vector."""
        exact = finite(value)
        direction = rng.standard_normal(exact.shape)
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        radius = rng.gamma(exact.shape[-1], size=(*exact.shape[:-1], 1))
        return rounded(np.asarray(exact + self.scale * radius * direction), self.scale)

    def log_density(self, outputs: Floats, value: ArrayLike) -> Floats:
        d = np.shape(value)[-1]
        log_sphere = math.log(2) + d / 2 * math.log(math.pi) - scipy.special.gammaln(d / 2)  # area of the unit sphere
        normaliser = float(log_sphere + scipy.special.gammaln(d)) + d * math.log(self.scale)
        return np.asarray(-np.linalg.norm(outputs - finite(value), axis=-1) / self.scale - normaliser)

    def loss(self, exact: ArrayLike, other: ArrayLike, released: object) -> Cost:
        """Return the cost of hiding whether the value was ``exact`` or ``other``, whatever the release."""
        return pure_loss(float(np.linalg.norm(np.subtract(exact, other), axis=-1).sum()), self.scale)

    def standardised(self, exact: ArrayLike, released: ArrayLike) -> Floats:
        """Return a standard normal for each vector: its noise's length, which has a Gamma law."""
        length = np.linalg.norm(np.subtract(released, exact), axis=-1) / self.scale
        below = scipy.special.gammainc(np.shape(exact)[-1], length)
        return np.ravel(scipy.special.ndtri(np.clip(below, 1e-16, 1 - 1e-16)))


@dataclass(frozen=True)
class WishartDifference:
    """Symmetric-matrix noise W - W' for independent Wishart matrices W, W' of d + 1 degrees of freedom and scale v I.

    *Formal guarantees.* Pure. Replacing one positive semidefinite summand A by another A' costs (tr A + tr A') / (2 v)
    <= trace_bound / v, so v = trace_bound / epsilon gives epsilon-DP, also over many cells of which the two records
    touch two. The degrees of freedom are exactly d + 1. A single Wishart matrix instead of the difference is one-sided
    and not private at any epsilon. For d = 1 it is Laplace noise of scale 2 v.

    Attributes:
        dim: d.
        v: scale >= 0.
        epsilon: of the calibration.
    """

    dim: int
    v: float
    epsilon: float

    @classmethod
    def from_epsilon(cls, epsilon: float, dim: int, trace_bound: float = 1.0) -> Self:
        """Return the mechanism that is epsilon-DP when one user's matrix is PSD with trace at most the bound."""
        return cls(count(dim=dim), scale_for(positive(trace_bound=trace_bound), budget(epsilon=epsilon)), epsilon)

    calibrate = renamed("from_epsilon")

    @property
    def cost(self) -> Cost:
        return pure(self.epsilon)

    def noise(self, rng: Generator, size: tuple[int, ...] = (), users: int = 1) -> Floats:
        """Draw noise matrices, shape (*size, d, d): the exact law of the sum of ``users`` independent ones."""
        degrees = count(users=users) * (self.dim + 1)
        return wishart(rng, self.dim, degrees, self.v, size) - wishart(rng, self.dim, degrees, self.v, size)

    def release(self, value: ArrayLike, rng: Generator) -> Floats:
        """Return symmetric matrices, shape (..., d, d), with noise on each."""
        exact = finite(value)
        if exact.shape[-2:] != (self.dim, self.dim):
            raise ValueError(f"matrices must have shape (..., {self.dim}, {self.dim}); got {exact.shape}.")
        return rounded(np.asarray(exact + self.noise(rng, exact.shape[:-2])), self.v)

    def variance(self) -> tuple[float, float]:
        """Return the variances of a diagonal and of an off-diagonal entry: 4 (d + 1) v^2 and 2 (d + 1) v^2."""
        return 4 * (self.dim + 1) * self.v**2, 2 * (self.dim + 1) * self.v**2

    def loss(self, exact: ArrayLike, other: ArrayLike, released: object) -> Cost:
        """Return the cost of hiding whether the value was ``exact`` or ``other``, whatever the release."""
        return pure_loss(float(np.abs(np.linalg.eigvalsh(np.subtract(exact, other))).sum()), 2 * self.v)


def wishart(rng: Generator, dim: int, degrees: int, v: float, size: tuple[int, ...] = ()) -> Floats:
    """Draw Wishart matrices of scale v I by Bartlett's decomposition: O(d^2) variates for any degrees of freedom."""
    lower = np.tril(rng.standard_normal((*size, dim, dim)), -1)
    lower[..., np.arange(dim), np.arange(dim)] = np.sqrt(rng.chisquare(degrees - np.arange(dim), (*size, dim)))
    matrices: Floats = v * lower @ np.swapaxes(lower, -1, -2)
    return matrices
