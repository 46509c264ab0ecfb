"""The inputs that devices hand to a randomizer: the one call that makes reports, which tests can watch and repeat."""

from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from privbandit_agents.privacy.accounting.costs import Cost

Array = NDArray[Any]
Arithmetic: TypeAlias = Literal["exact", "real"]
"""Numbers that a guarantee holds for: those that leave, or real ones in their place."""

ENTRIES_AT_ONCE = 2**20
"""Most numbers in the reports that are made and absorbed together, if one report has fewer."""


class Randomizer(Protocol):
    """What makes reports."""

    @property
    def epsilon(self) -> float:
        """What one report promises; with Gaussian noise, at the delta that it was calibrated to."""

    def randomize(self, cells: Array, values: Array | None, rng: Generator) -> Array:
        """Draw the reports of n users, given their cells (n,) and values (n, D)."""

    def log_likelihood(self, reports: Array, cell: int, value: Array | None = None) -> NDArray[np.float64]:
        """Return the log density of each report if the input were (cell, value), shape (n,)."""


class Device(Randomizer, Protocol):
    """A randomizer whose reports are added up: ``LocalRandomizer``, ``GaussianReport`` or ``NoisyProducts``."""

    @property
    def cost(self) -> Cost:
        """What one report costs."""

    @property
    def cells(self) -> int:
        """M."""

    @property
    def entries(self) -> int:
        """How many numbers an estimate has."""

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in a coordinate of an estimate."""

    @property
    def by_counts(self) -> Literal["", "exact", "normal"]:
        """Whether sums of estimates are drawn at once; ``"normal"``: from their normal limit."""

    @property
    def fewest_summed(self) -> float:
        """From how many users on ``total`` of one user an input may stand for their reports; infinity: never."""

    def estimate(self, reports: Array) -> NDArray[np.float64]:
        """Return unbiased estimates, one row a report."""

    def total(self, cells: Array, vectors: Any, rng: Generator, counts: Array | None = None) -> NDArray[np.float64]:
        """Draw the sum of the estimates at once, of one user an input, or of ``counts[i]``: for simulation."""


class Inputs(NamedTuple):
    """The inputs of the devices of n users, and their randomizer.

    Attributes:
        randomizer: makes one report a user.
        cells: shape (n,), -1 for inactive users; 0 where there is one cell.
        values: shape (n, D), or None.
    """

    randomizer: Randomizer
    cells: Array
    values: Array | None

    def randomize(self, rng: Generator) -> Array:
        """Draw the reports, one a user."""
        return self.randomizer.randomize(self.cells, self.values, rng)

    def log_likelihood(self, reports: Array, user: int) -> NDArray[np.float64]:
        """Return the log density of each report if it came from that one of the users, shape (n,)."""
        value = None if self.values is None else self.values[user]
        return self.randomizer.log_likelihood(reports, int(self.cells[user]), value)


class InOrder(Protocol):
    """Users of a locally private agent who come one after the other; asked for the first, then for the next."""

    def choose(self, user: int) -> int:
        """Return the arm of a user, by the user's context and the server's current state."""

    def randomize(self, user: int, arm: int, answer: float) -> Array:
        """Return all that leaves the device of that user."""

    def absorb(self, report: Array) -> None:
        """Let the server learn from a report."""


def arithmetic_of(randomizer: object) -> Arithmetic:
    """Return the arithmetic that a randomizer's promise holds for; ``"real"`` if it declares none."""
    return "exact" if getattr(randomizer, "arithmetic", "real") == "exact" else "real"


def inputs_of(randomizer: Randomizer, vectors: Array) -> Inputs:
    """Return the inputs of a randomizer with one cell: a vector of each user, shape (n, D)."""
    return Inputs(randomizer, np.zeros(len(vectors), np.intp), vectors)
