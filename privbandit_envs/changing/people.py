"""Worlds with users drawn from finitely many people: in which order they come, and how often one comes again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from privbandit_envs.validate import at_least, count, one_of, shown

Array = NDArray[Any]
Ids = NDArray[np.int64]
LAWS = ("uniform", "zipf", "in-turn")
WITH, WITHOUT, IN_ORDER = "with-replacement", "without-replacement", "in-order"
POPULATIONS = (WITH, WITHOUT, IN_ORDER)


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


def rows_in_turn(people: int, start: int, n: int, rng: Generator, population: str = WITH) -> Ids:
    """Return who users are: everybody once in a random order, then independent draws.

    With ``population="without-replacement"`` all come in that order again and again, with ``"in-order"`` in that of
    the rows.
    """
    if population == IN_ORDER:
        return (start + np.arange(n)) % people
    if population == WITHOUT:
        return in_turn(start, n, people, rng)
    drawn = (rng.random(n) * people).astype(np.int64)
    fresh = min(max(people - start, 0), n)
    if fresh:
        drawn[:fresh] = in_turn(start, fresh, people, rng)
    return drawn


def check_everyone_once(horizon: int, people: int, population: str) -> None:
    """Raise ValueError if an episode has more users than there are people, and nobody is to come twice."""
    if population != WITH and horizon > people:
        raise ValueError(
            f"horizon must be at most {people}, the number of people, with population={population!r}; got {horizon}."
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
    return most_drawn(draws, np.array([1 / people]), people)


def most_drawn(draws: int, chances: NDArray[np.float64], alike: int = 1) -> int:
    """Return the least k with ``alike`` times the sum of P(Bin(draws, chance) > k) over the chances at most 1 %."""
    from scipy.special import bdtrc

    low, high = -1, draws  # nobody is drawn more often than there are draws
    while high - low > 1:
        k = (low + high) // 2
        enough = alike * bdtrc(k, draws, chances).sum() <= 0.01
        low, high = (low, k) if enough else (k, high)
    return high


@dataclass(frozen=True)
class Returns:
    """A number of people, and how they come again.

    Attributes:
        people: how many there are.
        law: ``"uniform"``: every user is one of them at random; ``"zipf"``: person i = 1, 2, ... with a chance in
            proportion to 1/i; ``"in-turn"``: all come in the same order, again and again.
        spread: how much the contexts of a person differ from visit to visit, >= 0: 0 not at all, 1 as much as people
            differ; None: a visit has a new context, whoever comes.

    Raises:
        ValueError: a value out of range.

    Examples:
        >>> Returns(1000, "zipf").visits(100_000)
        13610
    """

    people: int
    law: str = "uniform"
    spread: float | None = None

    def __post_init__(self) -> None:
        count(people=self.people), one_of(LAWS, returns=self.law)
        if self.spread is not None:
            at_least(0, person_spread=self.spread)

    @classmethod
    def of(cls, people: int | None, returns: str, spread: float | None) -> "Returns | None":
        """Return an environment's people, or None if everyone is new.

        Raises:
            ValueError: a value out of range, or one that only people who come again have.
        """
        if people is not None:
            return cls(people, returns, spread)
        for name, value, new in (("returns", returns, "uniform"), ("person_spread", spread, None)):
            if value != new:
                raise ValueError(f"{name} is for people who come again: give people, too; got {shown(value)}.")
        return None

    @cached_property
    def ends(self) -> NDArray[np.float64]:
        """Chances of people up to each one, shape (people,), the last of them 1."""
        ends = np.cumsum(1.0 / np.arange(1, self.people + 1))
        return np.asarray(ends / ends[-1])

    def draw(self, start: int, n: int, rng: Generator) -> Ids:
        """Return who users ``start``, ..., ``start + n - 1`` are, 0, ..., people - 1; one draw a user, or none."""
        if self.law == "in-turn":
            return (start + np.arange(n)) % self.people
        u = rng.random(n)
        if self.law == "uniform":
            return (u * self.people).astype(np.int64)
        return np.searchsorted(self.ends, u, side="right").astype(np.int64)

    def visits(self, users: int) -> int:
        """Return how often one person comes at most among this number of users, but for a probability of 1 %."""
        if self.law == "in-turn":
            return -(-users // self.people)
        if self.law == "uniform":
            return most_visits(users, self.people)
        return most_drawn(users, np.diff(self.ends, prepend=0.0))
