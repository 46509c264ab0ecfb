"""Help for tests of mechanisms: how far records move a statistic, how much a report reveals, bounds from a single run.

Thomas Steinke, Milad Nasr and Matthew Jagielski, "Privacy Auditing with One (1) Training Run", NeurIPS 2023.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from privbandit_agents.privacy._validate import count, failure

Floats = NDArray[np.float64]
Record = TypeVar("Record")
Report = TypeVar("Report")


def one_run_bound(guesses: int, right: int, confidence: float = 0.95, delta: float = 0.0, canaries: int = 0) -> float:
    """Return a lower bound of epsilon from one run with canaries, each put in or left out by a fair coin.

    *Formal guarantees.* Under epsilon-DP (add or remove one canary) the number W of right guesses is stochastically
    dominated by Bin(guesses, q), q = e^eps / (1 + e^eps); under (epsilon, delta)-DP the probability of v or more is at
    most P[Bin >= v] + 2 canaries delta max over i of P[v - i <= Bin < v] / i. The bound exceeds the true epsilon with
    probability at most 1 - confidence.

    Args:
        guesses: number of canaries for which a guess was made.
        right: how many of the guesses were right.
        confidence: in (0, 1).
        delta: of (epsilon, delta)-DP.
        canaries: number of canaries in all; default: ``guesses``.
    """
    if not 0 <= right <= count(guesses=guesses):
        raise ValueError(f"right must lie in 0, ..., {guesses}; got {right}.")
    failure(confidence=confidence)
    below = np.arange(1, right + 1)

    def p_value(epsilon: float) -> float:
        chance = scipy.special.expit(epsilon)
        near = np.cumsum(scipy.stats.binom.pmf(right - below, guesses, chance)) / below
        extra = 2 * max(canaries, guesses) * delta * float(near.max(initial=0.0))
        return float(scipy.stats.binom.sf(right - 1, guesses, chance)) + extra

    low, high = 0.0, 60.0
    if p_value(0.0) > 1 - confidence:
        return 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) <= 1 - confidence else (low, middle)
    return low


@dataclass(frozen=True)
class Sensitivity:
    """The result of a search.

    Attributes:
        declared: the bound that noise is calibrated to.
        observed: the largest distance over named and random pairs.
        attained: the largest distance over the named pairs alone.
    """

    declared: float
    observed: float
    attained: float

    @property
    def exceeded(self) -> bool:
        return self.observed > self.declared * (1 + 1e-9)


def search_sensitivity(
    statistic: Callable[[Record], ArrayLike],
    draw: Callable[[Generator], Record],
    named: Iterable[tuple[Record, Record]],
    declared: float,
    rng: Generator,
    order: float = 2,
    pairs: int = 2000,
) -> Sensitivity:
    """Compare the declared sensitivity of a noiseless statistic with named worst-case pairs and random ones.

    Args:
        statistic: from a record to a vector.
        draw: a random record.
        named: pairs of records.
        declared: the claimed bound on the norm of the difference.
        rng: of the search.
        order: of the norm: 1, 2 or infinity.
        pairs: how many random pairs.
    """

    def distance(one: Record, other: Record) -> float:
        return float(np.linalg.norm(np.ravel(statistic(one)) - np.ravel(statistic(other)), order))

    attained = max((distance(*pair) for pair in named), default=0.0)
    searched = max((distance(draw(rng), draw(rng)) for _ in range(pairs)), default=0.0)
    return Sensitivity(declared, max(attained, searched), attained)


def largest_loss(log_likelihood: Callable[[Report, int], Floats], reports: Iterable[Report]) -> float:
    """Return the largest absolute log ratio of the densities of two worlds over samples of reports.

    Infinite where a report is possible in one world alone: then no epsilon holds.

    Args:
        log_likelihood: of reports under world 0 or 1.
        reports: samples, of either world.
    """
    largest = 0.0
    for sampled in reports:
        zero, one = (np.asarray(log_likelihood(sampled, world)) for world in (0, 1))
        impossible = np.isneginf(zero) & np.isneginf(one)
        with np.errstate(invalid="ignore"):
            largest = max(largest, float(np.abs(np.where(impossible, 0.0, zero - one)).max()))
    return largest
