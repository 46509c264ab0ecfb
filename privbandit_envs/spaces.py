"""The action space of assortment problems."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
from gymnasium.spaces import MultiBinary
from gymnasium.vector.utils import batch_space
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import count


class Assortments(MultiBinary):
    """Sets of at most ``capacity`` of ``n_items`` items, as 0/1 vectors.

    Args:
        n_items: number of items N.
        capacity: largest size K of a set, at most N.
        seed: seed of ``sample``.
        batch: leading shape; an element of a space with ``batch=(n,)`` holds one assortment for each of n users.

    Raises:
        ValueError: a size is not an integer >= 1, or the capacity exceeds the number of items.

    Examples:
        >>> space = Assortments(n_items=5, capacity=2, seed=0)
        >>> int(space.sample().sum())
        2
        >>> np.array([1, 0, 0, 0, 1], np.int8) in space, np.array([1, 1, 1, 0, 0], np.int8) in space
        (True, False)
    """

    def __init__(
        self, n_items: int, capacity: int, seed: int | Generator | None = None, *, batch: Sequence[int] = ()
    ) -> None:
        items = count(n_items=n_items)
        # one integer where there is no batch, as clients of MultiBinary expect
        super().__init__([*batch, items] if batch else items, seed=seed)
        if count(capacity=capacity) > n_items:
            raise ValueError(f"capacity must be at most n_items = {n_items}; got {capacity}.")
        self.n_items, self.capacity = n_items, capacity

    def sample(self, mask: NDArray[np.int8] | None = None, probability: ArrayLike | None = None) -> NDArray[np.int8]:
        """Return a uniformly random set of exactly ``capacity`` items.

        Args:
            mask: 0 keeps an item out, 1 puts it in, 2 leaves it to chance; at most ``capacity`` ones.
            probability: relative chance of each item, for weighted sampling without replacement.

        Raises:
            ValueError: both are given, or the mask puts in too many items.
        """
        if mask is not None and probability is not None:
            raise ValueError("Only one of mask and probability can be given.")
        keys = -np.log(self.np_random.random(self.shape))  # exponential clocks: the first K to ring are in
        if mask is not None:
            keys = np.where(mask == 2, keys, np.where(mask == 1, -np.inf, np.inf))
        elif probability is not None:
            with np.errstate(divide="ignore"):
                keys = keys / np.asarray(probability, dtype=float)
        chosen = top_k(-keys, self.capacity)
        chosen[np.isposinf(keys)] = 0
        if mask is not None and not self.contains(chosen | (mask == 1)):
            raise ValueError(f"mask puts in more than {self.capacity} items.")
        return chosen

    def contains(self, x: object) -> bool:
        """Return whether x is a 0/1 vector of the right shape with at most ``capacity`` ones."""
        return super().contains(x) and bool((np.asarray(x).sum(axis=-1) <= self.capacity).all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assortments) and (self.shape, self.capacity) == (other.shape, other.capacity)

    def __repr__(self) -> str:
        batch = f", batch={self.shape[:-1]}" if len(self.shape) > 1 else ""
        return f"Assortments({self.n_items}, {self.capacity}{batch})"


@batch_space.register(Assortments)
def _batch_assortments(space: Assortments, n: int = 1) -> Assortments:
    generator = deepcopy(space.np_random)  # as Gymnasium batches its own spaces: equal ones sample alike
    return Assortments(space.n_items, space.capacity, generator, batch=(n, *space.shape[:-1]))


def top_k(scores: NDArray[np.number], k: int) -> NDArray[np.int8]:
    """Return 0/1 vectors that mark the k largest entries along the last axis; ties are broken in any way.

    Examples:
        >>> top_k(np.array([[0.3, 0.1, 0.2], [1.0, 2.0, 3.0]]), 2)
        array([[1, 0, 1],
               [0, 1, 1]], dtype=int8)
    """
    n = scores.shape[-1]
    if k >= n:
        return np.ones(scores.shape, dtype=np.int8)
    threshold = np.partition(scores, n - k, axis=-1)[..., n - k, None]
    chosen = (scores >= threshold).view(np.int8)
    tied = chosen.sum(axis=-1) != k  # rows with ties at the threshold, or with NaN scores
    if tied.any():
        rows = np.argpartition(scores[tied], n - k, axis=-1)[..., n - k :]
        fixed = np.zeros_like(chosen[tied])
        np.put_along_axis(fixed, rows, 1, axis=-1)
        chosen[tied] = fixed
    return chosen
