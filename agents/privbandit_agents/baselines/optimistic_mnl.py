"""Optimism for contextual multinomial-logit assortments, by bounds or by samples.

Min-hwan Oh and Garud Iyengar, "Multinomial Logit Contextual Bandits: Provable Optimality and Practicality", AAAI 2021,
Algorithm 1 (UCB-MNL); "Thompson Sampling for Multinomial Logit Contextual Bandits", NeurIPS 2019, the second algorithm
(TS-MNL with optimistic sampling).
"""

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from privbandit_agents.base.arms import optimistic_scorer
from privbandit_agents.base.settings import Count, NonNegative
from privbandit_agents.base.spaces import Array
from privbandit_agents.baselines.mnl import MNLAgent, MNLSettings
from privbandit_agents.privacy.contributions.moments import inverse_root


@dataclass(frozen=True)
class WidthSettings(MNLSettings):
    """Settings of agents with a confidence width.

    Attributes:
        bonus_scale: c in the width alpha_t = c sqrt(d/2 ln(1 + t/d) + ln t), >= 0; the theory has 1/(2 kappa).
    """

    bonus_scale: NonNegative = 0.1


W = TypeVar("W", bound=WidthSettings)


class WidthAgent(MNLAgent[W]):
    """An agent with a confidence width: ``scorer`` is [alpha_t V^(-1/2) | theta]."""

    def begin(self) -> None:
        super().begin()
        self.scorer = np.zeros((self.dim, self.dim + 1))

    def refit(self) -> None:
        super().refit()
        t = self.users
        alpha = self.config.bonus_scale * math.sqrt(self.dim / 2 * math.log(1 + t / self.dim) + math.log(t))
        self.scorer = optimistic_scorer(inverse_root(self.gram), self.theta, alpha)


class UCBMNL(WidthAgent[WidthSettings]):
    """Offer the best assortment for the utilities x . theta + alpha_t |x|_(V^-1), V = sum over offered items of x x'.

    Deviations:
        theta, V and alpha_t are brought up to date when the number of users has grown by ``growth``, not for every
        user; in between the policy is frozen. The likelihood has a small ridge, so that it always has a maximum.
    """

    Config = WidthSettings

    def utilities(self, context: Array) -> Array:
        scored: Array = context[..., :-1] @ self.scorer
        bounds: Array = scored[..., -1] + np.sqrt((scored[..., :-1] ** 2).sum(axis=-1))
        return bounds


@dataclass(frozen=True)
class Config(WidthSettings):
    """Settings of TS-MNL.

    Attributes:
        samples: draws M of theta for every user, >= 1; default: enough for all K items to have an optimistic one with
            constant probability, 1 - ln K / ln(1 - 1/(4 sqrt(e pi))) (27 for K = 10).
    """

    samples: Count | None = None

    def draws(self, capacity: int) -> int:
        """Return M for sets of ``capacity`` items."""
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
