"""Bounds of the mean of numbers in [0, 1], by betting, and of the mean of coins, exactly."""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privbandit_agents.audits.claims import Floats

STAKE = 0.98
"""Share of the wealth that is at stake in a run, at most."""


def lower_mean(values: Floats, alpha: float) -> float:
    """Return a lower bound of the mean of numbers in [0, 1], which fails with probability at most alpha.

    Ian Waudby-Smith and Aaditya Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024.

    *Formal guarantees.* A gambler with wealth 1 stakes on every value in turn: wealth is multiplied by 1 + s (x - p),
    where s >= 0 depends on earlier values only and s p <= 0.98. If the mean of each value, given those before, is at
    most p, then wealth is a non-negative supermartingale, and reaches 1 / alpha with probability at most alpha (Ville).
    The bound is the smallest p at which it does not. Wealth falls in p, so that the bound exceeds p only if wealth at p
    reaches 1 / alpha. Values need not be independent, nor of the same law.

    The stakes are best for values near their mean, at sqrt(2 log(1 / alpha) / n) over their standard deviation so far:
    then a mean is refuted at sqrt(2 log(1 / alpha)) standard errors, as by a Chernoff bound.
    """
    n, goal = len(values), math.log(1 / alpha)
    before = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(values)) / (before + 1)
    squares = 1e-3 + np.concatenate([[0.0], np.cumsum((values - mean) ** 2)[:-1]])
    stakes = np.sqrt(2 * goal / (n * squares / before))

    def refuted(p: float) -> bool:
        return bool(np.cumsum(np.log1p(np.minimum(stakes, STAKE / p) * (values - p))).max() >= goal)

    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def clopper_pearson(hits: ArrayLike, runs: int, alpha: float) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval of a binomial probability: each side fails with probability alpha / 2."""
    return lower_end(hits, runs, alpha), upper_end(hits, runs, alpha)


def lower_end(hits: ArrayLike, runs: int, alpha: float) -> Floats:
    """Return the lower end of ``clopper_pearson``: the alpha / 2 quantile of Beta(hits, runs - hits + 1), 0 at 0."""
    hits = np.asarray(hits)
    found = scipy.special.betaincinv(np.maximum(hits, 1.0), runs - hits + 1.0, alpha / 2)
    return np.where(hits > 0, found, 0.0)


def upper_end(hits: ArrayLike, runs: int, alpha: float) -> Floats:
    """Return the upper end of ``clopper_pearson``: an upper quantile of Beta(hits + 1, runs - hits), 1 at ``runs``."""
    hits = np.asarray(hits)
    found = scipy.special.betainccinv(hits + 1.0, np.maximum(runs - hits, 1.0), alpha / 2)
    return np.where(hits < runs, found, 1.0)
