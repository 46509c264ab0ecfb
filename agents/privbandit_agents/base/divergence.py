"""Kullback-Leibler divergence of coins, and the largest mean that is not far from an estimate."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def coin_divergence(p: ArrayLike, q: ArrayLike) -> Any:
    """Return kl(p, q) = p log(p / q) + (1 - p) log((1 - p) / (1 - q)), elementwise, in nats; p and q in [0, 1].

    >>> round(float(coin_divergence(0.5, 0.6)), 4), float(coin_divergence(0.5, 1.0))
    (0.0204, inf)
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(p > 0, p * np.log(p / q), 0.0)
        down = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    return up + down


def farthest_mean(p: Floats, bound: Floats) -> Floats:
    """Return the largest q in [p, 1] with kl(p, q) <= bound, elementwise, to 1e-9; p in [0, 1], bound >= 0.

    >>> farthest_mean(np.array([0.5, 1.0]), np.array([0.0204, 3.0])).round(3)
    array([0.6, 1. ])
    """
    low, high = p.astype(np.float64), np.ones_like(p, dtype=np.float64)
    for _ in range(30):  # halves the interval
        middle = (low + high) / 2
        inside = coin_divergence(p, middle) <= bound
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low
