"""The squared loss of an episode's users: clipped at the door, kept in the smaller of two forms."""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from privbandit_agents.base.rows import ROWS_OF_GRAM, Rows, blocks
from privbandit_agents.base.spaces import Array
from privbandit_agents.joint.sparse.estimate import clipped

Floats = NDArray[np.float64]


class SquaredLoss:
    """The mean of (y - x . theta)^2 over users, with features and rewards clipped on arrival.

    A record with an entry that is not finite counts as (0, 0). It keeps the rows or, with ``gram``, only their Gram
    matrix and moment: d^2 numbers however many users, and gradients at d s instead of n d. Sums are in float64.

    Args:
        dim: d.
        dtype: of the features kept as rows.
        x_max: bound on the sup norm of the features.
        R: bound on the rewards.
        users: how many will come, to make room for.
        gram: whether to keep the Gram matrix.
    """

    def __init__(self, dim: int, dtype: DTypeLike | None, x_max: float, R: float, *, users: int, gram: bool) -> None:
        self.x_max, self.R = x_max, R
        room = min(users, ROWS_OF_GRAM) if gram else users
        self.features, self.rewards = Rows((dim,), dtype, room), Rows((), np.float64, room)
        self.matrix = np.zeros((dim, dim) if gram else (0, 0))
        self.moment = np.zeros(dim)
        self.users = 0

    def add(self, features: Array, rewards: Array) -> None:
        """Take in users, features of shape (n, d) and rewards of shape (n,)."""
        self.users += len(features)
        for xs, ys in blocks(self._room, *clipped(features, rewards, self.x_max, self.R)):
            self.features.size = len(self.rewards)  # what an interrupted call left of others goes
            self.features.append(xs)
            self.rewards.append(ys)
            if self._room() == 0:
                self._flush()

    def gradient(self) -> Callable[[Floats], Floats]:
        """Return theta -> -(2/n) sum of x (y - x . theta), shape (d,); it reads the support of theta only."""
        scale = 2 / self.users
        if self.matrix.size:
            self._flush()
            return lambda theta: scale * (on_support(self.matrix, theta) - self.moment)
        x, y = self._rows(), self.rewards.view()
        return lambda theta: scale * ((on_support(x, theta) - y) @ x)

    def _room(self) -> int:
        """Return how many rows there is room for before they are added to the Gram matrix."""
        return ROWS_OF_GRAM - len(self.features) if self.matrix.size else sys.maxsize

    def _rows(self) -> Floats:
        x = self.features.view().astype(np.float64)
        return np.clip(x, -self.x_max, self.x_max, out=x)  # rounding to a shorter type may have gone beyond

    def _flush(self) -> None:
        x, y = self._rows(), self.rewards.take()
        self.features.take()
        self.matrix += x.T @ x
        self.moment += y @ x


def on_support(matrix: Floats, theta: Floats) -> Floats:
    """Return matrix theta from the columns where theta is not 0."""
    support = np.flatnonzero(theta)
    product: Floats = matrix[:, support] @ theta[support]
    return product
