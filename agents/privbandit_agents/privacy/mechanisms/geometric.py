"""Discrete Laplace noise by comparing random integers: pure differential privacy for the numbers that leave.

Clement Canonne, Gautam Kamath and Thomas Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020,
section 5, samples the law from Bernoulli variables of probability exp(-x) with rational x. Proof:
docs/privacy/finite-arms.md, Theorem 4.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import budget, count
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.additive import Laplace
from privbandit_agents.privacy.vectors import finite

Floats = NDArray[np.float64]


def uniform_below(n: int, rng: Generator) -> int:
    """Return a uniform integer in 0, ..., n - 1, exactly."""
    bits = (n - 1).bit_length()
    while True:
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < n:
            return drawn


def chance_of_exp(x: Fraction, rng: Generator) -> bool:
    """Return True with probability exp(-x), exactly, for x in [0, 1].

    The number k of the first failure in trials of probability x, x/2, x/3, ... is odd with that probability.
    """
    k = 1
    while uniform_below(x.denominator * k, rng) < x.numerator:
        k += 1
    return k % 2 == 1


def two_sided(rate: Fraction, rng: Generator) -> int:
    """Return an integer k with probability proportional to exp(-rate |k|), exactly, for rate > 0."""
    s, t = rate.numerator, rate.denominator
    while True:
        # an integer u + t v with probability proportional to exp(-(u + t v) / t), then its part in steps of s
        u = uniform_below(t, rng)
        if not chance_of_exp(Fraction(u, t), rng):
            continue
        v = 0
        while chance_of_exp(Fraction(1), rng):
            v += 1
        size, minus = (u + t * v) // s, rng.bytes(1)[0] & 1
        if size or not minus:  # one of the two zeros is left out
            return -size if minus else size


@dataclass(frozen=True)
class GridLaplace(Laplace):
    """Two-sided geometric noise for whole numbers: Laplace noise on the integers.

    >>> mechanism = GridLaplace.of_integers(epsilon=0.5, sensitivity=1)
    >>> float(mechanism.release(np.array([3.0]), np.random.default_rng(0))[0]).is_integer()
    True

    *Formal guarantees.* Pure epsilon-DP, exact for the numbers that leave: a vector of integers that moves by at most
    ``sensitivity``, a whole number, in the l1 norm. The noise is k with probability proportional to
    exp(-epsilon |k| / sensitivity), drawn in rational arithmetic; floats that cannot hold the sum are rounded after it.

    Attributes:
        sensitivity: l1, a whole number.
    """

    sensitivity: int = 1

    def __post_init__(self) -> None:
        secure.check(self.noise)

    @classmethod
    def of_integers(cls, epsilon: float, sensitivity: int, noise: str = "numpy") -> Self:
        """Return the mechanism for integers with this l1 sensitivity."""
        return cls(count(sensitivity=sensitivity) / budget(epsilon=epsilon), epsilon, noise, sensitivity)

    def release(self, value: ArrayLike, rng: Generator) -> Floats:
        """Return integers with noise.

        Raises:
            ValueError: a value that is not whole.
        """
        exact = finite(value)
        if (exact != np.floor(exact)).any():
            raise ValueError("noise on integers hides whole numbers alone; got another (not shown: it is raw data).")
        if math.isinf(self.epsilon):
            return exact.copy()
        rate = Fraction(self.epsilon) / self.sensitivity
        source = secure.source(self.noise, rng)
        return np.array([float(int(one) + two_sided(rate, source)) for one in exact.ravel()]).reshape(exact.shape)
