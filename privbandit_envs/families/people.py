"""Worlds with users drawn from finitely many people: in which order they come, and how often one comes again."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

Array = NDArray[Any]
WITH, WITHOUT = "with-replacement", "without-replacement"
POPULATIONS = (WITH, WITHOUT)


def order_of(people: int, rng: Generator) -> NDArray[np.int64]:
    """Return the random order of people that a generator's seed decides, so that it is no state that must be saved."""
    seed = cast(SeedSequence, rng.bit_generator.seed_seq)
    return _order(people, seed.entropy, seed.spawn_key)


@lru_cache(maxsize=8)
def _order(people: int, entropy: int | Sequence[int] | None, spawn_key: tuple[int, ...]) -> NDArray[np.int64]:
    # apart from other generators of the seed
    return default_rng(SeedSequence(entropy, spawn_key=(*spawn_key, 1_000_003))).permutation(people)


def in_turn(start: int, n: int, people: int, rng: Generator) -> NDArray[np.int64]:
    """Return who the users ``start``, ..., ``start + n - 1`` are if all come in a random order, again and again."""
    return order_of(people, rng)[(start + np.arange(n)) % people]


def rows_in_turn(rows: Array, start: int, n: int, rng: Generator, population: str = WITH) -> Array:
    """Return the rows of users: those of everybody once in a random order, then of independent draws.

    With ``population="without-replacement"`` all come in that order again and again.
    """
    if population == WITHOUT:
        return np.asarray(rows[in_turn(start, n, len(rows), rng)])
    drawn = (rng.random(n) * len(rows)).astype(np.int64)
    fresh = min(max(len(rows) - start, 0), n)
    if fresh:
        drawn[:fresh] = in_turn(start, fresh, len(rows), rng)
    return np.asarray(rows[drawn])


def check_everyone_once(horizon: int, people: int, population: str) -> None:
    """Raise ValueError if an episode has more users than there are people, and nobody is to come twice."""
    if population == WITHOUT and horizon > people:
        raise ValueError(
            f"horizon must be at most {people}, as many as there are people, with population={WITHOUT!r}; "
            f"got {horizon}."
        )


def most_visits(draws: int, people: int) -> int:
    """Return how often one person of this number is drawn at most, but for a probability of 1 %.

    Draws are independent, with replacement. The union bound over people is used: k with people P(Bin(draws, 1/people)
    > k) <= 0.01.

    >>> most_visits(20_000, people=134)
    198

    Args:
        draws: >= 0.
        people: >= 1.
    """
    from scipy.special import bdtrc

    mean = draws // people
    k = np.arange(mean, min(draws, 4 * mean + 1000) + 1)
    # exceeded with a probability of 1 % at most
    return int(k[(people * bdtrc(k, draws, 1 / people) <= 0.01).argmax()])
