"""Greedy and epsilon-greedy ridge regression."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from privbandit_agents.base.agent import uniforms_per_user
from privbandit_agents.baselines.ridge import Array, RidgeAgent
from privbandit_envs.validate import fraction, positive


@dataclass(frozen=True)
class Config:
    """Settings of greedy play.

    Attributes:
        exploration: probability of a uniformly random arm, in [0, 1].
        ridge: regularisation of A = ridge I + sum x x', > 0.
    """

    exploration: float = 0.05
    ridge: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        fraction(exploration=self.exploration)
        positive(ridge=self.ridge)


class EpsilonGreedy(RidgeAgent[Config]):
    """Play the arm with the largest x . theta, but now and then any arm; ``exploration=0`` is greedy play."""

    Config = Config

    def choose(self, features: Array, scored: Array) -> Any:
        """Return argmax of the estimates, or random arms."""
        best = scored[..., -1].argmax(axis=-1)
        if self.config.exploration == 0:
            return best
        luck, arm = np.moveaxis(uniforms_per_user(self.rng, features, features.shape[-2:], 2), -1, 0)
        return np.where(luck < self.config.exploration, (arm * self.n_arms).astype(int), best)[()]
