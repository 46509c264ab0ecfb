"""A public grid to which everything continuous is rounded before it leaves.

Noise in floating point is fine-grained near 0 and coarse far from it, and a sum with the value keeps traces of both in
its last bits. Rounding to multiples of a power of two, which noise and a public constant fix, wipes them out. It is
post-processing: it cannot cost privacy, and it is no proof that floats are as private as real numbers.
"""

import math

import numpy as np

from privbandit_agents.privacy.mechanisms.secure import Floats

FINE = 20
"""A step is 2^-20 of the noise's scale at most, and more than half of that."""


def step_of(scale: float) -> float:
    """Return the step for noise of this scale, a power of two; 0 where there is no noise, or none that is finite."""
    if not 0 < scale < math.inf:
        return 0.0
    exponent = math.frexp(scale)[1] - 1 - FINE
    return math.ldexp(1.0, exponent) if exponent > -1000 else 0.0


def rounded(values: Floats, scale: float) -> Floats:
    """Return the nearest multiples of the step for noise of this scale; the array is overwritten."""
    if step := step_of(scale):
        values /= step
        np.rint(values, out=values)
        values *= step
    return values
