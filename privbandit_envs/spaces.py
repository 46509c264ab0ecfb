"""The action space of assortment problems, and the units of contexts and rewards."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, MultiBinary
from gymnasium.vector.utils import batch_space
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from privbandit_envs.validate import count, numbers, shown


@dataclass(frozen=True)
class Units:
    """Public bounds of an environment's rewards and features, by which private agents scale before they clip.

    An environment, a wrapper or a ``Problem`` declares them as its attribute ``units``; ``Units()`` declares that
    agents take contexts and rewards as they are. Bounds are no secret: choose them without a look at private data.

    Attributes:
        rewards: (low, high). Agents whose arms have features divide by the larger one of |low| and |high|, all others
            move the range to [0, 1].
        contexts: what features are divided by, > 0: a number, or one for each feature, the last axis of a context.
            The result is to lie in the unit ball if arms have features of their own, in the unit cube if arms are
            labels, and to have about unit variance if arms share a context.

    Raises:
        ValueError: bounds that are not finite, not increasing, or not positive.

    Examples:
        >>> Units(rewards=(0, 50), contexts=[100, 1e5])
        Units(rewards=(0.0, 50.0), contexts=(100.0, 100000.0))
        >>> Units(rewards=(50, 0))
        Traceback (most recent call last):
        ValueError: rewards must be (low, high) with low < high; got (50, 0).
    """

    rewards: tuple[float, float] | None = None
    contexts: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.rewards is not None:
            low, high = numbers(2, rewards=self.rewards).tolist()
            if not low < high:
                raise ValueError(f"rewards must be (low, high) with low < high; got {shown(self.rewards)}.")
            object.__setattr__(self, "rewards", (low, high))
        if self.contexts is not None:
            scale = numbers(np.size(self.contexts), contexts=np.atleast_1d(self.contexts)).tolist()
            if min(scale) <= 0:
                raise ValueError(f"contexts must be divided by numbers > 0; got {shown(self.contexts)}.")
            object.__setattr__(self, "contexts", tuple(scale) if np.ndim(self.contexts) else scale[0])

    @property
    def plain(self) -> bool:
        """Whether nothing is scaled."""
        return self.rewards is None and self.contexts is None

    def note(
        self, agent: Any, contexts: NDArray[Any], actions: NDArray[Any], feedback: NDArray[Any], counts: Any = 1
    ) -> None:
        """See records as an agent gets them; who counts what is clipped in a simulation overrides this."""

    def of_contexts(self, contexts: NDArray[Any]) -> NDArray[Any]:
        """Return contexts, or public features, in an agent's units."""
        if self.contexts is None:
            return contexts
        with np.errstate(all="ignore"):  # no record of anybody warns
            return np.asarray(contexts / np.asarray(self.contexts, np.float64), contexts.dtype)

    def of_rewards(self, rewards: NDArray[Any], signed: bool, back: bool = False) -> NDArray[Any]:
        """Return rewards in an agent's units, [-1, 1] if ``signed`` and else [0, 1]; ``back``: from them."""
        if self.rewards is None:
            return rewards
        low, high = self.rewards
        start, width = (0.0, max(abs(low), abs(high))) if signed else (low, high - low)
        with np.errstate(all="ignore"):
            return start + rewards * width if back else (rewards - start) / width

    def of_space(self, space: Any) -> Any:
        """Return a space of contexts in an agent's units."""
        if self.contexts is None or not isinstance(space, Box):
            return space
        return Box(self.of_contexts(space.low), self.of_contexts(space.high), dtype=space.dtype.type)


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


def in_unit_cube(x: NDArray[Any], space: Any) -> NDArray[Any]:
    """Return numbers in [0, 1]: from [-1, 1] moved linearly, from a wider space by the normal distribution function."""
    if (space.high > 1).any() or (space.low < -1).any():
        from scipy.special import ndtr  # only where contexts are unbounded

        return np.asarray(ndtr(x))
    return x if (space.low >= 0).all() else (1 + x) / 2


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
