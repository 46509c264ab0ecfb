"""The multinomial-logit (MNL) choice model: purchases, their revenues, and the best assortment."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit_envs.problem import Array, Floats
from privbandit_envs.spaces import top_k

NO_PURCHASE = -1


def attraction(utilities: Array) -> Floats:
    """Return exp(utility), finite for every input but NaN.

    Examples:
        >>> attraction(np.array([0.0, 1e9])) < np.inf
        array([ True,  True])
    """
    return np.exp(np.clip(utilities.astype(np.float64), -600.0, 600.0))  # exp(600) is finite


class Offer(NamedTuple):
    """The sets that n users are offered; m is the size of the largest one.

    Attributes:
        items: numbers of the items in increasing order, shape (n, m).
        cumulative_weight: running sums of the items' weights, shape (n, m).
        expected_revenue: shape (n,).
    """

    items: NDArray[np.intp]
    cumulative_weight: Floats
    expected_revenue: Floats


def offer(weights: Floats, revenues: Array, sets: Array) -> Offer:
    """Lay out sets of items; sums run over the items in order, so that a loop over one set gives the same bits.

    A user's numbers depend on that user's row alone, also where other rows hold NaN or larger sets.

    Args:
        weights: exp(utility) of every item, shape (n, N).
        revenues: shape (n, N).
        sets: 0/1, shape (n, N).

    Examples:
        >>> offered = offer(np.array([[1.0, 2.0, 1.0]]), np.ones((1, 3)), np.array([[1, 0, 1]]))
        >>> offered.items, offered.expected_revenue
        (array([[0, 2]]), array([0.66666667]))
    """
    n, n_items = weights.shape
    flat = np.flatnonzero(sets != 0)
    sizes = np.count_nonzero(sets, axis=1)
    widest = int(sizes.max(initial=1))
    if flat.size == n * widest:
        places = flat.reshape(n, widest)
        w, r = weights.take(places), revenues.take(places)
    else:  # pad the smaller sets with items of weight 0 and revenue 0
        present = np.arange(widest) < sizes[:, None]
        places = np.zeros((n, widest), dtype=np.intp)
        places[present] = flat
        w, r = (np.where(present, table.take(places), 0.0) for table in (weights, revenues))
    cumulative = np.cumsum(w, axis=1)
    earned = np.cumsum(w * r, axis=1)[:, -1]
    return Offer(places % n_items, cumulative, earned / (1.0 + cumulative[:, -1]))


def purchase(offered: Offer, uniforms: Floats) -> NDArray[np.intp]:
    """Return what each of n users buys, given a uniform on [0, 1) for each: an item, or -1.

    Examples:
        >>> offered = offer(np.array([[1.0, 2.0, 1.0]] * 3), np.ones((3, 3)), np.array([[1, 0, 1]] * 3))
        >>> purchase(offered, np.array([0.2, 0.5, 0.9]))
        array([-1,  0,  2])
    """
    target = uniforms * (1.0 + offered.cumulative_weight[:, -1]) - 1.0
    position = (offered.cumulative_weight <= target[:, None]).sum(axis=1)
    nothing = (target < 0) | (position == offered.items.shape[1])
    return np.where(nothing, NO_PURCHASE, offered.items[np.arange(len(uniforms)), np.where(nothing, 0, position)])


def revenue_of(bought: NDArray[np.intp], revenues: Array) -> Floats:
    """Return the revenue of each user's purchase, 0 for none; ``revenues`` has shape (n, N)."""
    return np.where(bought == NO_PURCHASE, 0.0, revenues[np.arange(len(bought)), bought])


def best_assortment(weights: Floats, revenues: Array, capacity: int) -> NDArray[np.int8]:
    """Return the sets of at most ``capacity`` items that have the largest expected revenue, exactly, shape (n, N).

    Dinkelbach's iteration for the ratio sum w r / (1 + sum w): a set is optimal if and only if it maximises
    sum w (r - z) at z = its own ratio, and the maximiser for a given z is the top ``capacity`` of the positive
    w (r - z). z grows strictly until the optimum, after 5 to 8 steps. Where all revenues of a user are equal, more
    weight is more revenue and no step is needed. A user's set depends on that user's row alone.

    Args:
        weights: exp(utility) of every item, shape (n, N).
        revenues: shape (n, N) or (N,), >= 0.
        capacity: largest size of a set.

    Examples:
        >>> best_assortment(np.array([[1.0, 5.0, 1.0]]), np.array([1.0, 0.2, 0.9]), capacity=2)
        array([[1, 0, 1]], dtype=int8)
    """
    revenues = np.broadcast_to(np.asarray(revenues, dtype=np.float64), weights.shape)
    equal = (revenues == revenues[:, :1]).all(axis=1)
    if equal.all():
        return top_k(weights, capacity)
    worth = np.where(equal[:, None], weights, weights * revenues)
    best = top_k(worth, capacity) & (worth > 0)  # what earns nothing only takes sales from others
    active = np.flatnonzero(~equal)
    w, r = weights[active], revenues[active]
    value = offer(w, r, best[active]).expected_revenue
    while len(active):
        gain = w * (r - value[:, None])
        candidate = top_k(gain, capacity) & (gain > 0)
        improved = offer(w, r, candidate).expected_revenue
        better = improved > value
        active, w, r, value = active[better], w[better], r[better], improved[better]
        best[active] = candidate[better]
    return best
