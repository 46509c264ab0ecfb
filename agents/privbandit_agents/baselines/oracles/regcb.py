"""RegCB: confidence bounds from all regressions that fit nearly as well as the best one.

Dylan Foster, Alekh Agarwal, Miroslav Dudik, Haipeng Luo and Robert Schapire, "Practical Contextual Bandits with
Regression Oracles", ICML 2018. For linear functions the bounds have a closed form.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from privbandit_agents.base.law import Probabilities
from privbandit_agents.base.settings import Count, LateSettings, NonNegative
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import best, largest
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings
from privbandit_envs.changing.masks import uniform_over


@dataclass(frozen=True)
class Config(RidgeSettings, LateSettings):
    """Settings of RegCB.

    Attributes:
        variant: ``"optimistic"`` plays the arm with the largest upper bound; ``"elimination"`` any arm, uniformly,
            with an upper bound that reaches the largest lower one.
        scale: a regression fits nearly as well if its squared loss is larger by at most ``scale`` log(1 + T), >= 0.
        horizon: number of users T; default: the environment's.
    """

    variant: Literal["optimistic", "elimination"] = "optimistic"
    scale: NonNegative = 0.1
    horizon: Count | None = None


class RegCB(RidgeAgent[Config]):
    """Play by x . theta -+ sqrt(scale log(1 + T) x' A^-1 x), cut to [-1, 1]: the range of near-best predictions."""

    Config = Config
    optimistic = True

    def begin(self) -> None:
        super().begin()
        self.width = math.sqrt(self.config.scale * math.log(1 + (self.config.horizon or 10_000)))

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        lower, upper = self.bounds(features, directions, estimates)
        if random is None:
            random = upper
        else:
            random = np.where(self.possible(lower, upper), random, -1.0)
        arms: Array = best(random, self.ties)
        return arms

    def bounds(self, features: Array, directions: Array, estimates: Array) -> tuple[Array, Array]:
        """Return the bounds of every arm's mean reward, shape (..., K)."""
        width = self.width * np.sqrt(np.maximum(np.vecdot(directions, features), 0.0))
        return np.maximum(estimates - width, -1.0), np.minimum(estimates + width, 1.0)

    @staticmethod
    def possible(lower: Array, upper: Array) -> Array:
        """Return which arms may be best, shape (..., K); none if no bound is a number."""
        return np.asarray(upper >= np.fmax.reduce(lower, axis=-1, keepdims=True))

    def law(self, contexts: Array, draws: int, rng: Generator) -> Probabilities:
        """Return the uniform law of the arms that may be best; of all, if no bound is a number."""
        if self.config.variant == "optimistic":
            return super().law(contexts, draws, rng)
        features = self.features(contexts)
        scored = self.scored(features)
        lower, upper = self.bounds(features, scored[..., :-1], scored[..., -1])
        return Probabilities.of(uniform_over(largest(self.possible(lower, upper), self.visit.mask)))

    def draw(self, *users: int) -> Array | None:
        return None if self.config.variant == "optimistic" else self.rng.random((*users, self.n_arms))
