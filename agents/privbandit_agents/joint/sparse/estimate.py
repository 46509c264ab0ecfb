"""Common parts of the sparse agents: records clipped on arrival, and arms played by a sparse estimate."""

import math
from functools import lru_cache

import numpy as np

from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import Ties, best


def clipped(features: Array, rewards: Array, x_max: float, R: float) -> tuple[Array, Array]:
    """Return features (n, d) in +-x_max and rewards (n,) in +-R; a record that is not finite becomes (0, 0)."""
    bad = ~(np.isfinite(features).all(axis=-1) & np.isfinite(rewards))
    x = np.clip(features, -x_max, x_max)
    x[bad] = 0
    return x, np.clip(np.where(bad, 0.0, rewards), -R, R)


def best_by_support(context: Array, theta: Array, ties: Ties) -> Array:
    """Return argmax of x . theta, reading the features on the support only; any arms while theta is 0.

    Args:
        context: of one user or n, shape (..., K, d).
        theta: shape (d,).
        ties: of the agent.
    """
    support = np.flatnonzero(theta)
    with np.errstate(over="ignore", invalid="ignore"):  # a non-finite record only hurts the user who sent it
        scores: Array = np.vecdot(context.take(support, axis=-1), theta[support].astype(context.dtype))
    chosen: Array = best(scores, ties)
    return chosen


@lru_cache(maxsize=256)
def passed(level: float) -> float:
    """Return P(|Z| < level) of a standard Gaussian: by Bussgang's theorem, the slope of clip(Z) on Z."""
    return math.erf(level / math.sqrt(2))


@lru_cache(maxsize=256)
def power(level: float) -> float:
    """Return E min(|Z|, level)^2 of a standard Gaussian."""
    density = math.exp(-(level**2) / 2) / math.sqrt(2 * math.pi)
    return passed(level) - 2 * level * density + level**2 * (1 - passed(level))
