"""Greedy play on a ridge regression, with a random arm now and then."""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.rows import uniforms_per_user
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

    def choose(self, features: Array, scored: Array) -> Array:
        best: Array = scored[..., -1].argmax(axis=-1)
        if self.config.exploration == 0:
            return best
        explore, arm = np.moveaxis(uniforms_per_user(self.rng, features, features.shape[-2:], 2), -1, 0)
        return np.where(explore < self.config.exploration, (arm * self.n_arms).astype(int), best)[()]
