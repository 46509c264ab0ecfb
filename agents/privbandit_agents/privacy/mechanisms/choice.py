"""Private choice of one of a few candidates by scores, and of a quantile by counts.

Frank McSherry and Kunal Talwar, "Mechanism Design via Differential Privacy", FOCS 2007 (the exponential mechanism);
Mark Cesar and Ryan Rogers, "Bounding, Concentrating, and Truncating", ALT 2021 (its zCDP by its range). Proofs:
docs/privacy/selection.md and docs/privacy/private-pursuit.md.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from privbandit_agents.privacy._validate import budget, positive
from privbandit_agents.privacy.accounting.costs import Cost, zcdp
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.additive import Floats, finite
from privbandit_agents.privacy.mechanisms.grid import covering, on_finer_grid
from privbandit_agents.privacy.mechanisms.selection import below, odds


@dataclass(frozen=True)
class ExponentialChoice:
    """Choose one candidate, with odds exp(score / beta).

    >>> mechanism = ExponentialChoice.from_rho(0.5, sensitivity=1.0)
    >>> round(mechanism.beta, 6)
    1.0
    >>> mechanism.release([0.0, 50.0, 3.0], np.random.default_rng(0))
    1

    *Formal guarantees.* zCDP. If a user's record moves every score by at most D, up or down, the moves have a range of
    at most 2 D, and the choice costs (2 D / beta)^2 / 8 = D^2 / (2 beta^2). What is added to scores as a function of
    public values moves nothing. The candidates and beta may depend on the data through earlier releases alone. It is
    exact for the candidate that leaves: scores are rounded to a grid that D covers, weights are integers, and a random
    integer decides, as in ``GumbelTopK``.

    Attributes:
        beta: scale of the odds, >= 0; 0: the largest score wins.
        rho: what one choice costs.
        noise: ``"numpy"``, or ``"secure"``: the operating system's random numbers; unseeded.
    """

    beta: float
    rho: float
    noise: str = "numpy"

    def __post_init__(self) -> None:
        secure.check(self.noise)

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float, noise: str = "numpy") -> Self:
        """Return the choice that is rho-zCDP if no score moves by more than the sensitivity."""
        ratio = 1 / math.sqrt(2 * budget(rho=rho))
        return cls(covering(positive(sensitivity=sensitivity) * ratio, ratio), rho, noise)

    @property
    def cost(self) -> Cost:
        return zcdp(self.rho)

    def release(self, scores: ArrayLike, rng: Generator) -> int:
        """Return the position of the chosen candidate, given scores of shape (k,)."""
        exact = on_finer_grid(finite(scores), self.beta)
        if self.beta == 0:
            return int(exact.argmax())
        sums = list(accumulate(odds((exact - exact.max()) / self.beta)[0]))
        return bisect_right(sums, below(sums[-1], secure.branch(self.noise, rng)))


def rank_scores(values: ArrayLike, levels: ArrayLike, q: float) -> Floats:
    """Return -|number of values below a level - q n| for every level, shape (k,): how good a q-quantile each is.

    *Formal guarantees.* Replacing one of the n values moves every score by at most 1, exactly: a count moves by at most
    1, and counts are integers below 2^53. Not a number counts as above every level.

    Args:
        values: shape (n,).
        levels: rising, shape (k,).
        q: in [0, 1].
    """
    ordered = np.sort(np.asarray(values, np.float64))
    counts = np.searchsorted(ordered, np.asarray(levels, np.float64), side="left")
    return np.asarray(-np.abs(counts - q * len(ordered)), np.float64)
