"""Canaries whose records are terms of a counter: how their coins are read from all of its releases."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit_agents.audits.claims import Floats
from privbandit_agents.privacy.mechanisms.counters import Counter


def columns(counter: Counter, users: int) -> Floats:
    """Return the part of each user's term of 1 in the whitened releases, shape (users, users)."""
    return np.asarray(counter.whiten(np.tri(users)))


def strongest(counter: Counter, users: int) -> NDArray[np.intp]:
    """Return who of the first half of the users moves the releases far: all of a Toeplitz counter, few of a tree."""
    norms = np.linalg.norm(columns(counter, users), axis=0)
    # canaries move whitened releases nearly as far as any user does
    return np.flatnonzero(norms[: users // 2] >= 0.85 * norms.max())


@dataclass(frozen=True)
class Decoder:
    """Turn releases after every user into canaries' scores, each a projection of a coordinate.

    Attributes:
        projection: of the releases, shape (k, users).
        coordinates: in which each canary's term is, shape (k,).
        covers: effect of a term of 1 of the canary in each column on the score in each row, shape (k, k).
    """

    projection: Floats
    coordinates: NDArray[np.intp]
    covers: Floats

    @classmethod
    def of(cls, counter: Counter, users: int, canaries: NDArray[np.intp], coordinates: NDArray[np.intp]) -> "Decoder":
        """Project a counter's releases, whitened, on what each canary's term moves.

        If the noise is the counter's and everybody else is known, no other score is better.
        """
        shown = columns(counter, users)[:, canaries]
        alike = coordinates[:, None] == coordinates
        return cls(shown.T @ counter.whiten(np.eye(users)), coordinates, shown.T @ shown * alike)

    def __call__(self, released: Floats) -> Floats:
        """Return the scores (k,), given the releases after every user, shape (users, coordinates)."""
        return np.asarray(np.vecdot(self.projection, released[:, self.coordinates].T))
