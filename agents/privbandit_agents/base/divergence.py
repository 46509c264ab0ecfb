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
    p = np.asarray(p, np.float64)
    # two bounds from above: Pinsker's, and the divergence without what q saves in its first term
    entropy = np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0)
    left = np.maximum(1 - p, 1e-300)
    with np.errstate(over="ignore", under="ignore"):
        q = np.minimum(p + np.sqrt(bound / 2), 1 - left * np.exp(-(bound - entropy) / left))
    # the divergence is convex in q, so Newton's steps come down to the largest mean and never pass it
    for _ in range(30):
        inner = (q > p) & (q < 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(inner, (coin_divergence(p, q) - bound) * q * (1 - q) / (q - p), 0.0)
        q = np.maximum(q - step, p)
        if not (np.abs(step) > 1e-11).any():
            break
    return np.asarray(np.minimum(q, 1.0))
