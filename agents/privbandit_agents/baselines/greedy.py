"""Greedy play on a ridge regression, with a random arm now and then."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.agent import Array
from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.settings import Fraction
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings


@dataclass(frozen=True)
class GreedySettings(RidgeSettings):
    """Settings of greedy play.

    Attributes:
        exploration: probability of a uniformly random arm, in [0, 1].
    """

    exploration: Fraction = 0.05


class EpsilonGreedy(RidgeAgent[GreedySettings]):
    """Play the arm with the largest x . theta, but now and then any arm; ``exploration=0`` is greedy play."""

    Config = GreedySettings

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        best: Array = estimates.argmax(axis=-1)
        if random is None:
            return best
        explore, arms = random[..., 0] < self.config.exploration, random[..., 1] * self.n_arms
        if explore.ndim:
            return np.where(explore, arms.astype(int), best)
        return arms.astype(int) if explore else best

    def draw(self, *users: int) -> Array | None:
        return None if self.config.exploration == 0 else self.rng.random((*users, 2))

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return 1 - exploration + exploration / K for the arm of the largest estimate, exploration / K for others."""
        best, share = self.predict(contexts).argmax(axis=-1), self.config.exploration
        return Probabilities.of((1 - share) * np.eye(self.n_arms)[best] + share / self.n_arms)
