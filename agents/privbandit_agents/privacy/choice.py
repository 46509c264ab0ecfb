"""Clipped derivatives of a choice's likelihood: what one user may contribute to a private Newton step."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.privacy._validate import positive

Floats = NDArray[np.float64]
LIMIT = 1e6
"""Entries of raw features and of theta are clipped here before any product, so that nothing can overflow."""


def clipped_derivatives(
    features: Any, bought: Any, theta: Any, *, radius: float, gradient_norm: float, trace: float
) -> tuple[Floats, Floats]:
    """Return gradients (n, d) and Hessians (n, d, d) of n users' negative log-likelihoods, each within its bound.

    User i was offered K items with the given features and bought one of them, or nothing, under the multinomial-logit
    model with parameter theta; the utility of buying nothing is 0.

    *Formal guarantees.* For any input whatever, every gradient has l2 norm at most ``gradient_norm``, and every
    Hessian is positive semidefinite with trace and Frobenius norm at most ``trace``. Replacing one user's whole record
    therefore moves the sum of gradients by at most 2 gradient_norm, and the sum of Hessians by at most sqrt(2) trace
    in Frobenius norm, since positive semidefinite matrices have non-negative inner products. Features that are not
    finite make the whole record count as one of zeros; features are scaled into the ball of ``radius`` first; an item
    that does not exist counts as none. The Hessian is computed in centred form, sum of p_k (x_k - m)(x_k - m)' with
    the outside option x_0 = 0 among the k and m the mean, so that it is positive semidefinite by construction; the
    weights subtract the largest utility, the outside option's included, so that none overflows. theta must be public:
    a release.

    Args:
        features: shape (n, K, d).
        bought: position of the purchased item, or -1, shape (n,).
        theta: shape (d,).
        radius: > 0, to which features are clipped.
        gradient_norm: > 0.
        trace: > 0.
    """
    positive(radius=radius), positive(gradient_norm=gradient_norm), positive(trace=trace)
    x, item = sanitise(features, bought, radius)
    n, _, d = x.shape
    x = np.concatenate([np.zeros((n, 1, d)), x], axis=1)  # the outside option first
    utilities = x @ np.clip(np.nan_to_num(np.asarray(theta, dtype=np.float64)), -LIMIT, LIMIT)
    p = np.exp(utilities - utilities.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    centred = x - (p[..., None] * x).sum(axis=1, keepdims=True)
    gradient = -centred[np.arange(n), item + 1]
    gradient /= np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True) / gradient_norm, 1.0)
    weighted = np.sqrt(p)[..., None] * centred
    hessian = np.swapaxes(weighted, 1, 2) @ weighted
    size = np.maximum(np.trace(hessian, axis1=1, axis2=2), np.linalg.norm(hessian, axis=(1, 2)))
    return gradient, hessian / np.maximum(size / trace, 1.0)[:, None, None]


def sanitise(features: Any, bought: Any, radius: float) -> tuple[Floats, NDArray[np.intp]]:
    """Return features (n, K, d) in the ball of the radius, and items in -1, ..., K - 1."""
    x, item = np.asarray(features, dtype=np.float64), np.asarray(bought, dtype=np.float64)
    bad = ~(np.isfinite(x).all(axis=(1, 2)) & np.isfinite(item))
    x = np.clip(np.where(bad[:, None, None], 0.0, x), -LIMIT, LIMIT)
    x = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True) / radius, 1.0)
    exists = ~bad & (item >= 0) & (item < x.shape[1]) & (item == np.floor(np.where(bad, 0.0, item)))
    return x, np.where(exists, np.where(bad, -1.0, item), -1.0).astype(np.intp)


def sensitivities(gradient_norm: float, trace: float) -> tuple[float, float]:
    """Return the l2 sensitivities of the sums of gradients and of Hessians (svec): 2 G and sqrt(2) h."""
    return 2 * gradient_norm, math.sqrt(2) * trace
