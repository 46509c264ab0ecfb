"""The mean of numbers that users contribute, and how wide its error is: both for the price of the mean.

Proof: docs/privacy/off-policy-values.md.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import count, positive
from privbandit_agents.privacy.accounting.conversions import gaussian_mu
from privbandit_agents.privacy.accounting.costs import Cost, gaussian_dp
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian

Floats = NDArray[np.float64]
WEIGHT = 1.6
"""Weight of the square beside the number; up to 1.665 the sensitivity is that of the number alone."""


class NoisyMean(NamedTuple):
    """What is released.

    Attributes:
        mean: of the numbers.
        square: mean of their squares.
        sigma: standard deviation of the noise in the mean.
    """

    mean: float
    square: float
    sigma: float


@dataclass(frozen=True)
class BoundedMean:
    """Release the mean of n numbers in [-B, B] and the mean of their squares.

    *Formal guarantees.* mu-Gaussian DP with mu = sqrt(2 rho), exact for the numbers that leave, under replacement of
    one number by any other; n and B are public. A number v, clipped to [-B, B], NaN to 0, contributes
    (u, 1.6 u^2) with u = v / B, and two such vectors are at most 2 apart.

    Attributes:
        users: n.
        bound: B.
        mechanism: adds the noise to the sum of n such vectors.

    Examples:
        >>> release = BoundedMean.from_epsilon(1.0, 1e-5, users=100, bound=1.0)
        >>> round(release.mechanism.sigma / 100, 3)
        0.075
    """

    users: int
    bound: float
    mechanism: GridGaussian

    @classmethod
    def from_rho(cls, rho: float, users: int, bound: float) -> Self:
        """Return the release that is sqrt(2 rho)-Gaussian DP."""
        rounding = 8 * count(users=users) * 2.0**-53  # of two sums, each correctly rounded
        sensitivity = 2 * (1 + 1e-12) + rounding
        return cls(users, positive(bound=bound), GridGaussian.from_rho(rho, sensitivity, dim=2))

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, users: int, bound: float) -> Self:
        """Return the release that is (epsilon, delta)-DP."""
        return cls.from_rho(gaussian_mu(epsilon, delta) ** 2 / 2, users, bound)

    @property
    def cost(self) -> Cost:
        return gaussian_dp(self.mechanism.rho)

    def encoded(self, numbers: ArrayLike) -> Floats:
        """Return the sum of what the users contribute, shape (2,).

        Raises:
            ValueError: they are not n.
        """
        values = np.asarray(numbers, np.float64)
        if values.shape != (self.users,):
            raise ValueError(f"numbers must be {self.users}, one a user; got shape {values.shape}.")
        u = np.clip(np.nan_to_num(values, nan=0.0) / self.bound, -1.0, 1.0)
        return np.array([math.fsum(u), WEIGHT * math.fsum(u**2)])

    def release(self, numbers: ArrayLike, rng: Generator) -> NoisyMean:
        return self.decoded(self.mechanism.release(self.encoded(numbers), rng))

    def decoded(self, noisy: Floats) -> NoisyMean:
        """Return what a noisy sum says of the numbers."""
        mean, square = noisy / self.users * self.bound
        sigma = self.mechanism.sigma / self.users * self.bound
        return NoisyMean(float(mean), float(square / WEIGHT * self.bound), float(sigma))
