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
from privbandit_agents.privacy.accounting.costs import Cost, in_units, zcdp
from privbandit_agents.privacy.mechanisms import secure
from privbandit_agents.privacy.mechanisms.grid import covering, on_finer_grid
from privbandit_agents.privacy.mechanisms.selection import below, odds
from privbandit_agents.privacy.vectors import Floats, finite


@dataclass(frozen=True)
class ExponentialChoice:
    """Choose one candidate, with odds exp(score / beta).

    >>> mechanism = ExponentialChoice.from_rho(0.5, sensitivity=1.0)
    >>> round(mechanism.beta, 6)
    1.0
    >>> mechanism.release([0.0, 50.0, 3.0], np.random.default_rng(0))
    1

    *Formal guarantees.* zCDP. If a user's record moves every score by at most D, up or down, the moves have a range of
    at most 2 D, and the choice costs (2 D / beta)^2 / 8 = D^2 / (2 beta^2). Numbers that are added to scores as a
    function of public values moves nothing. The candidates and beta may depend on the data through earlier releases
    alone. It is exact for the candidate that leaves: scores are rounded to a grid that D covers, weights are integers,
    and a random integer decides, as in ``GumbelTopK``.

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

    def loss(self, exact: ArrayLike, other: ArrayLike, released: object) -> Cost:
        """Return (range of the scores' moves / beta)^2 / 8, whatever is chosen."""
        return Cost(rho=in_units(float(np.ptp(np.subtract(other, exact))), self.beta) ** 2 / 8)

    def standardised(self, exact: ArrayLike, released: object) -> Floats:
        """Return no number: the noise of a choice is not released."""
        return np.zeros(0)


def rank_scores(values: ArrayLike, levels: ArrayLike, q: float) -> Floats:
    """Return for every level how good a q-quantile it is, shape (k,): minus the users by which it misses, at most 0.

    A level stands for all values that are nearer to it than to other levels, by their logarithms. If q n users are
    below these values or have them, and (1 - q) n are above or have them, it misses by none. So a value that many users
    share is found, though no level equals it.

    *Formal guarantees.* Replacing one of the n values moves every score by at most 1, exactly: both counts move by at
    most 1, hence so does the distance of q n from the interval between them, and counts are integers below 2^53. Not a
    number counts as above every level.

    Args:
        values: >= 0, shape (n,).
        levels: > 0, rising, shape (k,).
        q: in [0, 1].
    """
    ordered, wanted, of = np.sort(np.asarray(values, np.float64)), q * np.size(values), np.asarray(levels, np.float64)
    counts = np.searchsorted(ordered, np.sqrt(of[:-1] * of[1:]), side="left")
    below, with_these = np.append(0, counts), np.append(counts, len(ordered))
    return np.asarray(-np.maximum(np.maximum(below - wanted, wanted - with_these), 0), np.float64)
