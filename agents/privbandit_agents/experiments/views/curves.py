"""Reference curves over measured lines."""

import numpy as np
from numpy.typing import ArrayLike

from privbandit_agents.experiments.results.statistics import Floats


def power(x: ArrayLike, exponent: float, scale: float = 1.0) -> Floats:
    """Return scale x^exponent, such as the order of a regret bound, shape of x."""
    return np.asarray(scale * np.asarray(x, dtype=np.float64) ** exponent)
