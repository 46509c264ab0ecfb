"""A report with Gaussian noise, in the shape of a local randomizer: what (epsilon, delta) agents have on devices.

Cynthia Dwork and Aaron Roth, "The Algorithmic Foundations of Differential Privacy", 2014. Proof:
docs/privacy/regression-moments.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.randomizer import Arithmetic, Array, Floats


@dataclass(frozen=True)
class GaussianReport:
    """One report a user: its vector of R^D with independent Gaussian noise on every coordinate.

    *Formal guarantees.* Those of ``mechanism`` for the largest distance of two vectors, which the caller has bounded:
    nothing is clipped here.

    Attributes:
        mechanism: the noise.
        epsilon: what one report costs, at the delta that goes with it.
    """

    mechanism: Gaussian
    epsilon: float

    @property
    def arithmetic(self) -> Arithmetic:
        """``"exact"`` where OpenDP draws the noise."""
        return "exact" if self.mechanism.noise == "secure" else "real"

    def randomize(self, cells: Array, values: Array | None, rng: Generator) -> Array:
        """Draw the reports of n users with vectors ``values`` (n, D); there is one cell, so ``cells`` is not read."""
        return self.mechanism.release(np.zeros((len(cells), 0)) if values is None else values, rng)

    def log_likelihood(self, reports: Array, cell: int, value: Array | None = None) -> Floats:
        """Return the log density of each report if the input were the vector ``value`` (D,), shape (n,)."""
        return self.mechanism.log_density(reports, np.zeros(0) if value is None else value)
