"""Clipped derivatives of a choice's likelihood: what one user may contribute to a private Newton step.

Proofs: docs/privacy/newton-steps.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import positive
from privbandit_agents.privacy.vectors import LIMIT, lengths_beside, modest

Array = NDArray[Any]
Floats = NDArray[np.float64]


def blocks(users: int) -> Iterator[slice]:
    """Yield the users whose derivatives are formed at once, 512, so that they stay in cache."""
    return (slice(start, start + 512) for start in range(0, users, 512))


def clipped_sums(
    features: Array,
    bought: Array,
    theta: ArrayLike,
    offered: Array | None = None,
    *,
    radius: float,
    gradient_norm: float,
    trace: float,
) -> tuple[Floats, Floats]:
    """Return the sums of n users' gradients, shape (d,), and Hessians, (d, d), of their negative log-likelihoods.

    User i was offered up to K items with the given features and bought one of them, or nothing, under the
    multinomial-logit model with parameter theta; the utility of buying nothing is 0.

    *Formal guarantees.* For any input whatever, a gradient has l2 norm at most ``gradient_norm``, and a Hessian is
    positive semidefinite with trace, and hence Frobenius norm, at most ``trace``. Inside the bounds they are the
    derivatives; beyond, both have weights that depend on the offer, and for the longest items on the purchase.
    Replacing one user's whole record moves the two sums by at most ``sensitivities``, up to rounding of sums in
    float64. theta must be public: a release. Users are added up in blocks of a fixed size.

    | record | counts as |
    |---|---|
    | a feature with NaN or infinity | items of zeros, nothing bought |
    | features of norm above ``radius`` | scaled into the ball |
    | a purchase of an item that is not there or not on offer | nothing bought |
    | an item that is not on offer | no influence whatever |

    Args:
        features: shape (n, K, d).
        bought: position of the purchased item, or -1, shape (n,).
        theta: shape (d,).
        offered: which of the K items are there, shape (n, K); default: all.
        radius: > 0, to which features are clipped.
        gradient_norm: > 0.
        trace: > 0.
    """
    first, second = np.zeros(np.shape(features)[-1]), np.zeros(2 * np.shape(features)[-1:])
    for part in blocks(len(features)):
        shown = None if offered is None else offered[part]
        gradient, roots = clipped_factors(features[part], bought[part], theta, shown, radius, gradient_norm, trace)
        columns = roots.reshape(len(first), -1)
        first, second = first + gradient.sum(axis=0), second + columns @ columns.T
    return first, second


def clipped_gradients(
    features: Array,
    bought: Array,
    theta: ArrayLike,
    offered: Array | None = None,
    *,
    radius: float,
    gradient_norm: float,
) -> Floats:
    """Return the gradients of n users' negative log-likelihoods, shape (n, d), clipped as in ``clipped_sums``.

    *Formal guarantees.* For any input whatever a row has l2 norm at most ``gradient_norm``, up to rounding, and is a
    function of that user's record and of theta.

    Args:
        features: shape (n, K, d).
        bought: position of the purchased item, or -1, shape (n,).
        theta: shape (d,).
        offered: which of the K items are there, shape (n, K); default: all.
        radius: > 0, to which features are clipped.
        gradient_norm: > 0.
    """
    gradients = np.zeros((len(features), np.shape(features)[-1]))
    for part in blocks(len(features)):
        shown = None if offered is None else offered[part]
        gradients[part] = weighted(features[part], bought[part], theta, shown, radius, gradient_norm)[0].T
    return gradients


def clipped_factors(
    features: ArrayLike,
    bought: ArrayLike,
    theta: ArrayLike,
    offered: ArrayLike | None,
    radius: float,
    gradient_norm: float,
    trace: float,
) -> tuple[Floats, Floats]:
    """Return clipped gradients (n, d), and numbers R (d, n, K + 1) such that sum_k R_ik R_jk are the clipped Hessians.

    The Hessian is the sum over k of p_k w_k (x_k - m)(x_k - m)', with the outside option x_0 = 0 among the k and m the
    mean: centred, so that it is positive semidefinite by construction. The weights are w_k = min(w, G / |x_k - m|) with
    w = min(1, 1.25 G / max |x_k - m|): the gradient w_b (m - x_b) is within G whatever was bought. They do not depend
    on that, but for the longest items, so that the gradient is near 0 in the mean at the true theta. The Hessian is the
    derivative of its mean: a Newton step has the right length.
    """
    gradient, x, squared, p = weighted(features, bought, theta, offered, radius, gradient_norm)
    # with the trace of the Hessian clipped
    p /= np.maximum((p * squared).sum(axis=1, keepdims=True) / positive(trace=trace), 1.0)
    x *= np.sqrt(p)
    return gradient.T, x


def weighted(
    features: ArrayLike,
    bought: ArrayLike,
    theta: ArrayLike,
    offered: ArrayLike | None,
    radius: float,
    gradient_norm: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return what ``clipped_factors`` are made of: gradients, centred items, their squared lengths, and weights p w.

    Their shapes are (d, n), (d, n, K + 1), (n, K + 1) and (n, K + 1).
    """
    positive(radius=radius), positive(gradient_norm=gradient_norm)
    shown = np.asarray(features, dtype=np.float64)
    there = np.ones(shown.shape[:2], np.bool_) if offered is None else np.asarray(offered) != 0
    if there.shape != shown.shape[:2]:
        raise ValueError(f"offered must have shape {shown.shape[:2]}; got {there.shape}.")
    # items that are not on offer are zeros: to buy one has the gradient of the outside option
    whole = bool(there.all())
    listed, item = sanitise(shown if whole else np.where(there[..., None], shown, 0.0), bought, radius)
    n, k, d = listed.shape
    # choice probabilities, with the largest utility subtracted so that none overflows
    x = np.zeros((d, n, k + 1))  # the outside option first; d in front, since short inner loops are slow
    x[..., 1:] = np.moveaxis(listed, -1, 0)
    at = np.asarray(theta, dtype=np.float64)
    at = at if modest(at, LIMIT) else np.clip(np.nan_to_num(at), -LIMIT, LIMIT)
    utilities = at[None].dot(x.reshape(d, -1)).reshape(n, k + 1)
    if not whole:
        utilities[:, 1:][~there] = -np.inf
    p = np.exp(utilities - utilities.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # features about their mean, weighted by the longest on offer and then clipped
    x -= np.vecdot(x, p)[..., None]
    squared = (x * x).sum(axis=0)
    sizes = np.sqrt(squared) / gradient_norm
    longest = (sizes if whole else np.where(np.isneginf(utilities), 0.0, sizes)).max(axis=1, keepdims=True)
    # the longest item may exceed the clip by a quarter before all items weigh less
    kept = 1 / np.maximum(np.maximum(longest / 1.25, sizes), 1.0)
    # the gradient of the purchased one
    users = np.arange(n)
    gradient = -x[:, users, item + 1] * kept[users, item + 1]
    p *= kept
    return gradient, x, squared, p


def sanitise(features: ArrayLike, bought: ArrayLike, radius: float) -> tuple[Floats, NDArray[np.intp]]:
    """Return features (n, K, d) in the ball of the radius, and items in -1, ..., K - 1."""
    x, item = np.asarray(features, dtype=np.float64), np.asarray(bought, dtype=np.float64)
    if not (modest(x, LIMIT) and modest(item, LIMIT)):
        bad = ~(np.isfinite(x).reshape(len(x), -1).all(axis=1) & np.isfinite(item))
        x, item = np.clip(np.where(bad[:, None, None], 0.0, x), -LIMIT, LIMIT), np.where(bad, -1.0, item)
    if not modest(x, radius):
        size, longest = lengths_beside(x, radius)
        if (size > longest).any():
            x = x / np.maximum(size / longest, 1.0)
    exists = (item >= 0) & (item < x.shape[1]) & (item == np.floor(item))
    return x, np.where(exists, item, -1.0).astype(np.intp)


def sensitivities(gradient_norm: float, trace: float, users: int = 1, terms: int = 1) -> tuple[float, float]:
    """Return the l2 sensitivities of the sums of gradients and of Hessians (svec): 2 G and sqrt(2) h, and rounding.

    A clipped vector may be longer than its clip by a rounding, which 1e-12 covers. A sum of n numbers in any order is
    within n 2^-53 of the sum of their sizes; here these are at most n G, and n h over ``terms`` numbers a user. Two
    sums are off.

    Args:
        gradient_norm: G.
        trace: h.
        users: n, how many are added up.
        terms: summands of a user's Hessian: items on offer, and one.
    """
    rounding = 2.0**-53  # largest relative error of one sum or product of floats
    off = 2 * users * ((users + 2) * rounding), 2 * users * (users * (terms + 1) + 4) * rounding
    return 2 * gradient_norm * (1 + 1e-12 + off[0]), math.sqrt(2) * trace * (1 + 1e-12 + off[1])
