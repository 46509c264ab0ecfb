"""Linear Thompson sampling for a parameter shared by the arms.

Shipra Agrawal and Navin Goyal, "Thompson Sampling for Contextual Bandits with Linear Payoffs", ICML 2013.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtrmv
from scipy.linalg.lapack import dpstrf

from privbandit_agents.base.settings import NonNegative
from privbandit_agents.base.spaces import Array
from privbandit_agents.base.ties import best
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
    of A^-1 is needed: the law of the action is the same. Arms that share one context have regressions of their own, and
    so independent scores.
    """

    Config = Config

    def choose(self, features: Array, directions: Array, estimates: Array, random: Array | None) -> Array:
        assert random is not None
        if self.shared_context:
            spread = np.sqrt(np.maximum(np.vecdot(directions, features), 0)) * random
        else:
            covariances, spread = directions @ features.mT, np.zeros(random.shape)
            if random.ndim == 1:
                correlate(covariances, random, spread)
            else:
                for user in np.ndindex(random.shape[:-1]):
                    correlate(covariances[user], random[user], spread[user])
        arms: Array = best(estimates + self.config.v * spread, self.ties)
        return arms

    def draw(self, *users: int) -> Array:
        return self.rng.standard_normal((*users, self.n_arms))


def correlate(covariance: Array, normal: Array, spread: Array) -> None:
    """Write R z into zeros, with R R' = covariance, for standard normals z of shape (K,), which are overwritten.

    R is a Cholesky factor with pivots, so that arms may be alike. The covariance of a hostile context counts as 0.
    """
    if math.isfinite(covariance.sum()):
        factor, pivots, rank, _ = dpstrf(covariance, lower=1)
        normal[rank:] = 0.0
        spread[pivots - 1] = dtrmv(factor, normal, lower=1)
