"""Greedy play on a ridge regression, with a random arm now and then."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.settings import Fraction
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import Told, best, largest
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings
from privbandit_envs.changing.masks import uniform_over


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
        greedy: Array = best(estimates, self.ties)
        if random is None:
            return greedy
        explore, present = random[..., 0] < self.config.exploration, self.ties.present
        if present is None:
            arms = (random[..., 1] * self.n_arms).astype(int)
        else:
            arms = best(np.zeros(estimates.shape), Told(random[..., 1].reshape(-1), present))
        if explore.ndim:
            return np.where(explore, arms, greedy)
        return arms if explore else greedy

    def draw(self, *users: int) -> Array | None:
        return None if self.config.exploration == 0 else self.rng.random((*users, 2))

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return exploration / K for each arm that is present, and the rest for those of the largest estimate."""
        estimates, share = self.predict(contexts), self.config.exploration
        greedy, any_arm = (
            uniform_over(largest(values, self.visit.mask)) for values in (estimates, np.zeros_like(estimates))
        )
        return Probabilities.of((1 - share) * greedy + share * any_arm)
