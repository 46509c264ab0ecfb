"""Statistics over seeds: bootstrap intervals, Student's interval, Wilcoxon's test."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.experiments.names import rounded
from privbandit_envs.validate import count

Floats = NDArray[np.float64]
N = TypeVar("N", float, Floats)
M = TypeVar("M", float, Floats)
FEW_SEEDS = 5
"""With fewer seeds no bootstrap interval means anything."""


@dataclass(frozen=True)
class Interval(Generic[N]):
    """An estimate and the ends of its interval, NaN where there is none: numbers, or arrays of one shape."""

    value: N
    low: N
    high: N

    @classmethod
    def around(cls, value: float | None, half_width: float | None) -> "Interval[float]":
        """Return an interval of equal sides; without ends if the half-width is None."""
        mean, half = (math.nan if one is None else one for one in (value, half_width))
        return Interval(mean, mean - half, mean + half)

    @property
    def known(self) -> bool:
        return not any(np.isnan(one).any() for one in (self.value, self.low, self.high))

    @property
    def half_width(self) -> N:
        return (self.high - self.low) / 2

    def mapped(self, change: Callable[[N], M]) -> "Interval[M]":
        """Return the interval whose estimate and ends are changed alike."""
        return Interval(change(self.value), change(self.low), change(self.high))

    @property
    def positive(self) -> "Interval[Floats]":
        """That of the logarithm, with the half-width of the mean over the mean: above 0; NaN for means up to 0."""
        with np.errstate(all="ignore"):
            share = np.where(np.greater(self.value, 0), self.half_width / self.value, np.nan)
            return Interval(
                np.asarray(self.value), self.value * np.exp(-share), self.value * np.exp(np.minimum(share, 50.0))
            )

    def said(self, how: Callable[[float], str] = rounded) -> str:
        """Return a number and its ends in words, ``1.2 (1.1 to 1.3)``: it alone without ends, ``"-"`` for no number."""
        if np.isnan(self.value):
            return "-"
        return f"{how(float(self.value))} ({self.ends(how)})" if self.known else how(float(self.value))

    def ends(self, how: Callable[[float], str] = rounded) -> str:
        """Return the ends in words, ``1.1 to 1.3``; ``""`` where there are none."""
        return f"{how(float(self.low))} to {how(float(self.high))}" if self.known else ""


def estimate_alone(value: float) -> Interval[float]:
    """Return an estimate without an interval."""
    return Interval(value, math.nan, math.nan)


def joined(parts: Sequence[Interval[Floats]]) -> Interval[Floats]:
    """Return intervals one after the other, shape (c,)."""
    ends = zip(*((part.value, part.low, part.high) for part in parts), strict=True)
    value, low, high = (np.concatenate([np.atleast_1d(one) for one in each]) for each in ends)
    return Interval(value, low, high)


def percentile_interval(value: float, resampled: ArrayLike, confidence: float = 0.95) -> Interval[float]:
    """Return the interval between the percentiles of bootstrap values; NaN if one of them is."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.asarray(resampled, dtype=np.float64), [tail, 1 - tail])
    return Interval(value, float(low), float(high))


def seed_weights(n: int, rng: Generator, draws: int = 10_000) -> Floats:
    """Return the weights that bootstrap samples give to n common seeds, shape (draws, n); rows sum to 1.

    Every mean over seeds under one row is of the same sample, so differences and ratios of means are paired.
    """
    return np.asarray(rng.multinomial(n, np.full(count(n=n), 1 / n), size=count(draws=draws)) / n)


def weighted_medians(weights: Floats, values: Floats) -> Floats:
    """Return the median of every column of values under every row of weights, shape (draws, places).

    Where a value has just half of the weight at or below it, this is the middle between it and the next one.

    Args:
        weights: rows sum to 1, shape (draws, n).
        values: shape (n, places).
    """
    medians = np.empty((len(weights), values.shape[1]))
    for place, column in enumerate(values.T):
        order = np.argsort(column)
        passed = np.cumsum(weights[:, order], axis=1)
        low, high = ((passed < 0.5 + side * 1e-9).sum(axis=1) for side in (-1, 1))
        medians[:, place] = (column[order][low] + column[order][np.minimum(high, len(column) - 1)]) / 2
    return medians


def weighted_maxima(weights: Floats, values: Floats) -> Floats:
    """Return the largest value of every column that has a weight, over the weighted mean, shape (draws, places).

    A bootstrap sample has no value beyond the largest one, so that the interval of a maximum never reaches above it.

    Args:
        weights: rows sum to 1, shape (draws, n).
        values: shape (n, places).
    """
    largest = np.empty((len(weights), values.shape[1]))
    for place, column in enumerate(values.T):
        largest[:, place] = np.where(weights > 0, column, -np.inf).max(axis=1)
    return np.asarray(largest / (weights @ values))


def expanded(confidence: float, n: int, freedom: int = 0) -> float:
    """Return the level of percentiles at which the bootstrap of a mean over n values is as wide as Student's interval.

    Tim Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69 (2015), section 4.1.

    Args:
        confidence: of Student's interval.
        n: values of a sample.
        freedom: of the interval, if several samples of n values are drawn; default: n - 1.
    """
    quantile = scipy.stats.t.ppf((1 + confidence) / 2, freedom or n - 1) * math.sqrt(n / (n - 1))
    return float(1 - 2 * scipy.stats.norm.sf(quantile))


def student_interval(values: Floats, mean: Floats | None = None, confidence: float = 0.95) -> Interval[Floats]:
    """Return the mean over the first axis and Student's interval of it; no ends for one value.

    Args:
        values: shape (n, ...).
        mean: shape (...), in place of that of the values, which then show how it scatters.
        confidence: in (0, 1).
    """
    n, mean = len(values), values.mean(axis=0) if mean is None else mean
    half = np.full(values.shape[1:], np.nan)
    if n > 1:
        half = np.asarray(scipy.stats.t.ppf((1 + confidence) / 2, n - 1) / math.sqrt(n) * values.std(axis=0, ddof=1))
    return Interval(mean, mean - half, mean + half)


def common_seeds(*seeds: ArrayLike) -> NDArray[np.int64]:
    """Return the seeds that all have, increasing."""
    kept = np.unique(np.asarray(seeds[0], dtype=np.int64))
    for others in seeds[1:]:
        kept = np.intersect1d(kept, np.asarray(others, dtype=np.int64))
    return kept


def signed_rank_p(differences: ArrayLike, alternative: str = "two-sided") -> float:
    """Return the p-value of Wilcoxon's signed-rank test; 1 if all differences are 0.

    Exact for up to 50 differences without ties and zeros (Wilcoxon 1945; zeros are left out).

    Args:
        differences: shape (n,).
        alternative: ``"greater"`` tests against differences that are greater than 0.
    """
    values = np.asarray(differences, dtype=np.float64)
    return float(scipy.stats.wilcoxon(values, alternative=alternative).pvalue) if values.any() else 1.0
