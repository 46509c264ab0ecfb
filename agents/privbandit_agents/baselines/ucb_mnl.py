"""Optimism for contextual multinomial-logit assortments.

Min-hwan Oh and Garud Iyengar, "Multinomial Logit Contextual Bandits: Provable Optimality and Practicality", AAAI 2021,
Algorithm 1 (UCB-MNL).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from privbandit_agents.agent import (
    Agent,
    Array,
    Assortments,
    Space,
    above,
    at_least,
    count,
    plays_assortments,
    positive,
)
from privbandit_agents.choices import Choices, best_sets, random_sets, together


@dataclass(frozen=True)
class Config:
    """Settings of UCB-MNL.

    Attributes:
        exploration_rounds: users T0 who are offered random assortments first, >= 1.
        bonus_scale: c in the width alpha_t = c sqrt(d/2 ln(1 + t/d) + ln t), >= 0; the theory has 1/(2 kappa).
        ridge: penalty ridge |theta|^2 / 2 of the likelihood and start of V, > 0.
        growth: refit when the number of users has grown by this factor, > 1.
    """

    exploration_rounds: int = 50
    bonus_scale: float = 0.1
    ridge: float = 1.0
    growth: float = 1.1

    def __post_init__(self) -> None:
        """Check the ranges."""
        count(exploration_rounds=self.exploration_rounds)
        at_least(0, bonus_scale=self.bonus_scale)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


class UCBMNL(Agent):
    """Offer the best assortment for the utilities x . theta + alpha_t |x|_(V^-1), V = sum over offered items of x x'.

    The likelihood needs every choice: memory grows by 8 K (d + 2) bytes a user.

    Deviations:
        theta, V and alpha_t are brought up to date when the number of users has grown by ``growth``, not for every
        user; in between the policy is frozen. The likelihood has a small ridge, so that it always has a maximum.
    """

    Config = Config

    def __init__(self, observation_space: Space, action_space: Space, config: Any, rng: Generator) -> None:
        """Start with exploration."""
        super().__init__(observation_space, action_space, config, rng)
        assert isinstance(action_space, Assortments) and observation_space.shape is not None
        self.action_space: Assortments = action_space
        self.n_items, self.dim = action_space.n_items, observation_space.shape[1] - 1
        self.capacity = action_space.capacity
        self.choices = Choices(self.capacity, self.dim)
        self.gram = config.ridge * np.eye(self.dim)
        self.in_gram = 0
        self.theta = np.zeros(self.dim)
        self.scorer = np.zeros((self.dim, self.dim + 1))  # [alpha_t V^(-1/2) | theta]
        self.refit_at: int = config.exploration_rounds

    @classmethod
    def plays(cls, observation_space: Space, action_space: Space) -> str:
        """Assortments."""
        return plays_assortments(observation_space, action_space)

    def select_action(self, context: Array) -> Array:
        """Return the assortment that is best for the optimistic utilities; a random one while exploring."""
        if len(self.choices) < self.config.exploration_rounds:
            return random_sets(self.rng, context, self.action_space)
        scored: Array = context[..., :-1] @ self.scorer
        width = np.sqrt((scored[..., :-1] ** 2).sum(axis=-1))
        return best_sets(context, scored[..., -1] + width, self.capacity)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Keep what was offered and bought; refit when it is time."""
        contexts, sets, bought = together(context, action, feedback, (self.n_items, self.dim + 1))
        done = 0
        while done < len(contexts):
            n = min(len(contexts) - done, self.frozen_rounds())
            self.choices.append(*(part[done : done + n] for part in (contexts, sets, bought)))
            done += n
            if len(self.choices) == self.refit_at:
                self._refit()

    def frozen_rounds(self) -> int:
        """Return the number of users before the next refit."""
        return self.refit_at - len(self.choices)

    def _refit(self) -> None:
        t = len(self.choices)
        offered = self.choices.features.view()[self.in_gram :].reshape(-1, self.dim)
        self.gram = self.gram + offered.T @ offered
        self.in_gram = t
        self.theta = self.choices.fit(self.theta, self.config.ridge)
        alpha = self.config.bonus_scale * math.sqrt(self.dim / 2 * math.log(1 + t / self.dim) + math.log(t))
        root = np.linalg.inv(np.linalg.cholesky(self.gram)).T  # V^-1 = root root'
        self.scorer = np.column_stack([alpha * root, self.theta])
        self.refit_at = max(t + 1, math.ceil(t * self.config.growth))
