"""Optimism for contextual multinomial-logit assortments.

Min-hwan Oh and Garud Iyengar, "Multinomial Logit Contextual Bandits: Provable Optimality and Practicality", AAAI 2021,
Algorithm 1 (UCB-MNL).
"""

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.baselines.mnl import WidthAgent, WidthSettings


class UCBMNL(WidthAgent[WidthSettings]):
    """Offer the best assortment for the utilities x . theta + alpha_t |x|_(V^-1), V = sum over offered items of x x'.

    Deviations:
        theta, V and alpha_t are brought up to date when the number of users has grown by ``growth``, not for every
        user; in between the policy is frozen. The likelihood has a small ridge, so that it always has a maximum.
    """

    Config = WidthSettings

    def utilities(self, context: Array) -> Array:
        scored: Array = context[..., :-1] @ self.scorer
        width = np.sqrt((scored[..., :-1] ** 2).sum(axis=-1))
        bounds: Array = scored[..., -1] + width
        return bounds
