"""Symmetric matrices as vectors of the same norm, and what noise on those vectors does to the eigenvalues."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.privacy._validate import count, failure, positive
from privbandit_agents.privacy.mechanisms.additive import Floats, finite


@cache
def above_diagonal(dim: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(dim, 1)


def svec(matrix: NDArray[Any]) -> Floats:
    """Return the diagonal, then sqrt(2) times the upper triangle by rows: shape (..., d, d) to (..., d (d + 1) / 2).

    The l2 norm of the result is the Frobenius norm of the symmetric matrix. Noise of variance v on it is noise of
    variance v on the diagonal and v / 2 off it.

    >>> svec(np.array([[1.0, 2.0], [2.0, 5.0]])).round(2)
    array([1.  , 5.  , 2.83])
    """
    rows, columns = above_diagonal(matrix.shape[-1])
    diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
    return np.concatenate([diagonal, math.sqrt(2) * matrix[..., rows, columns]], axis=-1, dtype=np.float64)


def smat(vector: NDArray[Any]) -> Floats:
    """Return the symmetric matrix of an ``svec``: shape (..., d (d + 1) / 2) to (..., d, d)."""
    dim = math.isqrt(2 * vector.shape[-1])
    rows, columns = above_diagonal(dim)
    matrix = np.zeros((*vector.shape[:-1], dim, dim))
    matrix[..., rows, columns] = vector[..., dim:] / math.sqrt(2)
    matrix += matrix.swapaxes(-1, -2)
    matrix[..., range(dim), range(dim)] = vector[..., :dim]
    return matrix


def repair(matrix: NDArray[Any], floor: float, shift: float = 0.0) -> Floats:
    """Return matrix + shift I with every eigenvalue raised to at least ``floor``: symmetric, positive definite.

    *Formal guarantees.* Post-processing: it costs nothing if ``matrix`` is a release, and ``floor`` and ``shift`` are
    public constants. A matrix with NaN or infinity is refused.

    Args:
        matrix: symmetric, shape (d, d).
        floor: smallest eigenvalue of the result, > 0.
        shift: added to every eigenvalue first, such as ``eigenvalue_bound``.
    """
    values, vectors = np.linalg.eigh(finite(matrix))
    raised: Floats = (vectors * np.maximum(values + shift, positive(floor=floor))) @ vectors.T
    return (raised + raised.T) / 2


def eigenvalue_bound(standard_deviation: float, dim: int, beta: float) -> float:
    """Return a bound that the largest eigenvalue of ``smat`` of Gaussian noise passes with probability at most beta.

    It is standard_deviation (sqrt(2 d) + sqrt(2 log(1 / beta))); see docs/privacy/continual-counting.md. The smallest
    eigenvalue has the same law with the sign changed.

    Args:
        standard_deviation: of every coordinate of the ``svec``, >= 0.
        dim: d of the matrix.
        beta: the probability, in (0, 1).
    """
    return standard_deviation * (math.sqrt(2 * count(dim=dim)) + math.sqrt(-2 * math.log(failure(beta=beta))))
