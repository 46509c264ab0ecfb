"""A report with Gaussian noise, in the shape of a local randomizer: what (epsilon, delta) agents have on devices.

Cynthia Dwork and Aaron Roth, "The Algorithmic Foundations of Differential Privacy", 2014. Proof:
docs/privacy/regression-moments.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.privacy.accounting.costs import Cost, approximate
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.randomizer import Arithmetic, Array, Floats, dense


@dataclass(frozen=True)
class GaussianReport:
    """One report a user: its vector of R^D with independent Gaussian noise on every coordinate.

    *Formal guarantees.* Those of ``mechanism`` for the largest distance of two vectors, which the caller has bounded:
    nothing is clipped here.

    Attributes:
        mechanism: the noise.
        epsilon, delta: what one report costs.
        entries: D.
    """

    mechanism: Gaussian
    epsilon: float
    delta: float = 0.0
    entries: int = 1
    cells: ClassVar[int] = 1

    @property
    def cost(self) -> Cost:
        return approximate(self.epsilon, self.delta)

    @property
    def deviation(self) -> float:
        return self.mechanism.sigma

    @property
    def by_counts(self) -> Literal["", "exact"]:
        return "exact" if self.mechanism.noise == "numpy" else ""

    @property
    def fewest_summed(self) -> float:
        return 1 if self.by_counts else math.inf

    @property
    def arithmetic(self) -> Arithmetic:
        """``"exact"`` where OpenDP draws the noise."""
        return "exact" if self.mechanism.noise == "secure" else "real"

    def randomize(self, cells: Array, values: Array | None, rng: Generator) -> Array:
        """Draw the reports of n users with vectors ``values`` (n, D); there is one cell, so ``cells`` is not read."""
        return self.mechanism.release(np.zeros((len(cells), 0)) if values is None else values, rng)

    def estimate(self, reports: Array) -> Floats:
        return reports

    def total(self, cells: Array, vectors: Any, rng: Generator, counts: Array | None = None) -> Floats:
        """Draw the sum of the reports, shape (D,): of one user a vector, or of ``counts[i]``."""
        if counts is None:
            exact = vectors.sum(axis=0) if isinstance(vectors, np.ndarray) else vectors.sum()
            return self.mechanism.release_sum(exact, len(vectors), rng)
        return self.mechanism.release_sum(counts @ dense(vectors), int(counts.sum()), rng)

    def log_likelihood(self, reports: Array, cell: int, value: Array | None = None) -> Floats:
        """Return the log density of each report if the input were the vector ``value`` (D,), shape (n,)."""
        return self.mechanism.log_density(reports, np.zeros(0) if value is None else value)
