"""Bounds of Li, Simchi-Levi and Wang, "On the Optimal Regret of Locally Private Linear Contextual Bandit", to draw.

The paper does not print their constants. Here they are 1: scale a curve through a measured point.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def mse_lower_bound(users: ArrayLike, epsilon: float) -> Floats:
    """Return 1 / ((e^epsilon - 1) sqrt(n)): the mean squared error of any locally private estimate (Theorem 1).

    Args:
        users: n, any shape.
        epsilon: alpha of the paper, > 0.
    """
    return np.asarray(1 / (np.expm1(epsilon) * np.sqrt(np.asarray(users, dtype=np.float64))))


def input_perturbation_lower_bound(users: ArrayLike) -> Floats:
    """Return n^(-1/3): the mean absolute deviation of any estimate from perturbed inputs (Theorem 2)."""
    return np.asarray(np.asarray(users, dtype=np.float64) ** (-1 / 3))


def regret_upper_bound(users: ArrayLike, dim: int) -> Floats:
    """Return sqrt(T) ln(T)^d: LPLR's regret (Theorem 4 with beta = 1 / ln T, as in Remark 2).

    Args:
        users: T, any shape.
        dim: d.
    """
    horizon = np.asarray(users, dtype=np.float64)
    return np.asarray(np.sqrt(horizon) * np.log(horizon) ** dim)
