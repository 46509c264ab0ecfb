"""Two-sided geometric noise for whole numbers.

Arpita Ghosh, Tim Roughgarden and Mukund Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", STOC 2009.
"""

import math
from dataclasses import dataclass

import numpy as np
from privbandit_agents import pure


@dataclass(frozen=True)
class Geometric:
    """Integer noise k with probability proportional to exp(-epsilon |k| / sensitivity).

    *Formal guarantees.* Pure epsilon-DP for integers that move by at most ``sensitivity`` when one record is replaced,
    tight. An infinite epsilon adds no noise. Numbers that are not whole are refused: whole noise does not hide them.
    """

    epsilon: float
    sensitivity: int = 1

    @property
    def cost(self):
        return pure(self.epsilon)

    def release(self, value, rng):
        exact = np.asarray(value)
        if exact.dtype.kind not in "iu":
            raise ValueError(f"a geometric release needs whole numbers; got {exact.dtype}.")
        if math.isinf(self.epsilon):
            return exact
        stop = -math.expm1(-self.epsilon / self.sensitivity)
        return exact + rng.geometric(stop, exact.shape) - rng.geometric(stop, exact.shape)
