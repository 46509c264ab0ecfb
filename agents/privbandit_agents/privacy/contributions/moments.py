"""The statistics of linear regression as one vector of bounded norm: clipped, packed, and how sensitive."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.privacy.mechanisms.counters import smat, svec

Array = NDArray[Any]
Floats = NDArray[np.float64]
LIMIT = 1e6
"""Entries of raw records are clipped here before any product, so that nothing can overflow."""
WEIGHT = math.sqrt(0.5)
"""Weight of the second moment beside the first; the largest for which the sensitivity is that of the first alone."""
SENSITIVITY = 2.0
NORM = math.sqrt(1.5)


def sanitise(features: Any, reward: Any) -> tuple[Floats, Floats]:
    """Return features with norm at most 1 and rewards in [-1, 1], in float64.

    Records with an entry that is not finite become (0, 0); entries are clipped to +-1e6 and the features then scaled
    into the unit ball.

    Args:
        features: shape (n, d).
        reward: shape (n,).
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(reward, dtype=np.float64)
    bad = ~(np.isfinite(x).all(axis=-1) & np.isfinite(y))
    x = np.clip(np.where(bad[..., None], 0.0, x), -LIMIT, LIMIT)
    y = np.clip(np.where(bad, 0.0, y), -1.0, 1.0)
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0), y


def together(context: Any, action: Any, feedback: Any, dim: int) -> tuple[Any, Any, Floats]:
    """Return the records of one user or of many as (n, K, d), (n,) and (n,), or raise before any is taken in.

    A group that is refused half-way and sent again would count its first users twice.

    Raises:
        ValueError: they are not numbers, or not as many of each.
    """
    contexts = np.asarray(context)
    contexts = contexts[None] if contexts.ndim == 2 else contexts
    actions, rewards = np.atleast_1d(action), np.atleast_1d(np.asarray(feedback, dtype=np.float64))
    shapes = contexts.shape, actions.shape, rewards.shape
    numbers = all(array.dtype.kind in "biuf" for array in (contexts, actions))
    if not numbers or contexts.ndim != 3 or shapes[0][2] != dim or not shapes[0][:1] == shapes[1] == shapes[2]:
        raise ValueError(f"records must be n contexts of shape (K, {dim}), n actions, n rewards; got shapes {shapes}.")
    return contexts, actions, rewards


def played(contexts: Any, arms: Any, dtype: Any = np.float64) -> Array:
    """Return the features of the played arms, shape (n, d); zeros where an arm does not exist.

    Args:
        contexts: shape (n, K, d).
        arms: shape (n,), or one number for n = 1.
        dtype: of the result; None: that of the contexts.
    """
    x, chosen = np.asarray(contexts), np.atleast_1d(arms)
    exists = (chosen >= 0) & (chosen < x.shape[1]) & (chosen == np.floor(chosen))
    rows = x[np.arange(len(x)), np.where(exists, chosen, 0).astype(np.intp)].astype(dtype or x.dtype, copy=False)
    rows[~exists] = 0
    return rows


def pack(features: Any, reward: Any) -> Floats:
    """Return z = (y x, w svec(x x')) for sanitised records, shape (n, d + d (d + 1) / 2).

    *Formal guarantees.* |z| <= sqrt(1 + w^2) and, replacing the whole record, |z - z'| <= 2 for w^2 <= 1/2: with
    a = x . x' and b = y y', |z - z'|^2 <= 2 (1 + w^2) - 2 (a b + w^2 a^2) <= 2 (1 + w^2) + 2 |a| - 2 w^2 a^2, which
    grows in |a| on [0, 1] for w^2 <= 1/2 and is 4 at |a| = 1. Attained by (x, 1) against (x, -1) with |x| = 1. Records
    that are not finite count as (0, 0), so the bound holds for any input whatever.

    Args:
        features: x, shape (n, d).
        reward: y, shape (n,).
    """
    x, y = sanitise(features, reward)
    return np.concatenate([y[..., None] * x, WEIGHT * svec(x[..., :, None] * x[..., None, :])], axis=-1)


def unpack(packed: Floats, dim: int) -> tuple[Floats, Floats]:
    """Return (sum of x x', sum of y x) from a sum of packed records, shapes (d, d) and (d,)."""
    return smat(packed[dim:] / WEIGHT), packed[:dim]


def noise_of_gram(sigma: float) -> float:
    """Return the standard deviation of an off-diagonal entry of the Gram matrix, given that of a packed coordinate.

    A diagonal entry has sqrt(2) times that: the law of the Gaussian orthogonal ensemble, whose spectral norm is close
    to 2 sqrt(d) times the value returned.
    """
    return sigma / (WEIGHT * math.sqrt(2))


def packed_size(dim: int) -> int:
    """Return d + d (d + 1) / 2."""
    return dim + dim * (dim + 1) // 2


def perturbed_ridge(packed: Floats, dim: int, sigma: float, ridge: float, shift: float) -> tuple[Floats, Floats, float]:
    """Return (A, theta, lambda) with A = Gram + lambda I and theta = A^-1 moment, from a noisy sum of packed records.

    lambda = ridge + shift 2 sqrt(d) s, where s is the noise of an off-diagonal Gram entry; 2 sqrt(d) s is close to the
    spectral norm of the noise, so that shift = 1 covers it in about nine of ten cases. An eigenvalue that falls below
    ridge all the same is raised to it. Post-processing: reads the noisy sum and public constants only.

    Args:
        packed: the noisy sum, shape (d + d (d + 1) / 2,).
        dim: d.
        sigma: standard deviation of the noise in each packed coordinate.
        ridge: > 0.
        shift: >= 0.
    """
    gram, moment = unpack(packed, dim)
    added = ridge + shift * 2 * math.sqrt(dim) * noise_of_gram(sigma)
    values, vectors = np.linalg.eigh(gram + added * np.eye(dim))
    values = np.maximum(values, ridge)
    return (vectors * values) @ vectors.T, vectors @ (vectors.T @ moment / values), added


def best_arm(contexts: Any, scorer: Floats) -> Any:
    """Return argmax of x . theta + width |x|_(A^-1) over the arms, given an ``optimistic_scorer``."""
    scored = contexts @ scorer
    width = np.sqrt((scored[..., :-1] ** 2).sum(axis=-1))
    return (scored[..., -1] + width).argmax(axis=-1)


def optimistic_scorer(a: Floats, theta: Floats, width: float) -> Floats:
    """Return [width A^(-1/2) | theta], shape (d, d + 1): x times it gives the bonus vector and the estimate."""
    root = np.linalg.inv(np.linalg.cholesky(a)).T
    return np.column_stack([width * root, theta])
