"""SquareCB: regression turned into exploration by inverse gap weighting.

Dylan Foster and Alexander Rakhlin, "Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles", ICML
2020. The oracle is a ridge regression.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.settings import Count, Positive
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings


@dataclass(frozen=True)
class Config(RidgeSettings):
    """Settings of SquareCB.

    Attributes:
        gamma: how fast an arm's probability falls with its gap, > 0; None: ``scale`` sqrt(K T / (p log(1 + T))) for K
            arms and p parameters, the paper's rate for a regression error that grows like p log T.
        scale: of that rate, > 0; 1 is the theory, which explores far more than is good at practical horizons.
        horizon: number of users T, for the rate; default: the environment's.
    """

    gamma: Positive | None = None
    scale: Positive = 10.0
    horizon: Count | None = None


class SquareCB(RidgeAgent[Config]):
    """Play an arm that seems worse by a gap g with probability 1 / (K + gamma g), else the arm that seems best."""

    Config = Config

    def begin(self) -> None:
        super().begin()
        users, parameters = self.config.horizon or 10_000, self.regression.matrices[..., 0].size
        rate = math.sqrt(self.n_arms * users / (parameters * math.log(1 + users)))
        self.gamma = self.config.gamma or self.config.scale * rate

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        assert random is not None
        best, others = self.others(estimates)
        reached = others.cumsum(axis=-1)  # a uniform number beyond all of them stands for the best arm
        passed = (reached <= random).sum(axis=-1)
        arms: Array = np.where(passed < self.n_arms, passed, best)[()]  # no array for one user
        return arms

    def others(self, estimates: Array) -> tuple[Array, Array]:
        """Return the arm that seems best, shape (...), and the probabilities of the others, shape (..., K)."""
        best = estimates.argmax(axis=-1)
        gaps = estimates.max(axis=-1, keepdims=True) - estimates
        return best, np.where(np.arange(self.n_arms) == best[..., None], 0.0, 1 / (self.n_arms + self.gamma * gaps))

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return the probabilities by which ``choose`` draws; an estimate that is not a number takes the rest."""
        best, others = self.others(self.predict(contexts))
        known = ~np.isnan(others.cumsum(axis=-1))
        law = np.where(known, others, 0.0)
        left = np.where(known.all(axis=-1), best, known.sum(axis=-1))
        rest = 1 - law.sum(axis=-1, keepdims=True)
        return Probabilities.of(law + rest * (np.arange(self.n_arms) == left[..., None]))

    def draw(self, *users: int) -> Array:
        return self.rng.random((*users, 1))
