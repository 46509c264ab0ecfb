"""What non-private agents for multinomial-logit assortments share: explore, keep every choice, refit now and then."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from privbandit_agents.base.agent import Agent, Array, C, assortments
from privbandit_agents.base.choices import Choices, best_sets, random_sets, stacked_records
from privbandit_envs.spaces import Assortments
from privbandit_envs.validate import above, at_least, count, positive


@dataclass(frozen=True)
class MNLConfig:
    """Settings that all of them have.

    Attributes:
        exploration_rounds: users T0 who are offered random assortments first, >= 1.
        ridge: penalty ridge |theta|^2 / 2 of the likelihood and start of V, > 0.
        growth: refit when the number of users has grown by this factor, > 1.
    """

    exploration_rounds: int = 50
    ridge: float = 1.0
    growth: float = 1.1

    def __post_init__(self) -> None:
        """Check the ranges."""
        count(exploration_rounds=self.exploration_rounds)
        positive(ridge=self.ridge)
        above(1, growth=self.growth)


@dataclass(frozen=True)
class WidthConfig(MNLConfig):
    """Settings of those with a confidence width.

    Attributes:
        bonus_scale: c in the width alpha_t = c sqrt(d/2 ln(1 + t/d) + ln t), >= 0; the theory has 1/(2 kappa).
    """

    bonus_scale: float = 0.1

    def __post_init__(self) -> None:
        """Check the ranges."""
        super().__post_init__()
        at_least(0, bonus_scale=self.bonus_scale)


class MNLAgent(Agent[C]):
    """Offer random assortments to the first users, then the best ones for utilities that a subclass names.

    The likelihood needs every choice: memory grows by 8 K (d + 2) bytes a user. theta, its maximiser, and V = ridge I +
    sum over offered items of x x' are brought up to date when the number of users has grown by ``growth``.
    """

    def begin(self) -> None:
        """Start with exploration."""
        super().begin()
        assert isinstance(self.action_space, Assortments) and self.observation_space.shape is not None
        self.action_space: Assortments = self.action_space
        self.n_items, self.dim = self.action_space.n_items, self.observation_space.shape[1] - 1
        self.capacity = self.action_space.capacity
        self.choices = Choices(self.capacity, self.dim)
        self.gram = self.config.ridge * np.eye(self.dim)
        self.in_gram = 0
        self.theta = np.zeros(self.dim)
        self.refit_at: int = self.config.exploration_rounds

    plays = staticmethod(assortments)

    @abstractmethod
    def utilities(self, context: Array) -> Array:
        """Return what the items are taken to be worth to one user or to n, shape (..., N)."""

    def select_action(self, context: Array) -> Array:
        """Return the assortment that is best for the utilities; a random one while exploring."""
        if len(self.choices) < self.config.exploration_rounds:
            return random_sets(self.rng, context, self.capacity)
        return best_sets(context, self.utilities(context), self.capacity)

    def update(self, context: Array, action: Any, feedback: Any) -> None:
        """Keep what was offered and bought; refit when it is time."""
        contexts, sets, bought = stacked_records(context, action, feedback, (self.n_items, self.dim + 1))
        done = 0
        while done < len(contexts):
            n = min(len(contexts) - done, self.frozen_rounds())
            self.choices.append(*(part[done : done + n] for part in (contexts, sets, bought)))
            done += n
            if len(self.choices) == self.refit_at:
                self.refit()

    def frozen_rounds(self) -> int:
        """Return the number of users before the next refit."""
        return self.refit_at - len(self.choices)

    def refit(self) -> None:
        """Bring V and theta up to date."""
        t = len(self.choices)
        offered = self.choices.features.view()[self.in_gram :].reshape(-1, self.dim)
        self.gram = self.gram + offered.T @ offered
        self.in_gram = t
        self.theta = self.choices.fit(self.theta, self.config.ridge)
        self.refit_at = max(t + 1, math.ceil(t * self.config.growth))


class WidthAgent(MNLAgent[C]):
    """One that also keeps a root of V^-1 times the width: ``scorer`` is [alpha_t V^(-1/2) | theta]."""

    def begin(self) -> None:
        """Start with exploration."""
        super().begin()
        self.scorer = np.zeros((self.dim, self.dim + 1))

    def refit(self) -> None:
        """Bring V, theta and the width up to date."""
        super().refit()
        t = len(self.choices)
        alpha = self.config.bonus_scale * math.sqrt(self.dim / 2 * math.log(1 + t / self.dim) + math.log(t))
        root = np.linalg.inv(np.linalg.cholesky(self.gram)).T  # V^-1 = root root'
        self.scorer = np.column_stack([alpha * root, self.theta])
