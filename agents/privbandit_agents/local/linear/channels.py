"""How vectors leave users' devices, and what the server reads of the reports."""

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.privacy.accounting.ledger import Cost, pure
from privbandit_agents.privacy.mechanisms.additive import Gaussian
from privbandit_agents.privacy.randomizers.inputs import NoisyProducts
from privbandit_agents.privacy.randomizers.randomizer import LocalRandomizer


class Channel(ABC):
    """One report a user, and an unbiased estimate from it.

    Attributes:
        cost: privacy cost of one report.
        size: length of an estimate.
        sigma: standard deviation of a coordinate's noise in one report.
        by_counts: whether sums of reports are drawn at once: exactly, or from their normal limit.
    """

    cost: Cost
    size: int
    sigma: float
    by_counts: Literal["", "exact", "normal"]

    @abstractmethod
    def report(self, vectors: Array, rng: Generator) -> Array:
        """Draw the reports of users with vectors (n, D)."""

    def decode(self, report: Array) -> Array:
        """Return unbiased estimates of what the server adds up, shape (n, size)."""
        return report

    @abstractmethod
    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        """Draw the sum of ``decode(report(vectors))`` over ``counts[i]`` users of each vector, shape (size,)."""


class GaussianChannel(Channel):
    """Gaussian noise.

    Args:
        mechanism: calibrated to the largest distance of two vectors.
        cost: of one report.
        size: length D of a vector.
    """

    def __init__(self, mechanism: Gaussian, cost: Cost, size: int) -> None:
        self.mechanism, self.cost, self.size = mechanism, cost, size
        self.sigma = mechanism.sigma
        self.by_counts = "exact" if mechanism.noise == "numpy" else ""

    def report(self, vectors: Array, rng: Generator) -> Array:
        return self.mechanism.release(vectors, rng)

    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        return self.mechanism.release_sum(counts @ vectors, int(counts.sum()), rng)


class RandomizerChannel(Channel):
    """Reports of a LocalRandomizer with one cell.

    *Formal guarantees.* Pure epsilon-local DP of one report: the randomizer's likelihood ratio is at most e^epsilon for
    any two vectors.
    """

    def __init__(self, randomizer: LocalRandomizer) -> None:
        self.randomizer, self.size = randomizer, randomizer.dim
        self.cost, self.sigma = pure(randomizer.epsilon), randomizer.variance(own=True) ** 0.5
        self.by_counts = "exact" if randomizer.exact_sum else "normal"

    def report(self, vectors: Array, rng: Generator) -> Array:
        return self.randomizer.randomize(np.zeros(len(vectors), dtype=int), vectors, rng)

    def decode(self, report: Array) -> Array:
        return self.randomizer.estimate(report)[:, 0]

    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        cells = np.zeros(len(vectors), dtype=int)
        total: Array = self.randomizer.approximate_sum(cells, vectors, rng, counts)[0]
        return total


class ProductsChannel(RandomizerChannel):
    """Reports of vectors v with Laplace noise, of which the server adds up estimates of svec(v v').

    Sums of products of Laplace noise have no closed form: without noise they are exact, else normal.
    """

    def __init__(self, products: NoisyProducts) -> None:
        super().__init__(products.randomizer)
        self.products, self.size = products, self.size * (self.size + 1) // 2
        self.by_counts = "exact" if np.isinf(self.randomizer.epsilon) else "normal"

    def decode(self, report: Array) -> Array:
        return self.products.estimate(report)

    def report_sum(self, vectors: Array, counts: Array, rng: Generator) -> Array:
        return self.products.approximate_sum(vectors, rng, counts)
