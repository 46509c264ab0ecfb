"""How a batch is planned: how many features to try, what each release may cost, and where to clip.

Everything here is a function of public constants and earlier releases. Features, each user's in units of their own root
mean square, and residuals are presumed Gaussian; if they are not, estimates are worse and privacy is the same.
"""

import math
from dataclasses import dataclass

from privbandit_agents.joint.sparse.estimate import passed, power


@dataclass(frozen=True)
class Plan:
    """The planned releases of a batch; shares are of its budget.

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
        # the first scale, all inner ones, the last one, and the choice of theta
        shares = 0.04, 0.05 / max(tries, 1), 0.03, 0.03
    else:
        shares = 0.06, 0.0, 0.0, 0.0  # the scale, if no feature is known
    scale, again, last, choice = shares
    refine = 0.4 * known / (known + tries)  # none of the budget at first, more as features are known
    feature = (1 - scale - again * (tries - 1) - last - choice - refine) / max(tries, 1)
    selection = 0.7 if known else 0.8  # of a new feature's share
    at = level(users, dim, rho * feature * selection)
    return Plan(tries, scale, again, feature, last, choice, selection, at)


def users_at_first(dim: int, rho: float, latest: int) -> int:
    """Return the length of the first batch."""
    logarithm = math.log(max(dim, 2))
    # enough users to show two features of five; fewer than 20 log d hide features in sampling noise
    return min(latest, math.ceil(min(max(20, 13.4 / math.sqrt(2 * rho)) * logarithm, 1e9)))


def to_try(found: int, batch: int, most: int) -> int:
    """Return how many features to try, given how many were found in the batch before."""
    return min(most, max(3, math.ceil(2.0 * found)) if batch else 2)  # twice the features found in the batch before


def level(users: int, dim: int, rho: float) -> float:
    """Return the clip level, of features and of residuals, at which the smallest coefficient stands out of d."""
    logarithm = math.log(max(dim, 2))
    privacy = 2 * logarithm / math.sqrt(2 * rho)
    sampling = math.sqrt(2 * users * logarithm)
    return min((0.25, 0.35, 0.5, 0.75), key=lambda at: (privacy * at**2 + sampling * power(at)) / passed(at) ** 2)


def share_of_products(users: int, known: int, at: float, rho: float) -> float:
    """Return the share of a new feature's budget rho for its products with the known ones; 0: they would be noise."""
    if not known:
        return 0.0
    share = 0.05  # of a new feature's budget
    noise = 2 * at * math.sqrt(known) / math.sqrt(2 * rho * share) / (users * passed(at))
    return share if noise < 0.25 else 0.0


def share_of_hessian(users: int, known: int, rho: float) -> float:
    """Return the share of the budget rho of a refinement for its Hessian; 0: it would be noise."""
    share = 0.25  # of the refinement's budget
    noise = known / math.sqrt(2 * rho * share) / users
    return share if noise < 0.25 else 0.0
