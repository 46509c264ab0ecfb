"""Linear Thompson sampling for a parameter shared by the arms.

Shipra Agrawal and Navin Goyal, "Thompson Sampling for Contextual Bandits with Linear Payoffs", ICML 2013.
"""

from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.settings import NonNegative
from privbandit_agents.baselines.ridge import RidgeAgent, RidgeSettings


@dataclass(frozen=True)
class Config(RidgeSettings):
    """Settings of linear Thompson sampling.

    Attributes:
        v: scale of the posterior N(theta, v^2 A^-1), >= 0.
    """

    v: NonNegative = 0.5


class LinTS(RidgeAgent[Config]):
    """Play the arm with the largest x . theta~ for theta~ drawn from N(theta, v^2 A^-1).

    The scores of the K arms are jointly N(X theta, v^2 X A^-1 X'), so K Gaussians are drawn instead of d and no root
    of A^-1 is needed: the law of the action is the same.
    """

    Config = Config

    def choose(self, features: Array, scored: Array) -> Array:
        covariance = scored[..., :-1] @ np.swapaxes(features, -1, -2)
        covariance[~np.isfinite(covariance).all(axis=(-2, -1))] = 0.0  # of a hostile context
        values, vectors = np.linalg.eigh((covariance + np.swapaxes(covariance, -1, -2)) / 2)
        normal = self.rng.standard_normal(features.shape[:-1])
        spread = vectors @ (np.sqrt(np.maximum(values, 0)) * normal)[..., None]
        arms: Array = (scored[..., -1] + self.config.v * spread[..., 0]).argmax(axis=-1)
        return arms
