"""Vectors: their lengths and bounds, and symmetric matrices as vectors of the same norm."""

import math
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from privbandit_agents.privacy._validate import count, failure, positive

Floats = NDArray[np.float64]
LIMIT = 1e6
"""Numbers of raw records are clipped to this size before any product, so that nothing can overflow.

Agents without privacy ignore records of a larger length.
"""


def lengths(rows: Floats) -> Floats:
    """Return the l2 norms of rows (..., D), shape (..., 1): to the bit as ``numpy.linalg.norm``, at half its cost.

    >>> lengths(np.array([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0], [1.0]]
    """
    squared: Floats = np.add.reduce(rows * rows, axis=-1, keepdims=True)
    return np.sqrt(squared, out=squared)


def length(row: Floats) -> float:
    """Return the l2 norm of one row, to the bit of ``lengths``."""
    return math.sqrt(np.add.reduce(row * row))


def lengths_beside(rows: Floats, radius: float) -> tuple[Floats, float]:
    """Return the l2 norms of rows (..., D), shape (..., 1), and the radius, both in units of a power of two near it.

    So no square of a row that is longer than the radius underflows; a norm above 10^154 radii is infinite. Where
    squares neither underflow nor overflow, ratios to the radius are those of ``lengths``, to the bit.

    >>> norms, radius = lengths_beside(np.array([[3e-200, 4e-200]]), 1e-200)
    >>> (norms / radius).round(9).tolist()
    [[5.0]]
    """
    unit = math.frexp(radius)[1]
    with np.errstate(over="ignore"):
        return lengths(np.ldexp(rows, -unit)), math.ldexp(radius, -unit)


def modest(numbers: NDArray[Any], bound: float) -> bool:
    """Return whether all squares add up to at most the bound's: then no number is NaN, infinite or beyond the bound.

    It takes one pass over the numbers and warns of nothing. False says nothing about any of them.

    >>> modest(np.array([[3.0, -4.0]]), 5.0), modest(np.array([np.nan]), 5.0), modest(np.array([1e200]), 1e100)
    (True, False, False)
    """
    flat = numbers.ravel()
    if bound < 1e-150:  # its square is none
        return False
    within = not flat.size or scipy.linalg.blas.ddot(flat, flat) <= bound * bound  # numpy would warn of an overflow
    return bool(within)


def finite(value: ArrayLike) -> Floats:
    """Return the value as a float64 array; raise ValueError if an entry is not finite."""
    array = np.asarray(value, dtype=np.float64)
    if not modest(array, 1e100) and not np.isfinite(array).all():
        raise ValueError("a released value must be finite; got NaN or infinity (not shown: it may be raw data).")
    return array


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


@cache
def entries(dim: int) -> tuple[NDArray[np.intp], Floats]:
    """Return which number of an ``svec`` each entry of its matrix is, and how many times as large, (d, d) each."""
    places, (rows, columns) = np.diag(np.arange(dim)), above_diagonal(dim)
    places[rows, columns] = places[columns, rows] = dim + np.arange(len(rows))
    return places, np.where(np.eye(dim, dtype=bool), 1.0, math.sqrt(2))


def smat(vector: NDArray[Any]) -> Floats:
    """Return the symmetric matrix of an ``svec``: shape (..., d (d + 1) / 2) to (..., d, d)."""
    places, sizes = entries(math.isqrt(2 * vector.shape[-1]))
    return np.asarray(vector.take(places, axis=-1) / sizes)


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
