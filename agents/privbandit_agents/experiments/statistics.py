"""Statistics of runs: aggregates, bootstrap intervals, comparisons on common seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from privbandit_envs.validate import count

Floats = NDArray[np.float64]
Aggregate = Callable[..., Any]
"""A function of an array and ``axis``, such as ``numpy.mean``."""

DRAWS = 10_000
FEWEST = 5
"""With fewer seeds no bootstrap interval means anything."""


@dataclass(frozen=True)
class Interval:
    """An estimate and the ends of its interval; NaN where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def known(self) -> bool:
        """Whether all three are numbers."""
        return not any(map(math.isnan, (self.value, self.low, self.high)))


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Any:
    """Return the mean without the lowest and the highest quarter, each rounded down to whole values."""
    return stats.trim_mean(values, 0.25, axis=axis)


AGGREGATES: dict[str, Aggregate] = {"mean": np.mean, "median": np.median, "iqm": interquartile_mean}
"""What many runs are summed up by."""


def stratified_interval(
    strata: Sequence[ArrayLike],
    aggregate: Aggregate,
    rng: Generator,
    confidence: float = 0.95,
    draws: int = DRAWS,
) -> Interval:
    """Return an aggregate of the runs of several environments, and its stratified percentile bootstrap interval.

    Runs are drawn with replacement within each environment, so none takes another's place (Agarwal, Schwarzer, Castro,
    Courville, Bellemare, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021).

    Args:
        strata: one array of runs for each environment, shapes (n_1,), (n_2,), ...; values on a common scale.
        aggregate: of all runs together, such as one of ``AGGREGATES``.
        rng: draws the samples.
        confidence: of the interval, in (0, 1).
        draws: number of bootstrap samples.

    Raises:
        ValueError: an environment without runs.
    """
    groups = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    if not groups or any(group.ndim != 1 or not len(group) for group in groups):
        raise ValueError(f"every stratum must have runs, shape (n,); got shapes {[group.shape for group in groups]}.")
    drawn = [group[rng.integers(len(group), size=(count(draws=draws), len(group)))] for group in groups]
    resampled = np.asarray(aggregate(np.concatenate(drawn, axis=1), axis=1))
    return percentile_interval(float(aggregate(np.concatenate(groups), axis=0)), resampled, confidence)


def percentile_interval(value: float, resampled: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the interval between the percentiles of bootstrap values; NaN if one of them is."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.asarray(resampled, dtype=np.float64), [tail, 1 - tail])
    return Interval(value, float(low), float(high))


def seed_weights(n: int, rng: Generator, draws: int = DRAWS) -> Floats:
    """Return the weights that bootstrap samples give to n common seeds, shape (draws, n); rows sum to 1.

    Every mean over seeds under one row is of the same sample, so differences and ratios of means are paired.
    """
    return np.asarray(rng.multinomial(n, np.full(count(n=n), 1 / n), size=count(draws=draws)) / n)


def expanded(confidence: float, n: int) -> float:
    """Return the level of percentiles at which the bootstrap of a mean over n values is as wide as Student's interval.

    Tim Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69 (2015), section 4.1.
    """
    quantile = stats.t.ppf((1 + confidence) / 2, n - 1) * math.sqrt(n / (n - 1))
    return float(1 - 2 * stats.norm.sf(quantile))


def student_half_width(values: Floats, confidence: float = 0.95) -> Floats:
    """Return the half-width of Student's interval of the mean over the first axis; NaN for one value."""
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n))


def common_seeds(*seeds: ArrayLike) -> NDArray[np.int64]:
    """Return the seeds that all have, increasing."""
    kept = np.unique(np.asarray(seeds[0], dtype=np.int64))
    for others in seeds[1:]:
        kept = np.intersect1d(kept, np.asarray(others, dtype=np.int64))
    return kept


def paired_differences(seeds_a: ArrayLike, a: ArrayLike, seeds_b: ArrayLike, b: ArrayLike) -> Floats:
    """Return a - b on the seeds that both have, in the order of the seeds.

    Args:
        seeds_a: shape (n,), each once.
        a: values at ``seeds_a``, shape (n,).
        seeds_b: shape (m,), each once.
        b: values at ``seeds_b``, shape (m,).

    Raises:
        ValueError: no seed in common.
    """
    seeds, in_a, in_b = np.intersect1d(seeds_a, seeds_b, assume_unique=True, return_indices=True)
    if not len(seeds):
        raise ValueError(f"the two must have a seed in common; got {seeds_a!r} and {seeds_b!r}.")
    return np.asarray(np.asarray(a, dtype=np.float64)[in_a] - np.asarray(b, dtype=np.float64)[in_b])


def signed_rank_p(differences: ArrayLike, alternative: str = "two-sided") -> float:
    """Return the p-value of Wilcoxon's signed-rank test; 1 if all differences are 0.

    ``alternative="greater"`` is the one-sided test against differences that are greater than 0.

    Exact for up to 50 differences without ties and zeros (Wilcoxon 1945; zeros are left out).
    """
    values = np.asarray(differences, dtype=np.float64)
    return float(stats.wilcoxon(values, alternative=alternative).pvalue) if values.any() else 1.0
