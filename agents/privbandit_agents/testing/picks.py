"""Whether selections are as random as their mechanism declares: a test that sees the exact scores.

One choice shows little. But with less noise than is declared the better candidates win more often than they should, and
over some hundred choices that shows.
"""

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.selection import Chosen, GumbelTopK

Floats = NDArray[np.float64]


@singledispatch
def chances(mechanism: object, exact: Any, released: Any) -> Iterator[tuple[Floats, int]]:
    """Yield the probabilities of all candidates, and the place of the chosen one, for every choice of a release.

    Empty for a mechanism that chooses nothing, or does not give its chances. A mechanism of a stranger's may have a
    method ``chances(exact, released)``.
    """
    if hasattr(mechanism, "chances"):
        yield from mechanism.chances(exact, released)


@chances.register
def _(mechanism: ExponentialChoice, exact: Any, released: Any) -> Iterator[tuple[Floats, int]]:
    if mechanism.beta:
        yield scipy.special.softmax(np.asarray(exact) / mechanism.beta), int(released)


@chances.register
def _(mechanism: GumbelTopK, exact: Any, released: Chosen) -> Iterator[tuple[Floats, int]]:
    """One coordinate after the other; public ones, which come first, are no candidates."""
    coordinates = released[0]
    known = len(coordinates) - min(mechanism.k, len(coordinates))
    if not mechanism.beta:
        return
    scores = np.abs(np.asarray(exact, np.float64)) / mechanism.beta
    scores[coordinates[:known]] = -np.inf
    for chosen in coordinates[known:]:
        yield scipy.special.softmax(scores), int(chosen)
        scores[chosen] = -np.inf


def rank(odds: Floats, chosen: int) -> tuple[float, float]:
    """Return how far the chosen candidate ranks above the middle, 1/2 at most, and the variance of that.

    The rank is the probability of better candidates and half that of candidates as good; its mean is 1/2.
    """
    better, alike = odds[odds > odds[chosen]].sum(), odds[odds == odds[chosen]].sum()
    _, group = np.unique(odds, return_inverse=True)
    variance = (1 - np.sum(np.bincount(group, odds) ** 3)) / 12
    return float(0.5 - better - alike / 2), float(variance)


def too_good(ranks: list[tuple[float, float]]) -> float | None:
    """Return how likely choices rank so high in all, if they are as random as declared; None: too few to judge."""
    above, variances = np.sum(ranks, axis=0) if ranks else (0.0, 0.0)
    # the normal law needs this variance of ranks; a choice between many equals has 1/12
    return None if variances < 3.0 else float(scipy.stats.norm.sf(above / np.sqrt(variances)))
