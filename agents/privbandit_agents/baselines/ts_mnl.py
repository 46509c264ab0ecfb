"""Thompson sampling for contextual multinomial-logit assortments.

Min-hwan Oh and Garud Iyengar, "Thompson Sampling for Multinomial Logit Contextual Bandits", NeurIPS 2019, the second
algorithm: TS-MNL with optimistic sampling.
"""

import math
from dataclasses import dataclass

import numpy as np

from privbandit_agents.base.agent import Array
from privbandit_agents.base.settings import Count
from privbandit_agents.baselines.mnl import WidthAgent, WidthSettings


@dataclass(frozen=True)
class Config(WidthSettings):
    """Settings of TS-MNL.

    Attributes:
        samples: draws M of theta for every user, >= 1; default: enough for all K items to have an optimistic one with
            constant probability, 1 - ln K / ln(1 - 1/(4 sqrt(e pi))) (27 for K = 10).
    """

    samples: Count | None = None

    def draws(self, capacity: int) -> int:
        """Return M for sets of so many items."""
        return self.samples or math.ceil(1 - math.log(capacity) / math.log(1 - 1 / (4 * math.sqrt(math.e * math.pi))))


class TSMNL(WidthAgent[Config]):
    """Offer the best assortment for the largest of M sampled utilities of every item.

    For every user M parameters are drawn from N(theta, alpha_t^2 V^-1); an item counts as worth max_m x . theta_m.

    Deviations:
        theta, V and alpha_t are brought up to date when the number of users has grown by ``growth``, not for every
        user, and alpha_t is UCB-MNL's, scaled by ``bonus_scale`` in place of the theory's constant. The likelihood has
        a small ridge, so that it always has a maximum.
    """

    Config = Config

    def utilities(self, context: Array) -> Array:
        """Return the largest sampled utilities; a user's draws are the same however users are grouped."""
        single = context.ndim == 2
        x = context[None, :, :-1] if single else context[..., :-1]
        normal = self.rng.standard_normal((len(x), self.config.draws(self.capacity), self.dim))
        drawn = normal @ self.scorer[:, :-1].T + self.scorer[:, -1]
        largest: Array = (x @ np.swapaxes(drawn, 1, 2)).max(axis=-1)
        return largest[0] if single else largest
