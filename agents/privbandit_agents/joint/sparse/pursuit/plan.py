"""How a batch is planned: how many features to try, what each release may cost, and where to clip.

Everything here is a function of public constants and earlier releases. Features, each user's in units of their own root
mean square, and residuals are presumed Gaussian; if they are not, estimates are worse and privacy is the same.
"""

import math
from dataclasses import dataclass

from privbandit_agents.joint.sparse.clipping import passed, power

LEVELS = (0.25, 0.35, 0.5, 0.75)
"""Levels at which features and residuals may be clipped, in standard deviations."""
POWER = 13.4
"""Users of the first batch, times sqrt(2 rho) and over log d: so many show two features of five."""
FEWEST = 20
"""Users of the first batch at least, over log d: below them sampling hides features."""
AT_FIRST, AT_LEAST, RATIO = 2, 3, 2.0
"""Features tried in the first batch; later as many times those found in the batch before, and at least so many."""
START, SCALE, INNER, LAST, CHOICE = 0.06, 0.04, 0.05, 0.03, 0.03
"""Shares: the scale while no feature is known; later the first, all inner and the last scale; the choice of theta."""
REFINE = 0.4
"""Share that refines known features, if as many as there are known were tried: none at first, more later."""
FOUND_FIRST, FOUND_LATER = 0.8, 0.7
"""Of a new feature's share: what goes into selecting it, in the first batch and later."""
PRODUCTS, HESSIAN, BLURRED = 0.05, 0.25, 0.25
"""Of a new feature's share its products, of the refinement the Hessian: if their deviations are below the last."""


@dataclass(frozen=True)
class Plan:
    """What is to be released of a batch; shares are of its budget.

    Attributes:
        tries: how many features to try at most.
        scale: share of the first scale of the residuals.
        again: share of the scale before every further feature; 0: the first one stays.
        feature: share of every feature: its selection, its sum and its products.
        last: share of the scale after the last feature.
        choice: share of the choice of theta.
        selection: of the share of a feature and its sum, what selects it.
        level: where features, and the residuals of a new feature, are clipped, in standard deviations.
    """

    tries: int
    scale: float
    again: float
    feature: float
    last: float
    choice: float
    selection: float
    level: float


def planned(users: int, dim: int, known: int, tries: int, rho: float) -> Plan:
    """Return the plan of a batch, given how many features are known and how many are to be tried."""
    if known:
        shares = SCALE, INNER / max(tries, 1), LAST, CHOICE
    else:
        shares = START, 0.0, 0.0, 0.0
    scale, again, last, choice = shares
    refine = REFINE * known / (known + tries)
    feature = (1 - scale - again * (tries - 1) - last - choice - refine) / max(tries, 1)
    selection = FOUND_LATER if known else FOUND_FIRST
    at = level(users, dim, rho * feature * selection)
    return Plan(tries, scale, again, feature, last, choice, selection, at)


def users_at_first(dim: int, rho: float, latest: int) -> int:
    """Return the length of the first batch."""
    logarithm = math.log(max(dim, 2))
    return min(latest, math.ceil(min(max(FEWEST, POWER / math.sqrt(2 * rho)) * logarithm, 1e9)))


def to_try(found: int, batch: int, most: int) -> int:
    """Return how many features to try, given how many were found in the batch before."""
    return min(most, max(AT_LEAST, math.ceil(RATIO * found)) if batch else AT_FIRST)


def level(users: int, dim: int, rho: float) -> float:
    """Return the clip level, of features and of residuals, at which the smallest coefficient stands out of d."""
    logarithm = math.log(max(dim, 2))
    privacy = 2 * logarithm / math.sqrt(2 * rho)
    sampling = math.sqrt(2 * users * logarithm)
    return min(LEVELS, key=lambda at: (privacy * at**2 + sampling * power(at)) / passed(at) ** 2)


def share_of_products(users: int, known: int, at: float, rho: float) -> float:
    """Return the share of a new feature's budget rho for its products with the known ones; 0: they would be noise."""
    if not known:
        return 0.0
    noise = 2 * at * math.sqrt(known) / math.sqrt(2 * rho * PRODUCTS) / (users * passed(at))
    return PRODUCTS if noise < BLURRED else 0.0


def share_of_hessian(users: int, known: int, rho: float) -> float:
    """Return the share of the budget rho of a refinement for its Hessian; 0: it would be noise."""
    noise = known / math.sqrt(2 * rho * HESSIAN) / users
    return HESSIAN if noise < BLURRED else 0.0
