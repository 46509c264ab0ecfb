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
from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian

Floats = NDArray[np.float64]
WEIGHT = 1.6
"""Weight of the square beside the number; up to 1.665 the sensitivity is that of the number alone."""


class NoisyMean(NamedTuple):
    """A released mean.

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

    *Formal guarantees.* Those of ``GridGaussian``, exact for the numbers that leave, under replacement of one number by
    any other; n and B are public. A number v, clipped to [-B, B], NaN to 0, contributes
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
    def from_rho(cls, rho: float, users: int, bound: float, noise: str = "numpy") -> Self:
        """Return the release that is rho-zCDP."""
        return cls(users, positive(bound=bound), GridGaussian.from_rho(rho, sensitivity(users), noise, 2))

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, users: int, bound: float, noise: str = "numpy") -> Self:
        """Return the release that is (epsilon, delta)-DP."""
        mechanism = GridGaussian.from_epsilon(epsilon, delta, sensitivity(users), noise, 2)
        return cls(users, positive(bound=bound), mechanism)

    @property
    def cost(self) -> Cost:
        return self.mechanism.cost

    def encoded(self, numbers: ArrayLike) -> Floats:
        """Return the sum of the users' contributions, shape (2,).

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
        """Return the estimate of the numbers' mean by a noisy sum."""
        mean, square = noisy / self.users * self.bound
        sigma = self.mechanism.sigma / self.users * self.bound
        return NoisyMean(float(mean), float(square / WEIGHT * self.bound), float(sigma))


def sensitivity(users: int) -> float:
    """Return how far two sums of n such vectors are apart that differ in one, with the rounding of both sums."""
    return 2 * (1 + 1e-12) + 8 * count(users=users) * 2.0**-53
