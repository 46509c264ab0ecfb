"""The inputs that devices hand to a randomizer: the one call that makes reports, which tests can watch and repeat."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[Any]
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


def inputs_of(randomizer: Randomizer, vectors: Array) -> Inputs:
    """Return the inputs of a randomizer with one cell: a vector of each user, shape (n, D)."""
    return Inputs(randomizer, np.zeros(len(vectors), np.intp), vectors)
