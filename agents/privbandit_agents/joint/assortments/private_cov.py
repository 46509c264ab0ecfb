"""PrivateCov: the running Gram matrix of the offers, released by a continual counter.

Cho and Sun, "Privacy-Preserving Dynamic Assortment Selection", Algorithm 3, Lemma S5 and Lemma S6.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.settings import CounterName, fitting_counter
from privbandit_agents.privacy.mechanisms.counters import MOST_BYTES, Counter
from privbandit_agents.privacy.vectors import eigenvalue_bound, repair, smat, svec


def gram_sensitivity(capacity: int, radius: float) -> float:
    """Return sqrt(2) K R^2: by how much, in Frobenius norm, one user's sum of x x' can change.

    *Formal guarantees.* The sum A of at most K terms x x' with |x| <= R is positive semidefinite with Frobenius norm at
    most K R^2. <A, A'> >= 0 for two such matrices, so |A - A'|^2 <= |A|^2 + |A'|^2 <= 2 K^2 R^4: replacement, for any
    two users. K times R e1 against K times R e2 attains it.
    """
    return math.sqrt(2) * capacity * radius**2


class PrivateCov:
    """Count the offered users' Gram matrices, and turn the counter's releases into a positive definite V_t.

    *Formal guarantees.* rho-zCDP of all releases together, under replacement of one user's whole record, if the users'
    Gram matrices keep to ``sensitivity`` in Frobenius norm (which is the l2 norm of their ``svec``). ``matrix`` reads
    the last release and public constants.

    Args:
        counter: ``"tree"``, ``"toeplitz"`` or ``"buffered"``; None: the second, or the third if that does not fit.
        horizon: number of users T.
        dim: number of features d.
        sensitivity: of one user's Gram matrix, > 0.
        floor: least eigenvalue of V_t, > 0.
        rho: > 0; infinity adds no noise.
        rng_counter: of the counter's noise.
        published: shift V_t as in Lemma S6.
        room: bytes that the Toeplitz counter may take by default.
    """

    def __init__(
        self,
        counter: CounterName | None,
        horizon: int,
        dim: int,
        sensitivity: float,
        floor: float,
        rho: float,
        rng_counter: Generator,
        published: bool = False,
        room: int = MOST_BYTES,
    ) -> None:
        self.dim, self.floor, self.published = dim, floor, published
        size = dim * (dim + 1) // 2
        self.counter = fitting_counter(counter, horizon, size, room)(horizon, size, sensitivity, rho, rng_counter)
        self.release = np.zeros(dim * (dim + 1) // 2)

    def extend(self, features: Array, publish: Callable[[Counter, Array, Callable[[], Array]], Array]) -> None:
        """Take in n users who were offered items with features (n, K, d), padded with zeros (lines 5 to 8)."""
        terms = svec(features.swapaxes(1, 2) @ features)
        self.release = publish(self.counter, terms, partial(self.counter.extend, terms))[-1]

    def shift(self) -> float:
        """Return lambda: eigenvalues of the last release's noise exceed it with probability 1/T^2 at most."""
        beta = min(1 / self.counter.horizon**2, 0.5)
        if self.published:
            return self.counter.scale * math.sqrt(self.counter.horizon.bit_length()) * lemma_s6(self.dim, beta)
        return eigenvalue_bound(self.counter.standard_deviation(self.counter.t), self.dim, beta)

    def matrix(self) -> Array:
        """Return V_t, symmetric and positive definite (Alg. 1, line 14)."""
        return repair(smat(self.release), self.floor, (2 if self.published else 1) * self.shift())


def lemma_s6(dim: int, beta: float) -> float:
    """Return Lemma S7's bound on the norm of a symmetric d x d matrix of standard Gaussians (d = 1: by its limit)."""
    log, third = math.log(dim), math.cbrt(math.log(dim) / dim)
    last = 6 * (1 + third) * math.sqrt(log / math.log1p(third)) if dim > 1 else 0.0
    return 2 * math.sqrt(dim) + 2 * math.cbrt(math.sqrt(dim) * log) + last + 2 * math.sqrt(-2 * math.log(beta))
