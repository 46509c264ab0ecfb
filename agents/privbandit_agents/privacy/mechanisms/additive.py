"""Noise that a trusted curator adds to a sum.

Cynthia Dwork and Aaron Roth, "The Algorithmic Foundations of Differential Privacy", 2014. Proofs:
docs/privacy/additive-noise.md.

Every mechanism is a frozen value that knows its noise: ``release`` returns the value with noise from the generator
passed in, ``cost`` is what one release costs, and ``log_density`` is the log density of outputs (..., d) given the
exact value (d,). ``loss`` compares a pair of exact values with the worst pair, to which the noise is calibrated, and
``standardised`` gives noise in units of its scale: tests compare both with the declared values. Sums and noise are in
float64.

| edge case | what happens |
|---|---|
| epsilon or rho infinite, scale 0 | the exact value is released |
| epsilon or rho 0, negative or NaN | ValueError |
| noise of a scale below 2^-900 or above 2^900 | ValueError, since floats would lose it |
| a value with NaN or infinity | ValueError, since no noise can hide it; the message does not show the value |
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_agents.privacy._validate import budget, failure, positive, renamed
from privbandit_agents.privacy.accounting.conversions import epsilon_to_rho, gaussian_mu
from privbandit_agents.privacy.accounting.costs import Cost, gaussian_dp, gaussian_loss, pure, pure_loss
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.grid import held, rounded
from privbandit_agents.privacy.vectors import Floats, finite


def scale_for(sensitivity: float, budget: float) -> float:
    """Return the scale of noise, sensitivity over budget, 0 for an infinite budget.

    Raises:
        ValueError: a scale that floats cannot hold.
    """
    if not (scale := sensitivity / budget) and budget < math.inf:
        raise ValueError(f"a sensitivity of {sensitivity:.3g} is too small for floats; scale the values.")
    return held(scale)


@dataclass(frozen=True)
class Laplace:
    """Independent Laplace noise of scale b on every coordinate, rounded to a public grid 2^-20 of b.

    >>> mechanism = Laplace.from_epsilon(epsilon=0.5, l1_sensitivity=2.0)
    >>> mechanism.scale
    4.0
    >>> mechanism.release([10.0, 20.0], np.random.default_rng(0)).round(1)
    array([11.3, 17.5])

    *Formal guarantees.* Pure and tight: epsilon = l1 sensitivity / b. Neighbours: those over which the sensitivity is
    taken.

    Attributes:
        scale: b >= 0.
        epsilon: of the calibration.
        noise: ``"numpy"``, or ``"secure"`` (OpenDP; slow and unseeded).
    """

    scale: float
    epsilon: float
    noise: str = "numpy"

    def __post_init__(self) -> None:
        secure.check(self.noise, library=True)

    @classmethod
    def from_epsilon(cls, epsilon: float, l1_sensitivity: float, noise: str = "numpy") -> Self:
        """Return the mechanism that is epsilon-DP for an l1 sensitivity."""
        scale = scale_for(positive(l1_sensitivity=l1_sensitivity), budget(epsilon=epsilon))
        return cls(secure.certified(noise, "laplace", scale, l1_sensitivity, epsilon), epsilon, noise)

    calibrate = renamed("from_epsilon")

    @property
    def cost(self) -> Cost:
        return pure(self.epsilon)

    def release(self, value: ArrayLike, rng: Generator) -> Floats:
        exact = finite(value)
        if self.noise == "secure":
            return secure.laplace(exact, self.scale)
        return rounded(np.asarray(exact + self.scale * rng.laplace(size=exact.shape)), self.scale)

    def log_density(self, outputs: Floats, value: ArrayLike) -> Floats:
        distance: Floats = np.abs(outputs - finite(value)).sum(axis=-1)
        return np.asarray(-distance / self.scale - np.shape(value)[-1] * math.log(2 * self.scale))

    def loss(self, exact: ArrayLike, other: ArrayLike, released: object) -> Cost:
        """Return the cost of hiding whether the value was ``exact`` or ``other``, whatever the release."""
        return pure_loss(float(np.abs(np.subtract(exact, other)).sum()), self.scale)

    def standardised(self, exact: ArrayLike, released: ArrayLike) -> Floats:
        """Return the noise of a release as independent standard normals, shape (k,)."""
        return normal_of_laplace(np.ravel(np.subtract(released, exact) / self.scale))


@dataclass(frozen=True)
class Gaussian:
    """Independent Gaussian noise on every coordinate, rounded to a public grid 2^-20 of its size.

    >>> Gaussian.from_rho(0.5, l2_sensitivity=2.0).sigma
    2.0
    >>> mechanism = Gaussian.from_epsilon(1.0, delta=1e-5, l2_sensitivity=1.0)  # the analytic Gaussian
    >>> round(mechanism.sigma, 2)
    3.73

    *Formal guarantees.* With l2 sensitivity D it is exactly (D / sigma)-Gaussian DP, hence D^2/(2 sigma^2)-zCDP.

    Attributes:
        sigma: standard deviation >= 0.
        rho: what one release costs in zCDP.
        noise: ``"numpy"``, or ``"secure"`` (OpenDP; slow and unseeded).
    """

    sigma: float
    rho: float
    noise: str = "numpy"

    def __post_init__(self) -> None:
        secure.check(self.noise, library=True)

    @classmethod
    def from_rho(cls, rho: float, l2_sensitivity: float, noise: str = "numpy") -> Self:
        """Return the mechanism that is rho-zCDP for an l2 sensitivity."""
        sigma = scale_for(positive(l2_sensitivity=l2_sensitivity), math.sqrt(2 * budget(rho=rho)))
        return cls(secure.certified(noise, "gaussian", sigma, l2_sensitivity, rho), rho, noise)

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, l2_sensitivity: float, noise: str = "numpy") -> Self:
        """Return the (epsilon, delta)-DP mechanism: the analytic Gaussian; secure, by the rho that OpenDP certifies."""
        if noise == "secure":
            return cls.from_rho(epsilon_to_rho(epsilon, delta), l2_sensitivity, noise)
        mu = gaussian_mu(epsilon, failure(delta=delta))
        return cls(scale_for(positive(l2_sensitivity=l2_sensitivity), mu), mu**2 / 2, noise)

    @property
    def cost(self) -> Cost:
        return gaussian_dp(self.rho)

    def release(self, value: ArrayLike, rng: Generator) -> Floats:
        exact = finite(value)
        if self.noise == "secure":
            return secure.gaussian(exact, self.sigma)
        return rounded(np.asarray(exact + self.sigma * rng.standard_normal(exact.shape)), self.sigma)

    def release_sum(self, total: ArrayLike, releases: int, rng: Generator) -> Floats:
        """Draw the sum of ``releases`` releases by its exact law, given the sum of their exact values."""
        exact = finite(total)
        return exact + self.sigma * math.sqrt(releases) * rng.standard_normal(exact.shape)

    def log_density(self, outputs: Floats, value: ArrayLike) -> Floats:
        squared: Floats = ((outputs - finite(value)) ** 2).sum(axis=-1)
        normaliser = np.shape(value)[-1] * math.log(self.sigma * math.sqrt(2 * math.pi))
        return np.asarray(-squared / (2 * self.sigma**2) - normaliser)

    def loss(self, exact: ArrayLike, other: ArrayLike, released: object) -> Cost:
        """Return the cost of hiding whether the value was ``exact`` or ``other``, whatever the release."""
        return gaussian_loss(float(np.linalg.norm(np.subtract(exact, other))), self.sigma)

    def standardised(self, exact: ArrayLike, released: ArrayLike) -> Floats:
        """Return the noise of a release as independent standard normals, shape (k,)."""
        return np.ravel(np.subtract(released, exact) / self.sigma)


def normal_of_laplace(noise: Floats) -> Floats:
    """Return Laplace variates of scale 1 as standard normals, by their distribution functions."""
    return np.asarray(-np.sign(noise) * scipy.special.ndtri(np.exp(-np.abs(noise)) / 2))
