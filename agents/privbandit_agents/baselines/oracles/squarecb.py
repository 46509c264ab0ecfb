"""SquareCB: regression turned into exploration by inverse gap weighting.

Dylan Foster and Alexander Rakhlin, "Beyond UCB: Optimal and Efficient Contextual Bandits with Regression Oracles", ICML
2020. The oracle is a ridge regression.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.settings import Count, Positive
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import best, largest
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings
from privbandit_envs.changing.masks import uniform_over


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
        seems = best(estimates, self.ties)
        others = np.where(np.arange(self.n_arms) == seems[..., None], 0.0, self.shares(estimates, self.ties.present))
        reached = others.cumsum(axis=-1)  # a uniform number beyond all of them stands for the best arm
        passed = (reached <= random).sum(axis=-1)
        arms: Array = np.where(passed < self.n_arms, passed, seems)[()]  # no array for one user
        return arms

    def shares(self, estimates: Array, present: Array | None) -> Array:
        """Return the probability of every arm if it is not the one that seems best, shape (..., K).

        It is 0 for NaN, and for an arm that is absent.
        """
        arms: Any = self.n_arms
        if present is not None:
            estimates, arms = np.where(present, estimates, math.nan), np.sum(present, axis=-1, keepdims=True)
        gaps = np.fmax.reduce(estimates, axis=-1, keepdims=True) - estimates
        return np.asarray(np.fmax(1 / (arms + self.gamma * gaps), 0.0))

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return the probabilities by which ``choose`` draws: arms that seem best share what the others leave."""
        estimates = self.predict(contexts)
        equal = largest(estimates, self.visit.mask)
        others = np.where(equal, 0.0, self.shares(estimates, self.visit.mask))
        return Probabilities.of(others + (1 - others.sum(axis=-1, keepdims=True)) * uniform_over(equal))

    def draw(self, *users: int) -> Array:
        return self.rng.random((*users, 1))
