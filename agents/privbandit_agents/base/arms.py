"""What agents that play arms share: checking and stacking records, the played features, and the optimistic arm."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]


def stacked_records(context: ArrayLike, action: ArrayLike, feedback: ArrayLike, dim: int) -> tuple[Any, Any, Floats]:
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


def played(contexts: ArrayLike, arms: ArrayLike, dtype: DTypeLike | None = np.float64) -> Array:
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


def best_arm(contexts: Array, scorer: Floats) -> Any:
    """Return argmax of x . theta + width |x|_(A^-1) over the arms, given an ``optimistic_scorer``."""
    scored = contexts @ scorer
    width = np.sqrt((scored[..., :-1] ** 2).sum(axis=-1))
    return (scored[..., -1] + width).argmax(axis=-1)


def optimistic_scorer(a: Floats, theta: Floats, width: float) -> Floats:
    """Return [width A^(-1/2) | theta], shape (d, d + 1): x times it gives the bonus vector and the estimate."""
    return np.column_stack([width * np.linalg.inv(np.linalg.cholesky(a)).T, theta])
