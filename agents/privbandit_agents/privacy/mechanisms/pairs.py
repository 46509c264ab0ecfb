"""What a pair of exact values costs under a mechanism, and a release's noise in units of its declared scale.

A mechanism is calibrated to the worst pair. Tests compare the pairs that they find with it, and the noise that they see
with what was declared. A mechanism of a stranger's has methods ``loss(exact, other, released)`` and
``standardised(exact, released)`` of its own. Proofs of the formulas: the pages of the mechanisms in docs/privacy.

Of a continual counter the values are all terms so far, and all noisy sums. Of a minimiser they are the value, the
gradient and the Hessian of the users' loss at the released point.
"""

import math
from functools import singledispatch
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from privbandit_agents.privacy.accounting.costs import Cost
from privbandit_agents.privacy.mechanisms.additive import Floats, Gaussian, Laplace
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import Counter, clip
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation, UserLoss
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK, LaplacePeeling
from privbandit_agents.privacy.mechanisms.spherical import KNorm, WishartDifference

Values = Any  # arrays, or tuples of arrays and numbers
Derivatives = tuple[float, Floats, Floats]
Chosen = tuple[NDArray[np.intp], Floats]
ROUNDING = 1e-6
"""Relative room for the rounding of sums over users."""


@singledispatch
def loss(mechanism: object, exact: Values, other: Values, released: Values) -> Cost:
    """Return what it costs that ``other`` might have been in place of ``exact``; nothing if both are the same.

    It holds for whatever is released; ``released`` tells which coordinates were chosen. The mechanism's own ``cost`` is
    the supremum over the pairs that it allows, so that a larger loss refutes its calibration.

    Raises:
        LookupError: the mechanism does not say.
    """
    if not hasattr(mechanism, "loss"):
        raise LookupError(f"{type(mechanism).__name__} has no method loss(exact, other, released)")
    values = exact if isinstance(exact, tuple) else (exact,)
    others = other if isinstance(other, tuple) else (other,)
    if len(values) == len(others) and all(map(np.array_equal, values, others)):
        return Cost()  # ``pure(0)`` is refused
    cost: Cost = mechanism.loss(exact, other, released)
    return cost


@singledispatch
def standardised(mechanism: object, exact: Values, released: Values) -> Floats:
    """Return the noise of a release as independent standard normals, shape (k,), if it is what is declared.

    Raises:
        LookupError: the mechanism does not say.
    """
    try:
        return np.ravel(mechanism.standardised(exact, released))  # type: ignore[attr-defined]
    except AttributeError:
        raise LookupError(f"{type(mechanism).__name__} has no method standardised(exact, released)") from None


@loss.register
def _(mechanism: Gaussian, exact: Values, other: Values, released: Values) -> Cost:
    return concentrated(np.subtract(exact, other), mechanism.sigma)


@standardised.register
def _(mechanism: Gaussian, exact: Values, released: Values) -> Floats:
    return np.ravel(np.subtract(released, exact) / mechanism.sigma)


@loss.register
def _(mechanism: Laplace, exact: Values, other: Values, released: Values) -> Cost:
    return pure_or_none(np.abs(np.subtract(exact, other)).sum(), mechanism.scale)


@standardised.register
def _(mechanism: Laplace, exact: Values, released: Values) -> Floats:
    return normal_of_laplace(np.ravel(np.subtract(released, exact) / mechanism.scale))


@loss.register
def _(mechanism: KNorm, exact: Values, other: Values, released: Values) -> Cost:
    return pure_or_none(np.linalg.norm(np.subtract(exact, other), axis=-1).sum(), mechanism.scale)


@standardised.register
def _(mechanism: KNorm, exact: Values, released: Values) -> Floats:
    """One number a vector: its length, which has a Gamma law."""
    length = np.linalg.norm(np.subtract(released, exact), axis=-1) / mechanism.scale
    return np.ravel(scipy.special.ndtri(np.clip(scipy.special.gammainc(np.shape(exact)[-1], length), 1e-16, 1 - 1e-16)))


@loss.register
def _(mechanism: WishartDifference, exact: Values, other: Values, released: Values) -> Cost:
    return pure_or_none(np.abs(np.linalg.eigvalsh(np.subtract(exact, other))).sum(), 2 * mechanism.v)


@loss.register
def _(mechanism: Counter, exact: Values, other: Values, released: Values) -> Cost:
    """|R^-1 A Delta|^2 / (2 scale^2) for the differences Delta of the terms, of which few are not 0."""
    moved = bounded(mechanism, exact) - bounded(mechanism, other)
    users = np.flatnonzero(moved.any(axis=1))
    steps = np.arange(len(moved))[:, None] >= users  # the columns of A of these users
    return concentrated(mechanism.whiten(steps.astype(float)) @ moved[users], mechanism.scale)


@standardised.register
def _(mechanism: Counter, exact: Values, released: Values) -> Floats:
    noise = np.subtract(released, np.cumsum(bounded(mechanism, exact), axis=0))
    return np.ravel(mechanism.whiten(noise) / mechanism.scale)


@loss.register
def _(mechanism: GumbelTopK, exact: Values, other: Values, released: Chosen) -> Cost:
    """(range of the moduli's moves / beta)^2 / 8 for every choice, and the Gaussian part on what was released."""
    rounds, spread = choices(mechanism.k, exact, other, released)
    values = concentrated(np.subtract(exact, other)[released[0]], mechanism.sigma)
    return Cost(rho=rounds * in_units(spread, mechanism.beta) ** 2 / 8) + values


@standardised.register
def _(mechanism: GumbelTopK, exact: Values, released: Chosen) -> Floats:
    """The noise of the values; that of the selection is no number that is released."""
    return np.asarray((released[1] - np.asarray(exact)[released[0]]) / mechanism.sigma)


@loss.register
def _(mechanism: ExponentialChoice, exact: Values, other: Values, released: Values) -> Cost:
    """(range of the scores' moves / beta)^2 / 8, whatever is chosen."""
    return Cost(rho=in_units(float(np.ptp(np.subtract(other, exact))), mechanism.beta) ** 2 / 8)


@standardised.register
def _(mechanism: ExponentialChoice, exact: Values, released: Values) -> Floats:
    """Nothing: the noise of a choice is no number that is released."""
    return np.zeros(0)


@loss.register
def _(mechanism: LaplacePeeling, exact: Values, other: Values, released: Chosen) -> Cost:
    """Range of the moduli's moves / scale for every choice, and |move| / scale for every value."""
    rounds, spread = choices(mechanism.k, exact, other, released)
    values = np.abs(np.subtract(exact, other)[released[0]])
    costs = [in_units(part, mechanism.scale) for part in (*[spread] * rounds, *values)]
    return Cost(pure=sum(costs), pure_rho=sum(cost * cost / 2 for cost in costs))


@standardised.register
def _(mechanism: LaplacePeeling, exact: Values, released: Chosen) -> Floats:
    return normal_of_laplace((released[1] - np.asarray(exact)[released[0]]) / mechanism.scale)


@loss.register
def _(mechanism: ObjectivePerturbation, exact: Derivatives, other: Derivatives, released: Values) -> Cost:
    """The price of a call if the two users are within the declared bounds at the released point, else infinity."""
    if mechanism.user is None:
        raise LookupError("this ObjectivePerturbation does not know its UserLoss")
    share = share_of_bounds(mechanism.user, exact, other)
    return mechanism.cost if 0 < share <= 1 + ROUNDING else Cost(rho=math.inf if share else 0.0)


@standardised.register
def _(mechanism: ObjectivePerturbation, exact: Derivatives, released: Values) -> Floats:
    """The linear term, which the gradient at the minimum undoes; output noise and tolerance are far below it."""
    return np.asarray(-(exact[1] + mechanism.Delta * released) / mechanism.sigma)


def share_of_bounds(user: UserLoss, exact: Derivatives, other: Derivatives) -> float:
    """Return by how much of what ``user`` allows the derivatives move when one user is replaced.

    A gradient moves by 2 L at most. The Hessian moves by H' - H for positive semidefinite H and H', so that its
    positive eigenvalues are at most those of H', and its negative ones at most those of H.
    """
    values = np.linalg.eigvalsh(other[2] - exact[2])
    trace = user.weight * user.curvature
    by_trace = max(values[values > 0].sum(initial=0.0), -values[values < 0].sum(initial=0.0)) / trace
    by_curvature = np.abs(values).max() / user.curvature
    return float(max(np.linalg.norm(other[1] - exact[1]) / (2 * user.lipschitz), by_trace, by_curvature))


def choices(k: int, exact: Values, other: Values, released: Chosen) -> tuple[int, float]:
    """Return how many of the released coordinates were chosen, and the range of the candidates' moves in modulus.

    Public coordinates come first, and are no candidates.
    """
    rounds = min(k, len(released[0]))
    moves = np.delete(np.abs(other) - np.abs(exact), released[0][: len(released[0]) - rounds])
    return rounds, float(np.ptp(moves)) if rounds else 0.0


def bounded(counter: Counter, terms: Values) -> Floats:
    """Return a counter's terms, clipped as it clips them."""
    rows = np.asarray(terms, dtype=np.float64)
    return rows if counter.bound == math.inf else np.array([clip(row, counter.bound) for row in rows])


def concentrated(moved: Values, sigma: float) -> Cost:
    """Return the cost of a move under Gaussian noise: |move|^2 / (2 sigma^2)."""
    return Cost(gaussian=in_units(float(np.linalg.norm(moved)), sigma) ** 2 / 2)


def pure_or_none(distance: float, scale: float) -> Cost:
    epsilon = in_units(float(distance), scale)
    return Cost(pure=epsilon, pure_rho=epsilon * epsilon / 2)


def in_units(distance: float, scale: float) -> float:
    """Return distance / scale, where 0 / 0 is 0: what does not move costs nothing."""
    return distance / scale if scale else (math.inf if distance else 0.0)


def normal_of_laplace(noise: Floats) -> Floats:
    """Return Laplace variates of scale 1 as standard normals, by their distribution functions."""
    return np.asarray(-np.sign(noise) * scipy.special.ndtri(np.exp(-np.abs(noise)) / 2))
